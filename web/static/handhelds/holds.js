// State of stock-takes that this device reports with each exchange: which one is open, how many scans and undos of
// each are unsent, and since when. Other devices show it at sign-off.

import { newId } from "./catch.js";
import * as clock from "./clock.js";
import * as queue from "./queue.js";

let device = null;

/** Report on what is `waiting`. Stock-takes that are not named are not open here and completely sent. */
export async function report(waiting) {
  const take = await queue.load("take");
  const times = clock.siteTimes(waiting);
  const holds = new Map(take ? [[take.id, { stock_take: take.id, is_open: true, unsent: 0 }]] : []);
  for (const item of waiting) {
    if (!item.take) continue;
    const before = holds.get(item.take) || { stock_take: item.take, is_open: false, unsent: 0 };
    holds.set(item.take, { since: times.get(item.id), ...before, unsent: before.unsent + queue.sizeOf(item) });
  }
  return { device: await ownId(), holds: [...holds.values()] };
}

/** Id of the device. Unsent scans outlast a session. */
export async function ownId() {
  device = device || (await queue.load("device"));
  if (!device) await queue.cache("device", (device = newId()));
  return device;
}
