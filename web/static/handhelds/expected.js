// An expected list on this device: what should be loaded or received at its place. Scans and sweeps are recorded as always and
// tick its assets off; the server compares them, and this device does until it has answered. Signing off needs a connection.

import { newId } from "./catch.js";
import { siteTime, stamp } from "./clock.js";
import * as copy from "./copy.js";
import { byName, withBelow } from "./locations.js";
import * as queue from "./queue.js";
import { ask, exchangeWork, flush, follow, othersOf, ownId, post } from "./sync.js";

const COUNTING = ["queued", "recorded", "again"];
const EMPTY = { ticked: [], missing: [], surplus: [], wrong: [], surplus_count: 0, wrong_count: 0 };

// The server's state, see `edge/pages/handhelds/stock_takes.py`, or null. `since`: when this device or the server started it
export let list = null;
let ids = new Set();

async function keep(next) {
  list = next;
  ids = idsOf(next);
  await queue.save("list", next);
}

const idsOf = (one) => new Set(one ? [...one.missing, ...one.ticked] : []);

export async function load() {
  list = (await queue.load("list")) || null;
  ids = idsOf(list);
}

export const isExpected = (assetId) => ids.has(assetId);

/** Number of assets on the list. */
export const size = () => ids.size;

/** Lists that are not signed off. */
export const unsigned = async () => (await ask("/scan/expected-lists")).lists;

/** Work with a list from now on; it is started if nobody has. */
export async function choose({ id }) {
  const state = await exchangeWork(`/scan/expected-lists/${id}`, {}, { list: { id } });
  const made = stamp();
  if (!state.is_open) await queue.add({ id: newId(), act: "start_list", list: id, ...made });
  await keep({ ...EMPTY, ...state, since: state.is_open ? state.started_at : siteTime(made) });
  flush();
}

export const leave = () => keep(null);

/** Report and fetch the state. A deleted list has ended, as one that was signed off. */
const report = (id, more) => exchangeWork(`/scan/expected-lists/${id}`, more).catch((error) => {
  if (error.status === 404) return { is_signed: true };
  throw error;
});

/** See `follow`. */
export const catchUp = (asks = false) => follow({
  ask: report, now: () => list, keep,
  after: (state) => (state.is_signed ? null : { ...state, since: state.started_at || list.since, stopped: list.stopped }),
}, asks);

export const isStopped = () => Boolean(list && list.stopped);

export const otherDevices = () => othersOf(list.devices);

/** The id of the list, if a scan at this location counts for it. */
export const listAt = (location) => (list && location && withBelow(list.location).has(location.id) ? list.id : undefined);

/** Sign off the version that is on the screen. The server refuses it if the result has changed. */
export async function signOff(version) {
  const signed = await post(`/scan/expected-lists/${list.id}/sign-off`, { version, device: await ownId() });
  await keep(null);
  return signed;
}

/** The four groups of { id, name, key, other }: what the server answered, with what this device has scanned since. */
export function groupsOf(log, isSorted = true) {
  const ticked = new Set(list.ticked);
  const surplus = new Map(list.surplus.map((one) => [one.id, one]));
  const wrong = new Map(list.wrong.map((one) => [one.id, one]));
  const scope = withBelow(list.location);
  for (const { state, take, asset, code, codes, locationId, ...entry } of log) {
    if (take || !COUNTING.includes(state) || !scope.has(locationId) || siteTime(entry) < list.since) continue;
    for (const id of codes ? codes.map(idOf) : [asset ? asset.id : idOf(code)]) {
      if (ids.has(id)) ticked.add(id);
      else if (id && !wrong.has(id) && !surplus.has(id)) surplus.set(id, copy.byId(id) || named(id));
    }
  }
  const missing = [...ids].filter((id) => !ticked.has(id));
  const groups = {
    missing: missing.map(named), wrong: [...wrong.values()], surplus: [...surplus.values()], ticked: [...ticked].map(named),
  };
  if (isSorted) for (const group of Object.values(groups)) group.sort((a, b) => byName(a.name, b.name));
  return groups;
}

/** The number of a group: the server sends at most 500 surplus or wrong assets, and counts all. */
export const countOf = (groups, name) => Math.max(groups[name].length, list[`${name}_count`] || 0);

const idOf = (code) => (copy.find(code) || {}).id;
const named = (id) => copy.byId(id) || { id, name: String(id), key: "" };
