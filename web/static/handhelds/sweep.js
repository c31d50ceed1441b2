// A sweep: the tags that an RFID sled reads in one go. Each counts once. They are stored in groups while it runs, and saved
// as scans by one act. Nothing is recorded before. Only the count is drawn: there may be thousands of tags.

import * as carrier from "./carrier.js";
import { forgetAll, newId } from "./catch.js";
import { siteNow, stamp } from "./clock.js";
import { mayBeBadge } from "./codes.js";
import * as copy from "./copy.js";
import * as expected from "./expected.js";
import { signal, tick } from "./feedback.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { signedIn } from "./session.js";
import { button, fill, openSheet, part } from "./sheets.js";
import { $ } from "./show.js";
import { link, recount } from "./sync.js";
import { isEpc, MOST, scanId } from "./sweeping.js";
import * as stock from "./take.js";
import { t, tn } from "./texts.js";

const EVERY = 200; // ms between two groups
const JUST_SEEN = 3600; // seconds
const MOST_NAMES = 4;
const KEPT = "edge-sweep"; // tags of a page that is closed before they are stored

let current = null; // { id, by }
let reads = new Map(); // code -> { code, at, era, session, person, organization }
let unstored = [];
let [stored, timer, storing] = [0, 0, null];
let [isWithElsewhere, isFull] = [false, false];
let swept = new Map(); // id of an asset -> the location of a scan that is not sent yet
let groups = emptyGroups();
let badges = new Set();
let listed = new Set(); // ids of read assets that are on the expected list

function emptyGroups() {
  return { here: [], elsewhere: [], unknown: [] };
}

export const isOn = () => Boolean(current);

export function begin() {
  reset({ id: newId(), by: signedIn() });
  know().catch(() => {});
  show();
}

function reset(next) {
  clearTimeout(timer);
  [current, reads, unstored, groups, badges, swept, listed] = [next, new Map(), [], emptyGroups(), new Set(), new Map(), new Set()];
  [stored, timer, isWithElsewhere, isFull] = [0, 0, false, false];
}

/** Continue the sweep that a page left which was closed. */
export async function load() {
  const kept = await queue.loadSweep();
  if (!kept.current) return;
  reset(kept.current);
  for (const row of kept.reads) reads.set(row.code, row);
  stored = reads.size;
  for (const row of left()) if (!reads.has(row.code)) enter(row);
  await store();
  localStorage.removeItem(KEPT);
  await know();
  show();
}

function left() {
  try {
    const { id, rows } = JSON.parse(localStorage.getItem(KEPT));
    return id === current.id ? rows : [];
  } catch {
    return []; // none, or edited by hand
  }
}

/** What was scanned without a connection is newer than the copy of the assets. */
async function know() {
  for (const [id, { location }] of await copy.waiting()) swept.set(id, location);
  sort();
}

/** Take a code into the sweep; false if it is not for it. `raw` is how it was typed. */
export function takes({ id, code, at, era, by }, raw) {
  if (!current || !raw || raw.isPart) return false;
  const known = copy.find(code);
  if (!isEpc(code) && !known) return false;
  const key = isEpc(code) ? code.toUpperCase() : code;
  if (locations.isCode(code, known)) return isEpc(code); // the tag of a rack, which its labels would choose
  if (!known && mayBeBadge(code)) {
    badges.add(code); // stored nowhere
    later();
  } else if (reads.has(key)) {
    forgetAll([id]);
  } else if (reads.size >= MOST) {
    if (!isFull) signal("refused");
    isFull = true;
    later();
  } else {
    enter({ code: key, caught: id, ...stamp(by || current.by, { at, era }) });
    later();
  }
  return true;
}

function enter(row) {
  reads.set(row.code, row);
  unstored.push(row);
  groups[groupOf(row.code)].push(row);
}

function later() {
  timer = timer || setTimeout(() => { timer = 0; store().catch(complain); }, EVERY);
}

/** Store what is not stored yet. What is drawn is stored. */
async function store() {
  while (storing) await storing;
  const [rows, sweep] = [[...unstored], current];
  if (!sweep) return;
  if (rows.length) {
    storing = queue.addReads(sweep, rows).finally(() => { storing = null; });
    await storing;
    if (current !== sweep) return;
    unstored = unstored.slice(rows.length);
    stored += rows.length;
    forgetAll(rows.map(({ caught }) => caught));
    tick();
  }
  draw();
  if (unstored.length) later();
}

function complain(error) {
  signal("refused");
  $("sweep-note").textContent = t("This device cannot store the sweep: {reason}", { reason: error.message });
  later();
}

addEventListener("pagehide", () => {
  if (current && unstored.length) localStorage.setItem(KEPT, JSON.stringify({ id: current.id, rows: unstored }));
});

// What is where ---------------------------------------------------------------------------------------------------

function groupOf(code) {
  const thing = copy.find(code);
  if (!thing) return "unknown";
  if (expected.isExpected(thing.id)) {
    listed.add(thing.id);
    return "here"; // it may have been read in the aisle that it comes from
  }
  const place = swept.has(thing.id) ? swept.get(thing.id) : thing.location;
  const isRecent = swept.has(thing.id) || siteNow() / 1000 - thing.seen < JUST_SEEN;
  return isRecent && place && !isHere(place) ? "elsewhere" : "here";
}

function isHere(place) {
  if (stock.take) return stock.inScope(place);
  return Boolean(locations.choice.location) && place === locations.choice.location.id;
}

/** Sort all tags again, after the location or the copy of the assets changed. */
export function sort() {
  if (!current) return;
  [groups, listed] = [emptyGroups(), new Set()];
  for (const row of reads.values()) groups[groupOf(row.code)].push(row);
  draw();
}

/** Tags to be saved. An unmatched tag cannot be put onto a carrier or taken off it. */
function chosen() {
  return [...groups.here, ...(isWithElsewhere ? groups.elsewhere : []), ...(carrier.loading ? [] : groups.unknown)];
}

/** End the sweep: what is queued for it, in one transaction. Returns the entry of the log, or null if there is nothing. */
export async function save() {
  await store();
  sort();
  const [rows, { choice }, sweep] = [chosen(), locations, current];
  if (!rows.length || !choice.location) return null;
  const place = { choice: choice.id, locationId: choice.location.id, locationName: choice.location.name, held: null };
  if (stock.take) place.take = stock.take.id;
  else place.list = expected.listAt(choice.location);
  const items = rows.map(({ caught, ...row }, no) => {
    const thing = copy.find(row.code);
    return { ...row, ...place, id: scanId(sweep.id, no), sweep: sweep.id, ...carrier.wireOf(thing) };
  });
  const entry = {
    ...place, ...stamp(sweep.by || undefined), id: sweep.id, code: "", codes: items.map(({ code }) => code), sweep: sweep.id, open: items.length, counts: {}, state: "queued",
  };
  reset(null); // tags that are read from now on are scans, or begin another sweep
  hide();
  link.saving = items.length;
  try {
    await recount(); // it says how many are not saved, however long it takes
    await queue.saveSweep(entry, items);
  } catch (error) {
    await load(); // it is still stored
    throw error;
  } finally {
    link.saving = 0;
  }
  signal(link.state === "ok" ? "recorded" : "queued");
  return entry;
}

/** A second tap, because the tags cannot be brought back. Without tags there is nothing to ask. */
export function askDiscard(onDiscard) {
  if (!stored && !storing) return onDiscard();
  const text = tn("Discard {count} tag", "Discard {count} tags", stored);
  openSheet("discard", t("Discard the sweep"), button(text, onDiscard, "button wide"));
}

export async function discard() {
  while (storing) await storing;
  reset(null);
  hide();
  await queue.clearSweep();
}

// The screen ------------------------------------------------------------------------------------------------------

function show() {
  document.body.classList.add("sweeping");
  $("sweep").hidden = false;
  draw();
}

function hide() {
  localStorage.removeItem(KEPT);
  document.body.classList.remove("sweeping");
  $("sweep").hidden = true;
}

export function toggleElsewhere() {
  isWithElsewhere = !isWithElsewhere;
  draw();
}

function draw() {
  if (!current) return;
  const { elsewhere, unknown } = groups;
  $("sweep-count").textContent = stored;
  $("sweep-word").textContent = tn("tag", "tags", stored);
  const { list } = expected;
  $("sweep-list").textContent = list ? t("{number} of {count} on {list}", { number: listed.size, count: expected.size(), list: list.name }) : "";
  $("sweep-unknown").textContent = unknown.length ? tn("{count} unmatched tag", "{count} unmatched tags", unknown.length) : "";
  $("sweep-apart").hidden = !elsewhere.length;
  $("sweep").classList.toggle("apart", elsewhere.length > 0);
  if (elsewhere.length) drawElsewhere(elsewhere);
  $("sweep-note").textContent = note();
  const count = chosen().length;
  $("sweep-save").disabled = !count || !locations.choice.location;
  $("sweep-save").textContent = count ? tn("Save {count} tag", "Save {count} tags", count) : t("Save");
}

function drawElsewhere(elsewhere) {
  const lines = elsewhere.slice(0, MOST_NAMES).map(({ code }) => {
    const thing = copy.find(code);
    const place = locations.byId(swept.has(thing.id) ? swept.get(thing.id) : thing.location);
    return part("", place ? `${thing.name} · ${place.name}` : thing.name, "li");
  });
  if (elsewhere.length > MOST_NAMES) lines.push(part("", t("and {more} more", { more: elsewhere.length - MOST_NAMES }), "li"));
  $("sweep-elsewhere").textContent = tn("{count} just seen elsewhere", "{count} just seen elsewhere", elsewhere.length);
  fill($("sweep-names"), lines);
  $("sweep-move").textContent = isWithElsewhere ? t("Leave them there") : stock.take ? t("Count them here too") : t("Move them here too");
  $("sweep-move").setAttribute("aria-pressed", String(isWithElsewhere));
}

function note() {
  if (isFull) return t("A sweep has at most {count} tags. Save it and continue", { count: MOST });
  if (badges.size) return tn("{count} tag may be a badge and is not saved", "{count} tags may be badges and are not saved", badges.size);
  return locations.choice.location ? "" : t("Choose a location first");
}
