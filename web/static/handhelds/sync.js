// Sends what the device stores: after each scan, when the connection returns, by timer and at page load. Always in order
// and in batches; an id that was answered before gets the same answer again.

import * as clock from "./clock.js";
import * as holds from "./holds.js";
import * as queue from "./queue.js";
import { t } from "./texts.js";

const BATCH = 50;
const EVERY = 8000;
const DEADLINE = 15000; // ms, for an answer with its body

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
      const waiting = await queue.waiting();
      const all = waiting.filter((item) => !item.held);
      const own = all.filter((item) => [null, link.me.organization].includes(item.organization)).slice(0, BATCH);
      if (!own.length) {
        if (all.length) link.state = "other-site";
        break;
      }
      const times = clock.siteTimes(waiting);
      await clock.noteSent(own, times);
      const { results } = await post("/scan/batch", {
        items: own.map((item) => onTheWire(item, times.get(item.id))), ...(await holds.report()),
      });
      await queue.settle(results);
      await report(results);
    }
  } catch (error) {
    link.state = error.state || "offline";
  }
  await report([]);
}

/** `at`: when it was made, by the site's clock. `session`: in which it was made, if that was somebody else's. */
function onTheWire({ id, undo, act, code, locationId, choice, take, onto, off, ...more }, at) {
  const session = more.person && more.person !== link.me.person ? more.session : undefined;
  if (undo) return { id, undo, at, session, stock_take: take };
  if (act) return { id, act, at, session, location: locationId, asset: more.asset, stock_take: more.stock_take,
    with_sublocations: more.with_sublocations, expected: more.expected, lines: more.lines };
  return { id, code, asset: more.assetId, location: locationId, choice, at, session, stock_take: take, onto, off };
}

/** Count and show what waits: before anything is said about it, and when a response takes long. */
export const recount = () => report([]);

async function report(results) {
  const all = await queue.waiting();
  link.held = all.filter((item) => item.held);
  link.waiting = all.length;
  await tell(results);
}

export async function greet() {
  link.me = await ask("/scan/state");
  await queue.save("me", link.me);
  link.state = "ok";
}

/** Ask the server; after DEADLINE it counts as no connection. Chrome has AbortSignal.timeout only since version 103. */
export async function ask(path, options = {}) {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), DEADLINE);
  try {
    return await exchange(path, { ...options, signal: abort.signal });
  } finally {
    clearTimeout(timer);
  }
}

async function exchange(path, options) {
  const offline = () => { throw failure("offline", t("No connection")); };
  const asked = Date.now();
  const answer = await fetch(path, { cache: "no-store", ...options,
    headers: { Accept: "application/json", ...options.headers } }).catch(offline);
  const answered = Date.now();
  if (answer.status === 401) throw failure("signed-out", t("Sign in again"));
  if (answer.status === 304) return null;
  const text = await answer.text().catch(offline);
  const body = parse(text);
  if (!answer.ok) {
    throw failure("trouble", body.error || t("The server answered {status}", { status: answer.status }), answer.status);
  }
  if (body.now) clock.note(asked, answered, body.now);
  if (options.etag) options.etag(answer.headers.get("ETag"));
  return body;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {}; // an error page
  }
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
