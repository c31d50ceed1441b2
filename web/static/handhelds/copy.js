// The device's copy of all assets with codes and last locations, for showing names, searching and
// listing locations without a connection. It is divided into buckets; changed buckets are sent again.

import * as clock from "./clock.js";
import { linkOf } from "./codes.js";
import { identity } from "./gs1.js";
import { CodeIndex, trimmed } from "./matching.js";
import * as queue from "./queue.js";
import { post } from "./sync.js";

const BUCKETS = 1024; // as on the server
const NO_DIGEST = "--------";
const ROUNDED = 600; // seconds; the server rounds times down to a multiple, so the time of an own scan is exact
const SHIFT = 12 * 3600; // seconds, as on the server: another scan within it is a repeat

let buckets = []; // { no, digest, rows } by number
const CARRIER = 8; // column of a row
const emptyIndex = () => ({ codes: new CodeIndex(), keys: new Map(), alike: new Map(), carriers: new Map() });

let index = emptyIndex(); // code -> row, and asset -> its carrier by id; rebuilt after a change of codes
let organization = null;
const scanned = new Map(); // id of an asset -> where and when (seconds) this device scanned it last
export let updatedAt = 0; // when the server was last asked, by the site's clock

const asset = (row) => {
  if (!row) return undefined;
  const [id, key, name, location, since, rounded, codes] = row; // it was seen when its stay began, which is exact
  const own = scanned.get(id);
  const isOwn = own && own.location === location && own.at > rounded && own.at < rounded + ROUNDED;
  return { id, key, name, location, since, seen: isOwn ? Math.floor(own.at) : Math.max(since, rounded), codes };
};

/** The times of scans are by the site's clock: load that first. */
export async function load() {
  const [kept, about, log] = await Promise.all([queue.loadAssets(), queue.load("copy"), queue.recent(Infinity)]);
  for (const bucket of kept) buckets[bucket.no] = bucket;
  for (const { asset, state, locationId, ...made } of log.reverse()) {
    if (asset && ["recorded", "again"].includes(state)) scanned.set(asset.id, { location: locationId, at: clock.siteTime(made) / 1000 });
  }
  makeIndex(); // not when the first scan waits for it
  if (about) ({ updatedAt, organization } = about);
}

/** Fetch changes. The copy of another organization is never shown; it is replaced. */
export async function refresh(me) {
  if (organization !== me.organization) {
    buckets = Array.from({ length: BUCKETS }, (_, no) => ({ no, digest: NO_DIGEST, rows: [] }));
    makeIndex();
    await queue.saveAssets(buckets);
    organization = me.organization;
  }
  const digests = Array.from({ length: BUCKETS }, (_, no) => (buckets[no] ? buckets[no].digest : NO_DIGEST)).join("");
  const fresh = (await post("/scan/assets", { digests })).map(([no, digest, rows]) => ({ no, digest, rows }));
  for (const bucket of fresh) buckets[bucket.no] = bucket;
  if (fresh.length) {
    makeIndex();
    await queue.saveAssets(fresh);
  }
  updatedAt = clock.siteNow();
  await queue.cache("copy", { updatedAt, organization });
}

export function* all() {
  for (const bucket of buckets) if (bucket) for (const row of bucket.rows) yield asset(row);
}

/** Return the asset of a code, as it is now, by the server's rules; undefined if unknown or ambiguous. */
export function find(text) {
  const code = trimmed(text);
  const link = linkOf(code);
  if (link) return link.kind === "asset" ? asset(byKey(link.key)) : undefined;
  return asset(index.codes.find(code, identity(code)) || byKey(code));
}

const byKey = (key) => index.keys.get(key) || index.alike.get(key.toLowerCase());

/** Whether a code or key begins with the text and is longer. */
export function isBegun(text) {
  return [index.codes.exact, index.keys].some((known) => {
    for (const one of known.keys()) if (one.length > text.length && one.startsWith(text)) return true;
    return false;
  });
}

const rowOf = (id) => {
  const bucket = buckets[id % BUCKETS];
  return bucket && bucket.rows.find(([own]) => own === id);
};

export const byId = (id) => asset(rowOf(id));

/** Assets with the text in their name, key or codes. */
export function search(text, most = 20) {
  const needle = text.toLowerCase();
  const matches = [];
  for (const one of all()) {
    if (`${one.name}\n${one.key}\n${one.codes.join("\n")}`.toLowerCase().includes(needle)) matches.push(one);
    if (matches.length >= most) break;
  }
  return matches;
}

/** Assets at these locations, sorted by name. `kept`: where scans that wait put assets, see `waiting`. */
export function at(locationIds, kept = new Map()) {
  const matches = [...all()].map((one) => ({ ...one, ...kept.get(one.id) })).filter((one) => locationIds.has(one.location));
  return matches.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));
}

/** True if this device scanned it at the location in this shift and it was not seen elsewhere since. */
export function wasScannedAt(id, location) {
  const [last, now] = [scanned.get(id), byId(id)];
  return Boolean(last && now) && last.location === location && now.location === location && clock.siteNow() / 1000 - last.at < SHIFT;
}

/** A scan was saved: update the copy at once, without waiting for the next response. `how`: see `loaded`. */
export function move(id, location, seen, how = {}) {
  scanned.set(id, { location, at: seen / 1000 });
  const row = rowOf(id);
  if (!row) return;
  row[CARRIER] = loaded(index.carriers, id, location, how, byId);
  for (const one of withContents(index.carriers, id)) {
    const { since } = placed(byId(one), location, seen);
    rowOf(one).splice(3, 3, location, since, Math.floor(seen / 1000));
  }
}

/** Where the scans that wait on this device put assets, with what is on them: id -> as in `asset`, and `carrier`, the id. */
export async function waiting() {
  const [places, carriers] = [new Map(), new Map(index.carriers)];
  const now = (id) => places.get(id) || byId(id);
  for (const entry of (await queue.recent(Infinity)).reverse()) {
    if (entry.state !== "queued" || entry.take || !entry.locationId) continue;
    for (const code of entry.codes || [entry.code]) {
      const id = entry.assetId || (find(code) || {}).id;
      if (!now(id)) continue;
      loaded(carriers, id, entry.locationId, entry, now);
      for (const one of withContents(carriers, id)) {
        places.set(one, { ...placed(now(one), entry.locationId, clock.siteTime(entry)), isKept: true, carrier: carriers.get(one) });
      }
    }
  }
  return places;
}

function placed(before, location, seen) {
  const at = Math.floor(seen / 1000);
  return { location, since: before.location === location ? before.since : at, seen: at };
}

/** Note the carrier of an asset after its scan, and return its id: it is put `onto` one, taken `off`, or seen where its carrier is not. */
function loaded(carriers, id, location, { onto, off }, now) {
  const carrier = now(carriers.get(id));
  if (onto) carriers.set(id, onto);
  else if (off || (carrier && carrier.location !== location)) carriers.delete(id);
  return carriers.get(id);
}

/** An asset with what is on it, and on that, as far as this device knows it. */
function withContents(carriers, id) {
  const found = new Set(rowOf(id) ? [id] : []);
  for (let before = 0; before < found.size;) { // once for each level of the load, not for each asset
    before = found.size;
    for (const [one, carrier] of carriers) if (found.has(carrier) && rowOf(one)) found.add(one);
  }
  return found;
}

function makeIndex() {
  index = emptyIndex();
  for (const row of buckets.flatMap((bucket) => (bucket ? bucket.rows : []))) {
    const [id, key, , , , , codes, letters = "", carrier] = row;
    if (carrier) index.carriers.set(id, carrier);
    index.keys.set(key, row);
    const alike = key.toLowerCase();
    index.alike.set(alike, index.alike.has(alike) ? null : row); // null: several
    codes.forEach((code, at) => index.codes.add(code, letters[at], row));
  }
}
