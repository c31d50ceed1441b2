// The site's clock, as this device knows it. An exchange with the server shows between which bounds the device's clock is
// off: the quicker it is, the closer they are. A slow one shows little, so a delay never moves a scan.

import { newId } from "./catch.js";
import * as queue from "./queue.js";
import { signedIn } from "./session.js";

const DRIFT = 1e-4; // maximum relative drift of a device's clock
const JUMP = 2000; // ms by which the clock differs from the time that has passed: somebody set it, or the device slept
const MOST_ERAS = 20;

// An era is a time in which nobody set the device's clock, as far as is known: { id, low, high, at }. The offset to the
// site's clock was between `low` and `high` ms, `at` a time of the device's clock. Kept in order: scans of an earlier era wait.
let eras = [];
let current = { id: newId() };
let base = Date.now() - performance.now();
let sent = { no: 0, time: 0 }; // the last item of the queue that was sent, `made` when, and its time by the site's clock

export async function load() {
  const kept = await queue.load("clock");
  if (kept) ({ eras, sent } = kept);
}

/** Return the current era. */
export function era() {
  if (Math.abs(Date.now() - performance.now() - base) > JUMP) begin();
  return current.id;
}

/** Time, era and person of something made now. */
export const stamp = (by = signedIn(), at = Date.now()) => ({ at, era: era(), session: null, person: null, organization: null, ...by });

function begin() {
  base = Date.now() - performance.now();
  current = { id: newId() };
}

/** An answer says that the site's clock showed `now` at some time between `asked` and `answered`, by the device's clock. */
export function note(asked, answered, now) {
  if (answered < asked) return; // set back meanwhile
  era();
  let [low, high] = [now - answered, now + 1 - asked];
  if (current.at !== undefined) {
    const drift = Math.abs(answered - current.at) * DRIFT;
    const [lowest, highest] = [current.low - drift, current.high + drift];
    if (low > highest || high < lowest) begin(); // set meanwhile
    else [low, high] = [Math.max(low, lowest), Math.min(high, highest)];
  }
  current = { ...current, low, high, at: answered };
  eras = [...eras.filter(({ id }) => id !== current.id), current].slice(-MOST_ERAS);
  sent = { ...sent, time: Math.min(sent.time, now, ...timesOf(sent.made)) };
  save();
}

/** What was sent was made before this answer. A time that was ahead of the site's, under a clock not yet known, is corrected. */
const timesOf = (made) => (made && eras.some(({ id }) => id === made.era) ? [Math.round(siteTime(made))] : []);

const save = () => queue.cache("clock", { eras, sent });

/** A clock that may be right is right. */
const offset = ({ low, high }) => (low <= 0 && high >= 0 ? 0 : (low + high) / 2);

/** That of a scan's era; without an exchange in that era, the newest. */
function offsetOf(id) {
  const known = eras.find((one) => one.id === id) || eras[eras.length - 1];
  return known ? offset(known) : 0;
}

export const siteNow = () => Date.now() + offsetOf(era());

/** When an entry of the log was made, by the site's clock. */
export const siteTime = (entry) => entry.at + offsetOf(entry.era);

/**
 * The times of all that waits, by id, by the site's clock. They keep the order of the queue: the newest was made under the
 * clock that is known best, so it is the earlier ones that yield.
 */
export function siteTimes(items) {
  const times = new Map();
  let latest = siteNow();
  for (const item of [...items].reverse()) {
    latest = Math.min(latest, Math.round(siteTime(item)));
    times.set(item.id, item.no > sent.no ? Math.max(latest, sent.time + 1) : latest);
    latest -= 1;
  }
  return times;
}

/** These items are about to be sent: what is queued after them is later. */
export async function noteSent(items, times) {
  const last = items[items.length - 1];
  if (last.no <= sent.no) return;
  sent = { no: last.no, time: times.get(last.id), made: { at: last.at, era: last.era } };
  await save();
}
