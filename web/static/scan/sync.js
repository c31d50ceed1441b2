// Sends what the device keeps: after each scan, when the connection is back, by timer and at page load.
// Always in order, always in batches; an id that was answered before gets the same answer again.

import * as queue from "./queue.js";

const BATCH = 50;
const EVERY = 8000;

export const link = { state: "unknown", me: null, waiting: 0 }; // state: ok, offline, signed-out, trouble, other-site
let running = null;
let again = false;
let tell = () => {};

export function start(onChange) {
  tell = onChange;
  addEventListener("online", flush);
  document.addEventListener("visibilitychange", () => document.hidden || flush());
  setInterval(flush, EVERY);
  return flush();
}

/** Send all that waits. Called while it runs, it runs once more afterwards. */
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
      const all = await queue.waiting();
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

const onTheWire = ({ id, undo, code, place, at, person }) => (undo ? { id, undo, person } : { id, code, place, at, person });

/** The site's clock, as far as this device knows it. */
export const siteNow = () => Date.now() + (link.me?.skew || 0);

async function report(results) {
  link.waiting = await queue.countWaiting();
  await tell(results);
}

async function greet() {
  link.me = await ask("/scan/state");
  link.me.skew = link.me.now - Date.now();
  await queue.save("me", link.me);
  link.state = "ok";
}

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout?.(15000), ...options,
      headers: { Accept: "application/json", ...options.headers } });
  } catch {
    throw failure("offline", "No connection");
  }
  if (answer.status === 401) throw failure("signed-out", "Sign in again");
  if (answer.status === 304) return null;
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw failure("trouble", body.error || `The server answered ${answer.status}`, answer.status);
  if (options.etag) options.etag(answer.headers.get("ETag"));
  return body;
}

export async function post(path, body) {
  const send = () => ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": link.me?.csrf || "" },
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
