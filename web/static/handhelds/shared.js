// What several devices work on together until one signs it off: a stock-take or an expected list. Each reports its unsent scans.

import * as queue from "./queue.js";
import { holdings, ownId, post } from "./sync.js";

/** Report to the server and fetch its state. `joined`: what is opened now, see `holdings`. */
export const exchange = async (path, more, joined) => post(path, { ...(await holdings(await queue.waiting(), joined)), ...more });

/**
 * Fetch the results of other devices and readers. `ask(id, more)` is an `exchange`, `now()` returns what is open, `keep` stores it,
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
  if (stops === Boolean(next.stopped)) return true;
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
