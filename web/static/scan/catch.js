// The first script of the page: from here on whatever is scanned is kept, while all the rest is still on its way. A code
// is noted at once and forgotten when it is in the queue, so that a reload of a busy device loses none; it has its id
// already, so none is kept twice.

import { listen } from "./scanner.js";

const KEPT = "edge-caught";
let pending = read();
let handle = null;
let isKept = () => true;
let showRaw = () => {};

listen(document.getElementById("catcher"), take, (name, isText) => showRaw(name, isText));
document.body.dataset.listening = String(Math.round(performance.now()));

/** A code came, by a scanner or by the camera; `raw` is what it was before it was cleaned. */
export function take(code, raw) {
  const one = { id: newId(), code, raw, at: Date.now() }; // now, not when its turn comes
  if (isKept()) {
    pending.push(one);
    write();
  }
  if (handle) handle(one);
}

/**
 * From now on each code is given to `onCode` as it comes; those that came before, and those that a page that was closed
 * too early left behind, are returned in their order. Codes are noted only while `isScan()`; `onRaw` gets each key and
 * text as it arrives.
 */
export function handOver(onCode, isScan, onRaw) {
  [handle, isKept, showRaw] = [onCode, isScan, onRaw];
  return [...pending];
}

export function forget(id) {
  pending = pending.filter((one) => one.id !== id);
  write();
}

export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID(); // only on https, and not in old browsers
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) || [];
  } catch {
    return []; // spoilt by hand
  }
}

function write() {
  localStorage.setItem(KEPT, JSON.stringify(pending));
}
