// The first script of the page: from here on every scan is kept while everything else is still loading. A code is stored at
// once and removed when it is in the queue, so that reloading a busy device loses none; it has its id already, so none is
// queued twice.

import { enrolmentOf, mayBeBadge } from "./codes.js";
import { listen } from "./scanner.js";
import { moment, newId, signedIn } from "./session.js";

export { newId };

const KEPT = "edge-caught";
let pending = read();
let handle = null;
let isKept = (code, raw) => !mayBeBadge(code) && !mayBeBadge(raw ? raw.typed : ""); // a badge is stored nowhere
let showRaw = () => {};
let divert = () => false;
let awaited = null; // the person whose badge was scanned, until the sign-in is answered

listen(document.getElementById("catcher"), take, (name, isText) => showRaw(name, isText));
document.body.dataset.listening = String(Math.round(performance.now()));

/** A code came, by a scanner or by the camera; `raw` is the text before cleaning. */
export function take(code, raw) {
  const by = awaited === null ? signedIn() : null;
  const one = { id: newId(), code, raw, at: Date.now(), era: moment(), by, awaited }; // not when it is processed
  if (awaited === null && divert(one, raw)) return;
  if (isKept(code, raw) && !enrolmentOf(code)) {
    pending.push(one);
    write();
  }
  if (handle) handle(one);
}

/** From now on each code is first offered to `takes(one, raw)`, which stores it itself if it returns true. */
export function divertTo(takes) {
  divert = takes;
}

/**
 * From now on each code is passed to `onCode` as it arrives. Codes that arrived earlier, or that a page that was closed too
 * early left behind, are returned in order. Codes are stored only if `isScan(code, raw)`; `onRaw` receives each key and text as
 * it arrives.
 */
export function handOver(onCode, isScan, onRaw) {
  [handle, isKept, showRaw] = [onCode, isScan, onRaw];
  return [...pending];
}

/** What was caught since `at` is this person's, once signed in. Null: from now on it is again whoever is signed in. */
export function expectSignIn(person, at) {
  awaited = person;
  for (const one of pending) if (person !== null && one.at >= at) Object.assign(one, { by: null, awaited });
  write();
}

export function forget(id) {
  pending = pending.filter((one) => one.id !== id);
  write();
}

export function forgetAll(ids) {
  if (!pending.length) return;
  const all = new Set(ids);
  pending = pending.filter((one) => !all.has(one.id));
  write();
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) || [];
  } catch {
    return []; // edited by hand
  }
}

function write() {
  try {
    localStorage.setItem(KEPT, JSON.stringify(pending));
  } catch {
    // No room: it goes on to the queue, which says whether it could be stored.
  }
}
