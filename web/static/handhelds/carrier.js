// Put things on a carrier, or take them off: a mode of scanning that stays until it is ended.

import { newId } from "./catch.js";
import { stamp } from "./clock.js";
import * as queue from "./queue.js";
import { flush } from "./sync.js";

// { kind: "load", carrier: { id, name } or null until it is scanned } or { kind: "unload" }
export let loading = null;

export async function load() {
  loading = (await queue.load("loading")) || null;
}

export async function setLoading(next) {
  loading = next;
  await queue.save("loading", next);
}

/** Whether a carrier is to be scanned first. */
export const awaitsCarrier = () => Boolean(loading) && loading.kind === "load" && !loading.carrier;

/** What a scan carries besides its location: the carrier the thing is loaded onto, or that it is taken off. */
export function wireOf(thing) {
  if (!loading || !thing) return {};
  if (loading.kind === "unload") return { off: true };
  return loading.carrier && loading.carrier.id !== thing.id ? { onto: loading.carrier.id } : {};
}

/** Everything on a carrier is taken off at once. */
export async function unloadAll(carrier) {
  await queue.add({ id: newId(), act: "unload_all", asset: carrier.id, ...stamp() });
  flush();
}
