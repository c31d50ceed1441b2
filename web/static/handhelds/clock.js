// The site's clock, as this device knows it. The browser counts the time since the page was loaded; nobody can set this count,
// but it stops while the device sleeps. An exchange with the server shows between which bounds the site's clock was at a count:
// the quicker it is, the closer they are. A slow one shows little, so a delay never moves a scan. The device's own clock, which
// anybody can set, decides only what the counts leave open: how long the device slept, and what a page without an answer made.

import * as queue from "./queue.js";
import { moment, signedIn } from "./session.js";

const DRIFT = 1e-4; // maximum relative drift of a device's count
const JUMP = 2000; // ms by which the device's clock and the count differ: somebody set it, or the device slept
const MOST = 40;

// A span is a time without a jump: { load, lead, from, to, low, high, first, last }. `lead`: the device's clock minus the count;
// between the counts `from` and `to` of the page `load` the site's clock was `low` to `high` ms ahead of the count. `first` and
// `last`: what it showed. In order, as are the `loads` of this page.
let spans = [];
let loads = [];
let sent = { no: 0, time: 0 }; // the last item of the queue that was sent, `made` when, and its time by the site's clock

export async function load() {
  const kept = await queue.load("clock");
  if (kept) ({ spans = [], loads = [], sent } = kept);
  loads = [...loads, moment().load].slice(-MOST);
  save();
}

const save = () => queue.cache("clock", { spans, loads, sent });

/** The device's clock, and the count of this page. */
export const reading = () => ({ at: Date.now(), era: moment() });

/** Time and person of something made now, or when `made` was read. */
export const stamp = (by = signedIn(), { at, era } = reading()) => ({ at, era, session: null, person: null, organization: null, ...by });

const leadOf = ({ at, era }) => at - era.tick;
const lastOf = (all) => all[all.length - 1];
const isSame = (span, made) => Boolean(span) && span.load === made.era.load && Math.abs(span.lead - leadOf(made)) <= JUMP;

/** Whether an answer has come since the page was loaded, the device slept, or its clock was set. */
export const isKnown = () => isSame(lastOf(spans), reading());

/** An answer says that the site's clock showed `now` at some time between two readings. */
export function note(asked, answered, now) {
  if (Math.abs(leadOf(asked) - leadOf(answered)) > JUMP) return; // a jump in between
  const { load, tick } = answered.era;
  const [lead, last] = [leadOf(answered), lastOf(spans)];
  let span = { load, lead, from: tick, to: tick, low: now - tick, high: now + 1 - asked.era.tick, first: now, last: now };
  if (isSame(last, answered)) {
    const drift = (tick - last.to) * DRIFT;
    const [low, high] = [Math.max(span.low, last.low - drift), Math.min(span.high, last.high + drift)];
    if (low <= high) span = { ...last, lead, to: tick, low, high, last: now }; // otherwise the site's clock was set
    if (low <= high) spans.pop();
  }
  spans = [...spans, span].slice(-MOST);
  sent = { ...sent, time: Math.min(sent.time, now, ...timesOf(sent.made)) };
  save();
}

/** What was sent was made before this answer. A time that was ahead of the site's, before its page had an answer, is corrected. */
const timesOf = (made) => (made && made.era && spans.some(({ load }) => load === made.era.load) ? [Math.round(siteTime(made))] : []);

/** How far the site's clock is ahead of the count. A clock that may be right is right. */
const offset = ({ lead, low, high }) => (low <= lead && lead <= high ? lead : (low + high) / 2);

/**
 * When something was made, by the site's clock: [earliest, likely, latest]. The count since its page was loaded gives the bounds:
 * it may have stopped between the answers before and after. Without an answer in its page, the pages before and after do.
 */
function bounds({ at, era }) {
  if (era && era.site) return [at, at, at]; // taken over from the page without HTTPS, with the site's time
  const { load, tick } = (era && era.load && era) || {}; // none: of an earlier release
  const [own, rank] = [spans.filter((one) => one.load === load), loads.indexOf(load)];
  const [before, after] = [lastOf(own.filter(({ from }) => from <= tick)), own.find(({ to }) => to >= tick)];
  const earlier = lastOf(spans.filter((one) => loads.indexOf(one.load) < rank));
  const later = rank < 0 ? lastOf(spans) : spans.find((one) => loads.indexOf(one.load) > rank);
  const earliest = before ? tick + offset(before) : earlier ? earlier.last : -Infinity;
  const latest = after ? tick + offset(after) : rank >= 0 && later ? later.first : Infinity;
  const guesses = [before || earlier, after || later].filter(Boolean).map((span) => at + offset(span) - span.lead);
  const fits = guesses.find((time) => time >= earliest - JUMP && time <= latest + JUMP);
  const [guess = at] = fits === undefined ? [before ? earliest : after ? latest : guesses[0]] : [fits];
  return [earliest, Math.min(Math.max(guess, earliest), latest), latest];
}

/** When an entry of the log was made, by the site's clock. */
export const siteTime = (entry) => bounds(entry)[1];

export const siteNow = () => siteTime(reading());

/**
 * The times of all that waits, by id, by the site's clock. They keep the order of the queue: what is known to the moment stays,
 * the others yield; of these the earlier ones, since the newest was made under the clock that is known best.
 */
export function siteTimes(all) {
  const times = new Map(all.map(({ id, at }) => [id, at]));
  const items = all.filter(isOwn);
  let exact = -Infinity;
  for (const item of items) {
    const [earliest, likely, latest] = bounds(item);
    if (latest - earliest <= JUMP) exact = Math.max(exact, likely);
    times.set(item.id, Math.max(likely, exact));
  }
  let next = siteNow();
  for (const item of [...items].reverse()) {
    next = Math.min(next, Math.round(times.get(item.id)));
    times.set(item.id, next);
    next -= 1;
  }
  let { time } = sent;
  for (const item of items.filter(({ no }) => no > sent.no)) {
    time = Math.max(time + 1, times.get(item.id));
    times.set(item.id, time);
  }
  return times;
}

/** What is taken over has a time, and a place in the queue that says nothing about it. */
const isOwn = ({ era }) => !(era && era.site);

/** These items are about to be sent: what is queued after them is later. */
export async function noteSent(items, times) {
  const last = lastOf(items.filter(isOwn));
  if (!last || last.no <= sent.no) return;
  sent = { no: last.no, time: times.get(last.id), made: { at: last.at, era: last.era } };
  await save();
}
