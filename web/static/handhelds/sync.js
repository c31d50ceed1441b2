// Sends what the device stores: after each scan, when the connection returns, by timer and at page load. Always in order
// and in batches; an id that was answered before gets the same answer again.

import { newId } from "./catch.js";
import * as clock from "./clock.js";
import * as queue from "./queue.js";
import { noteWaiting } from "./session.js";
import { t } from "./texts.js";

const BATCH = 100; // as many as the server takes
const UNDOS = 500; // scans of a sweep that one item undoes
const EVERY = 8000;
const DEADLINE = 15000; // ms, for an answer with its body

// state: unknown, ok, offline, signed-out, forbidden, trouble, other-site, full (of the device); `held` of those `waiting` are without a clear location
// `parcels`: number of photos and labels that wait
// `saving`: number of tags of a sweep that are not in the queue yet
export const link = { state: "unknown", me: null, waiting: 0, held: [], parcels: 0, saving: 0 };
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
    if (!link.me || link.state !== "ok" || !clock.isKnown()) await greet();
    let kept = null; // what waits after the last batch: thousands of tags are not read again for each
    while (link.state === "ok") {
      const waiting = kept || await queue.waiting();
      const all = waiting.filter((item) => !item.held);
      const own = firstOf(all.filter((item) => [null, link.me.organization].includes(item.organization)));
      if (!own.length && kept) {
        kept = null; // something may have been added
        continue;
      }
      if (!own.length) {
        if (all.length) link.state = "other-site";
        break;
      }
      const times = clock.siteTimes(waiting);
      await clock.noteSent(own, times);
      const { results } = await post("/scan/batch", {
        items: own.map((item) => onTheWire(item, times.get(item.id))), ...(await holdings(waiting, null, times)),
      });
      await queue.settle(results);
      kept = queue.without(waiting, results);
      await report(results, kept);
    }
    if (link.state === "ok") await sendParcels();
  } catch (error) {
    link.state = error.state || "offline";
  }
  await report([]);
}

/** Send photos and labels. One that the server refuses would be refused again: the log keeps the reason. */
async function sendParcels() {
  for (const parcel of await queue.parcels()) {
    if (parcel.organization !== link.me.organization) continue;
    const { result, reason } = await sendParcel(parcel);
    if (result === "whose") continue; // waits until its person is back
    if (result === "refused") await tell([], { ...parcel, reason });
    else await queue.dropParcel(parcel.no);
    await tell([]);
  }
}

async function sendParcel(parcel) {
  const { id, kind, asset, at, era, locationId } = parcel;
  try {
    if (kind === "label") return await post("/scan/labels", { id, asset, location: locationId });
    const about = new URLSearchParams({ id, asset, at: Math.round(clock.siteTime({ at, era })) });
    if (parcel.person !== link.me.person) about.set("session", parcel.session);
    return await post(`/scan/photos?${about}`, new Blob([parcel.photo], { type: "image/jpeg" }));
  } catch (error) {
    if (![400, 413].includes(error.status)) throw error; // later
    return { result: "refused", reason: error.message };
  }
}

/** The items of the next batch. The undo of a sweep is one item for many scans, and the last of its batch. */
function firstOf(items) {
  const undo = items.findIndex(({ undone }) => undone);
  return items.slice(0, undo < 0 ? BATCH : Math.min(BATCH, undo + 1));
}

/** `at`: when it was made, by the site's clock. `session`: in which it was made, if that was somebody else's. */
function onTheWire({ id, undo, undone, act, code, locationId, choice, take, list, onto, off, sweep, ...more }, at) {
  const session = more.person && more.person !== link.me.person ? more.session : undefined;
  if (undone) return { id, sweep, undone: undone.slice(0, UNDOS), at, session, stock_take: take, list };
  if (undo) return { id, undo, at, session, stock_take: take, list };
  if (act) return { id, act, at, session, choice, location: locationId, asset: more.asset, stock_take: more.stock_take,
    with_sublocations: more.with_sublocations, expected: more.expected, lines: more.lines, list, text: more.text };
  return { id, code, asset: more.assetId, location: locationId, choice, at, session, stock_take: take, list, onto, off, sweep };
}

/** Count and show what waits: before anything is said about it, and when a response takes long. */
export const recount = () => report([]);

async function report(results, kept = null) {
  const all = kept && kept.length ? kept : await queue.waiting(); // "All saved" only after a look
  link.held = all.filter((item) => item.held);
  link.parcels = (await queue.parcels()).length;
  link.waiting = all.reduce((sum, item) => sum + queue.sizeOf(item), link.saving);
  noteWaiting(link.waiting + link.parcels);
  await tell(results);
}

export async function greet() {
  link.me = await ask("/scan/state");
  await queue.cache("me", link.me);
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
  const asked = clock.reading();
  const answer = await fetch(path, { cache: "no-store", ...options,
    headers: { Accept: "application/json", ...options.headers } }).catch(offline);
  const answered = clock.reading();
  if (answer.status === 401) throw failure("signed-out", t("Sign in again"));
  if (answer.status === 304) return null;
  const text = await answer.text().catch(offline);
  const body = parse(text);
  if (!answer.ok) {
    const state = answer.status === 403 && !options.method ? "forbidden" : "trouble"; // a form may be too old
    throw failure(state, body.error || t("The server answered {status}", { status: answer.status }), answer.status);
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
    headers: { "Content-Type": body instanceof Blob ? body.type : "application/json", "X-CSRF-Token": (link.me && link.me.csrf) || "" },
    body: body instanceof Blob ? body : JSON.stringify(body),
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

let device = null;

/**
 * What of stock-takes and expected lists is `waiting` here, for other devices at the sign-off. One that is not named is not open
 * here, and all of it is sent. `joined`: those that are opened now.
 */
export async function holdings(waiting, joined = null, times = clock.siteTimes(waiting)) {
  const open = { stock_take: await queue.load("take"), list: await queue.load("list"), ...joined };
  const holds = new Map();
  for (const [kind, one] of Object.entries(open)) {
    if (one) holds.set(one.id, { [kind]: one.id, is_open: one.stopped !== "stopped" && one.location !== null, unsent: 0 });
  }
  for (const item of waiting.filter(({ act }) => !act)) {
    const [kind, id] = item.take ? ["stock_take", item.take] : ["list", item.list];
    if (!id) continue;
    const before = holds.get(id) || { [kind]: id, is_open: false, unsent: 0 };
    holds.set(id, { since: times.get(item.id), ...before, unsent: before.unsent + queue.sizeOf(item) });
  }
  return { device: await ownId(), holds: [...holds.values()] };
}

/** Id of the device. Unsent scans outlast a session. */
export async function ownId() {
  device = device || (await queue.load("device"));
  if (!device) await queue.cache("device", (device = newId()));
  return device;
}

// A stock-take or an expected list, on which several devices work until one signs it off ---------------------------

/** Report to the server and fetch its state. `joined`: what is opened now, see `holdings`. */
export const exchangeWork = async (path, more, joined) => post(path, { ...(await holdings(await queue.waiting(), joined)), ...more });

/**
 * Fetch the results of other devices and readers. `ask(id, more)` is an `exchangeWork`, `now()` returns what is open, `keep` stores it,
 * and `after(state)` returns what it is after an answer; null: it has ended, then this returns false. Another device may ask this one to stop for the sign-off:
 * from then on no scan is taken for it, and this device says so. It takes scans again only after the server knows that it does,
 * so that nobody signs off without them.
 */
export async function follow({ ask, now, keep, after }, asks) {
  const open = now();
  if (!open) return true;
  const isSame = () => now() && now().id === open.id;
  const state = await ask(open.id, { asks });
  if (!isSame()) return true;
  const next = after(state);
  await keep(next);
  if (!next) return false;
  const stops = state.is_asked && !(await queue.load("sweeping")); // what it reads is counted, and not yet sent
  if (stops === Boolean(next.stopped) || !isSame()) return true;
  await keep({ ...now(), stopped: stops ? "stopped" : "resuming" });
  await ask(open.id);
  if (!stops && isSame()) await keep({ ...now(), stopped: "" });
  return true;
}

/** Other devices: { name, unsent, since, reported, isOpen }. One where it is open may hold more. */
export async function othersOf(devices) {
  const own = await ownId();
  return (devices || []).filter(([id]) => id !== own)
    .map(([, name, isOpen, unsent, since, reported]) => ({ name, unsent, since, reported, isOpen }));
}

/** Any device can scan on without a connection, until it has said that it stopped. */
export const mayHold = ({ unsent, isOpen }) => unsent > 0 || isOpen;
