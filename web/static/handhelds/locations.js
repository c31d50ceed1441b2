// The locations as this device knows them, with the codes of their labels, and the current one.

import { stamp } from "./clock.js";
import { linkOf } from "./codes.js";
import { identity } from "./gs1.js";
import * as queue from "./queue.js";
import { ask } from "./sync.js";

export const byName = new Intl.Collator(undefined, { numeric: true }).compare;

let known = [];
let codes = new Set(); // of all locations
let version = "";
let recent = []; // ids of recently used locations, newest first

/**
 * The current choice of location. Each choice has a new `id`, which every scan carries, so that it is known which scans were
 * made under which label. `location` is null before the first choice, and after a label that could not be resolved: that
 * label is kept in `label`, since the location before it must no longer be used. `question`: see `askWhich`. `made`: when, and
 * by whom.
 */
export let choice = { id: "", location: null, label: "", question: null };

export const all = () => known;

const codesOf = (all) => new Set(all.flatMap((one) => one.codes));

/** Whether a text is a part of what a label of some location says. */
export function isPartOfLabel(text) {
  const part = text.toLowerCase();
  return known.some(({ key, codes: own }) => [key, ...own].some((code) => code.toLowerCase().includes(part)));
}

export const byId = (id) => known.find((one) => one.id === id);

/** Ids of a location and its sub-locations. The list is in tree order. */
export function withBelow(id) {
  const ids = new Set([id]);
  for (const one of known) if (ids.has(one.parent)) ids.add(one.id);
  return ids;
}

/** Recently used locations, then the others in tree order. */
export function recentFirst() {
  const last = recent.map((id) => known.find((one) => one.id === id)).filter(Boolean);
  return { last, others: known.filter((one) => !last.includes(one)) };
}

export async function load() {
  const [kept, keptChoice, keptRecent] = await Promise.all(["locations", "choice", "recent"].map(queue.load));
  if (kept) ({ locations: known, version } = kept);
  codes = codesOf(known);
  choice = keptChoice || choice;
  recent = keptRecent || [];
}

/** Fetch the locations; without a connection the stored ones are used. True when the list comes from the server. */
export async function refresh() {
  try {
    let fresh = version;
    const rows = await ask("/scan/locations", {
      headers: version ? { "If-None-Match": version } : {},
      etag: (value) => { fresh = value; },
    });
    if (rows) {
      known = inOrder(rows.map(([id, name, area, key, parent, ...codes]) => ({ id, name, area, key, parent, codes })));
      codes = codesOf(known);
      version = fresh;
      await queue.cache("locations", { version, locations: known });
    }
    return true;
  } catch (error) {
    if (error.state) return false;
    throw error;
  }
}

/** The same locations as a tree, siblings by name: 1, 2, 10. */
export function inOrder(all) {
  const ids = new Set(all.map(({ id }) => id));
  const below = new Map();
  for (const one of [...all].sort((a, b) => byName(a.name, b.name))) {
    const parent = ids.has(one.parent) ? one.parent : null;
    below.set(parent, [...(below.get(parent) || []), one]);
  }
  const branch = (parent) => (below.get(parent) || []).flatMap((one) => [one, ...branch(one.id)]);
  return branch(null);
}

/**
 * The location a code names, or undefined: by its link, its codes, its key; last of all by its key in different case, and
 * only when it is not the code of an asset, which `thing` would be.
 */
export function find(code, thing) {
  const link = linkOf(code);
  if (link) return link.kind === "location" ? byKey(link.key) : undefined;
  const names = [code, identity(code)];
  return known.find((one) => one.codes.some((own) => names.includes(own)) || one.key === code) || (thing ? undefined : byKey(code));
}

/** Whether a code is that of a location and of no asset. */
export const isCode = (code, thing) => !thing && codes.has(code);

/** Whether a code or key begins with the text and is longer. */
export const isBegun = (text) =>
  known.some(({ key, codes }) => [key, ...codes].some((one) => one.length > text.length && one.startsWith(text)));

function byKey(key) {
  const exact = known.find((one) => one.key === key);
  if (exact) return exact;
  const lower = key.toLowerCase();
  const alike = known.filter((one) => one.key.toLowerCase() === lower);
  return alike.length === 1 ? alike[0] : undefined;
}

let onChoice = () => {};

/** From now on `task(choice)` receives each choice. */
export const follow = (task) => { onChoice = task; };

export async function choose(location, id, made = stamp()) {
  const before = choice;
  choice = { id, location, label: "", made };
  if (location) recent = [location.id, ...recent.filter((one) => one !== location.id)].slice(0, 6);
  try {
    await Promise.all([queue.save("choice", choice), queue.cache("recent", recent)]);
  } catch (error) {
    choice = before; // as the screen still shows
    throw error;
  }
  onChoice(choice);
}

/**
 * A label of no known location, or a code with two meanings (`question`): later scans wait until
 * a person assigns a location.
 */
export async function becomeUnclear(label, id, question = null) {
  choice = { id, location: null, label, question, made: stamp() };
  await queue.save("choice", choice);
  onChoice(choice);
}
