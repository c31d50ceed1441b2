// Sends what the device stores: after each scan, when the connection returns, by timer and at page load. Always in order
// and in batches; an id that was answered before gets the same answer again.

import * as queue from "./queue.js";
import { t } from "./texts.js";

const BATCH = 50;
const EVERY = 8000;

// state: unknown, ok, offline, signed-out, trouble, other-site; `held` of those `waiting` are without a clear location
export const link = { state: "unknown", me: null, waiting: 0, held: [] };
let running = null;
let again = false;
let tell = () => {};

export function start(onChange) {
  tell = onChange;
  addEventListener("online", flush);
  addEventListener("offline", () => { link.state = "offline"; report([]); });
  document.addEventListener("visibilitychange", () => document.hidden || flush());
  setInterval(flush, EVERY);
  return flush();
}

/** Send everything that waits. If it is called while it runs, it runs once more afterwards. */
export function flush() {
  if (running) again = true;
  else running = run().finally(() => {
    running = null;
    if (again) {
      again = false;
      flush();
    }
  });
  return running;
}

async function run() {
  try {
    if (!link.me || link.state !== "ok") await greet();
    while (link.state === "ok") {
      const all = (await queue.waiting()).filter((item) => !item.held);
      const own = all.filter((item) => [null, link.me.organization].includes(item.organization)).slice(0, BATCH);
      if (!own.length) {
        if (all.length) link.state = "other-site";
        break;
      }
      const { results } = await post("/scan/batch", { sent_at: Date.now(), items: own.map(onTheWire) });
      await queue.settle(results);
      await report(results);
    }
  } catch (error) {
    link.state = error.state || "offline";
  }
  await report([]);
}

function onTheWire({ id, undo, act, code, locationId, choice, at, person, take, onto, off, ...more }) {
  if (undo) return { id, undo, person };
  if (act) return { id, act, at, person, location: locationId, asset: more.asset, stock_take: more.stock_take,
    with_sublocations: more.with_sublocations, expected: more.expected };
  return { id, code, location: locationId, choice, at, person, stock_take: take, onto, off };
}

/** The site's clock, as far as this device knows it. */
export const siteNow = () => Date.now() + ((link.me && link.me.skew) || 0);

/** Count and show what waits: before anything is said about it, and when a response takes long. */
export const recount = () => report([]);

async function report(results) {
  const all = await queue.waiting();
  link.held = all.filter((item) => item.held);
  link.waiting = all.length;
  await tell(results);
}

export async function greet() {
  const me = await ask("/scan/state");
  link.me = { ...me, skew: me.now - Date.now() };
  await queue.save("me", link.me);
  link.state = "ok";
}

export async function ask(path, options = {}) {
  let answer;
  try {
    const signal = AbortSignal.timeout ? AbortSignal.timeout(15000) : undefined;
    answer = await fetch(path, { cache: "no-store", signal, ...options,
      headers: { Accept: "application/json", ...options.headers } });
  } catch {
    throw failure("offline", t("No connection"));
  }
  if (answer.status === 401) throw failure("signed-out", t("Sign in again"));
  if (answer.status === 304) return null;
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw failure("trouble", body.error || t("The server answered {status}", { status: answer.status }), answer.status);
  }
  if (options.etag) options.etag(answer.headers.get("ETag"));
  return body;
}

export async function post(path, body) {
  const send = () => ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": (link.me && link.me.csrf) || "" },
    body: JSON.stringify(body),
  });
  try {
    return await send();
  } catch (error) {
    if (error.status !== 403) throw error;
    await greet(); // somebody signed in again meanwhile: the token is another one
    return send();
  }
}

function failure(state, message, status = 0) {
  return Object.assign(new Error(message), { state, status });
}
