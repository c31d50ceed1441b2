// A stock-take on this device: expected and scanned assets of a location. Its scans are in the log
// and the queue like all others; signing off, cancelling and marking as lost go through the queue, too.

import { stamp } from "./clock.js";
import * as copy from "./copy.js";
import { byName, withBelow } from "./locations.js";
import { newId } from "./catch.js";
import * as queue from "./queue.js";
import { scanId } from "./sweeping.js";
import { exchangeWork, flush, follow, othersOf, recount } from "./sync.js";

const COUNTING = ["queued", "counted", "recorded", "again", "unknown"]; // an unclear scan counts when it has a location

// { id, location, name, with_sublocations, expected: [ids], others: scans that the server has, seen: by readers, lost: [ids],
//   devices: [id, name, is open there, unsent, since, reported at], stopped: see `catchUp` }
export let take = null;
let expected = new Set();
let scope = null;

async function keep(next) {
  take = next;
  expected = new Set(take ? take.expected : []);
  scope = null;
  await queue.save("take", take);
}

export async function load() {
  take = (await queue.load("take")) || null;
  expected = new Set(take ? take.expected : []);
}

export const isExpected = (assetId) => expected.has(assetId);

export function inScope(locationId) {
  scope = scope || (take.with_sublocations ? withBelow(take.location) : new Set([take.location]));
  return scope.has(locationId);
}

/** Expected assets, as far as this device knows. */
export const expectedAt = (location, withSublocations) =>
  copy.at(withSublocations ? withBelow(location.id) : new Set([location.id]));

export async function begin(location, withSublocations) {
  const [id, ids] = [newId(), expectedAt(location, withSublocations).map((one) => one.id)];
  await act({ id, act: "begin", locationId: location.id, with_sublocations: withSublocations, expected: ids });
  await keep({
    id, location: location.id, name: location.name, with_sublocations: withSublocations, expected: ids, others: [], seen: [], lost: [], devices: [],
  });
}

/** Continue a stock-take started on another device, which from now on knows that it is open here, too. */
export async function join({ id }) {
  const { location, name, with_sublocations, expected_ids, scans, seen, devices } = await ask(id, {}, { stock_take: { id } });
  await keep({ id, location, name, with_sublocations, expected: expected_ids, others: scans, seen, lost: [], devices });
}

const ask = (id, more, joined) => exchangeWork(`/scan/stock-takes/${id}`, more, joined);

export const isStopped = () => Boolean(take && take.stopped);

/** See `follow`. */
export const catchUp = (asks = false) => follow({
  ask, now: () => take, keep, after: ({ is_open, scans, seen, devices }) => (is_open ? { ...take, others: scans, seen, devices } : null),
}, asks);

/** Sign off the groups on the screen, with the known state of other devices. */
export async function finish(groups, devices) {
  const lines = Object.fromEntries(Object.entries(groups).map(([name, group]) => [name, group.map((one) => (name === "unknown" ? one.name : [one.id, one.how]))]));
  lines.devices = devices.map(({ name, unsent, since, reported, isOpen }) => [name, unsent, since || (isOpen ? reported : null), reported]);
  await act({ act: "finish", stock_take: take.id, lines });
  await keep(null);
}

export async function cancel() {
  await act({ act: "cancel", stock_take: take.id });
  await keep(null);
}

/** Add an act to the queue. */
export async function setAside() {
  const { id } = take;
  await keep(null);
  await act({ act: "set_aside", stock_take: id });
}

export async function markLost(asset, isLost) {
  await act({ act: isLost ? "lost" : "found", asset });
  await keep({ ...take, lost: isLost ? [...take.lost, asset] : take.lost.filter((one) => one !== asset) });
}

async function act(what) {
  await queue.add({ id: newId(), ...stamp(), ...what });
  await recount(); // before the page speaks of it
  flush();
}

/** The four groups, by name: { here, elsewhere, missing, unknown } of { id, name, key, how, location, seen }, sorted for people. */
export function groupsOf(log, isSorted = true) {
  const scannedIds = new Set();
  const unknown = new Set();
  const own = log.filter((entry) => entry.take === take.id);
  const undone = new Set(own.filter((entry) => !COUNTING.includes(entry.state)).flatMap(
    (entry) => (entry.codes ? entry.codes.map((code, no) => scanId(entry.id, no)) : [entry.id]),
  ));
  const answers = take.others.filter(([id]) => !undone.has(id));
  for (const [asset, code] of [...ownScans(own), ...answers.map(([, code, asset]) => [asset, code])]) {
    if (asset) scannedIds.add(asset);
    else unknown.add(code);
  }
  const seen = new Map(take.seen.map(([asset, location, at, byPerson]) => [asset, { location, seen: at / 1000, how: byPerson ? "person" : "reader" }]));
  const groups = { here: [], elsewhere: [], missing: [], unknown: [...unknown].map((code) => ({ name: code, key: "" })) };
  for (const id of new Set([...take.expected, ...scannedIds])) {
    const [group, details] = judge(id, scannedIds.has(id), seen.get(id));
    groups[group].push({ ...(copy.byId(id) || { id, name: String(id), key: "" }), ...details });
  }
  if (isSorted) for (const group of Object.values(groups)) group.sort((a, b) => byName(a.name, b.name));
  return groups;
}

/** The scans of this device: [asset, code]. The server's answer wins; without one the device's copy says what it is. */
function* ownScans(own) {
  const answered = new Set(take.others.map(([id]) => id));
  for (const entry of own.filter(({ state }) => COUNTING.includes(state))) {
    for (const [no, code] of (entry.codes || [entry.code]).entries()) {
      if (answered.has(entry.codes ? scanId(entry.id, no) : entry.id)) continue;
      if (entry.asset || (entry.state !== "queued" && !entry.codes)) yield [entry.asset && entry.asset.id, code];
      else yield [(copy.find(code) || {}).id, code];
    }
  }
}

function judge(id, isFound, seen) {
  const known = copy.byId(id);
  if (isFound) return [expected.has(id) || (known && inScope(known.location)) ? "here" : "elsewhere", { how: "scan" }];
  if (!seen) return ["missing", { how: "" }];
  return [inScope(seen.location) ? "here" : "elsewhere", seen];
}

export const otherDevices = () => othersOf(take.devices);
