// What this device says of stock-takes whenever it exchanges something: which one it has open, how many scans and undos of
// which it has not sent, and since when. Who signs off on another device sees it.

import { newId } from "./catch.js";
import * as clock from "./clock.js";
import * as queue from "./queue.js";

let device = null;

/** `take`: the id of the open one. What is not mentioned is not open here, and everything of it was sent. */
export async function report() {
  const [waiting, take] = [await queue.waiting(), await queue.load("take")];
  const times = clock.siteTimes(waiting);
  const holds = new Map(take ? [[take.id, { stock_take: take.id, is_open: true, unsent: 0 }]] : []);
  for (const item of waiting) {
    if (!item.take) continue;
    const before = holds.get(item.take) || { stock_take: item.take, is_open: false, unsent: 0 };
    holds.set(item.take, { since: times.get(item.id), ...before, unsent: before.unsent + 1 });
  }
  return { device: await ownId(), holds: [...holds.values()] };
}

/** The device's own id, because what it holds outlasts a session. */
export async function ownId() {
  device = device || (await queue.load("device"));
  if (!device) await queue.save("device", (device = newId()));
  return device;
}
