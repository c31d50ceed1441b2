// What the device stores: scans not yet answered, the latest answers, and what it knows of the site. All of it is in
// IndexedDB, written before anything else happens, so that a reload, a crash or an empty battery loses no scan.

import { isUndoId, numberOf, scanId, sweepOf, undoId } from "./sweeping.js";
import { t } from "./texts.js";

const NAME = "edge-scan";
const VERSION = 6;
const SWEEPING = "sweeping"; // the sweep that is not saved yet
const ENDED = "ended"; // the choices of a location that a label ended last, and what that means for their scans
const MOST_ENDED = 8;
let opened;

/** A release that was rolled back to works with what the newer one stored: versions only add to each other. */
function open() {
  opened = opened || openAs(VERSION).catch((error) => {
    if (error.name !== "VersionError") throw error;
    return openAs();
  });
  return opened;
}

function openAs(version) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, version);
    request.onupgradeneeded = () => {
      const base = request.result;
      const has = (name) => base.objectStoreNames.contains(name);
      if (!has("queue")) {
        base.createObjectStore("queue", { keyPath: "no", autoIncrement: true }).createIndex("id", "id", { unique: true });
        base.createObjectStore("log", { keyPath: "id" }).createIndex("no", "no");
        base.createObjectStore("kept");
      } else if (!request.transaction.objectStore("log").indexNames.contains("no")) numberLog(request.transaction);
      if (!has("assets")) base.createObjectStore("assets", { keyPath: "no" });
      if (!has("parcels")) base.createObjectStore("parcels", { keyPath: "no", autoIncrement: true });
      if (!has("sweep")) base.createObjectStore("sweep", { keyPath: "code" });
    };
    request.onsuccess = () => {
      request.result.onversionchange = () => { request.result.close(); opened = null; }; // another tab is newer
      request.result.onclose = () => { opened = null; }; // by the browser, for example to free storage
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
  });
}

/** Up to version 3 the log was in the order of the device's clock, which may have been set back. */
function numberLog(t) {
  const log = t.objectStore("log");
  t.objectStore("queue").getAll().onsuccess = ({ target: { result: queued } }) => {
    const numbers = new Map(queued.map(({ id, no }) => [id, no]));
    log.index("at").getAll().onsuccess = ({ target: { result: entries } }) => {
      entries.forEach((entry, i) => log.put({ ...entry, no: numbers.get(entry.id) || i - entries.length }));
      log.deleteIndex("at");
    };
  };
  log.createIndex("no", "no");
}

export async function work(stores, mode, task) {
  const base = await open();
  return new Promise((resolve, reject) => {
    const transaction = base.transaction(stores, mode, mode === "readwrite" ? { durability: "strict" } : {});
    const result = task(transaction);
    transaction.oncomplete = () => resolve(result && result.result);
    transaction.onerror = (event) => reject(readable(event.target.error)); // the request's: the transaction has none yet
    transaction.onabort = () => reject(readable(transaction.error));
  });
}

/** Browsers give no text for a full storage, which people must be able to act on. `state`: as of the link. */
function readable(error) {
  if (!error || error.name !== "QuotaExceededError") return error;
  return Object.assign(new Error(t("its storage is full. Delete files or apps")), { state: "full" });
}

function unlessFull(error) {
  if (error.state !== "full") throw error;
}

/** Store a scan or an undo until it is answered. Only when this has resolved, with the item as stored, may it be shown. */
export const add = (given) => work(["queue", "log", "kept"], "readwrite", (t) => {
  const stored = { result: given };
  t.objectStore("kept").get(ENDED).onsuccess = ({ target: { result: ended } }) => {
    stored.result = given.code === undefined ? given : afterLabel(given, ended || []);
    put(t, stored.result);
  };
  return stored;
});

/** A label may have ended the choice while the scan was on its way to here: then it belongs to what the label says. */
function afterLabel(item, ended) {
  const end = ended.find(({ choice }) => choice === item.choice);
  return end ? afterLabel({ ...item, ...end.fate }, ended.filter((one) => one !== end)) : item;
}

/** Store several items, or none if one fails. */
export const addAll = (items) => work(["queue", "log"], "readwrite", (t) => items.forEach((item) => put(t, item)));

/** Add to the queue. Its number orders everything, and the log has the same number. */
function put(t, item) {
  t.objectStore("queue").add(item).onsuccess = ({ target: { result: no } }) => {
    if (item.undo) change(t, item.undo, (entry) => ({ ...entry, state: "undoing" }));
    if (item.code !== undefined) t.objectStore("log").put({ ...item, no, state: item.held ? "unclear" : "queued" });
  };
}

/** Take over what waited in the storage of the page without HTTPS. What is here already stays as it is. */
export const takeOver = ({ items, parcels }) => work(["queue", "log", "parcels"], "readwrite", (t) => {
  t.objectStore("log").getAll().onsuccess = ({ target: { result: logged } }) => {
    t.objectStore("queue").getAll().onsuccess = ({ target: { result: queued } }) => {
      const known = new Set([...logged, ...queued].map(({ id }) => id));
      const fresh = items.filter(({ id }) => !known.has(id));
      for (const item of fresh.filter(({ sweep }) => !sweep)) put(t, item);
      for (const sweep of new Set(fresh.map((item) => item.sweep).filter(Boolean))) {
        putOfSweep(t, logged.find(({ id }) => id === sweep), fresh.filter((item) => item.sweep === sweep));
      }
    };
  };
  t.objectStore("parcels").getAll().onsuccess = ({ target: { result: kept } }) => {
    for (const one of parcels) if (!kept.some(({ id }) => id === one.id)) t.objectStore("parcels").add(one);
  };
});

/** Scans of a sweep have one entry in the log. */
function putOfSweep(t, entry, items) {
  const scans = items.filter(({ code }) => code !== undefined);
  for (const item of items) {
    t.objectStore("queue").add(item).onsuccess = ({ target: { result: no } }) => {
      if (item !== scans[0]) return;
      const { codes, open, ...rest } = entry || { ...item, id: item.sweep, no, code: "", codes: [], open: 0, counts: {}, state: item.held ? "unclear" : "queued" };
      t.objectStore("log").put({ ...rest, codes: [...codes, ...scans.map(({ code }) => code)], open: open + scans.length });
    };
  }
}

/** Drop what is stored elsewhere: items and parcels up to these numbers. */
export const dropUpTo = (no, parcelNo) => work(["queue", "log", "parcels"], "readwrite", (t) => {
  forAll(t, (item) => item.no <= no, (item) => erase(t, item));
  t.objectStore("parcels").getAll().onsuccess = ({ target: { result: kept } }) => {
    for (const one of kept) if (one.no <= parcelNo) t.objectStore("parcels").delete(one.no);
  };
});

/** Queued items, oldest first. */
export const waiting = () => work(["queue"], "readonly", (t) => t.objectStore("queue").getAll());

/** How many scans and undos an item stands for. */
export const sizeOf = ({ undone }) => (undone ? undone.length : 1);

const CHANGING = ["location", "retired", "whose", "unclear", "badge"]; // answers that change other items, or keep their own

/** What still waits after these answers; null if it must be read again. */
export function without(items, answers) {
  if (answers.some(({ result }) => CHANGING.includes(result))) return null;
  const answered = new Set(answers.map(({ id }) => id));
  return items.filter(({ id }) => !answered.has(id)).flatMap((item) => {
    const undone = item.undone && item.undone.filter((no) => !answered.has(undoId(item.sweep, no)));
    return !undone ? [item] : undone.length ? [{ ...item, undone }] : [];
  });
}

/** Move answered items from the queue to the log in one transaction. */
export const settle = (answers) => work(["queue", "log", "kept"], "readwrite", (t) => {
  const tallies = new Map(); // of each sweep, so that its long entry is written once
  for (const answer of answers) {
    const sweep = sweepOf(answer.id);
    if (sweep && !tallies.has(sweep)) tallies.set(sweep, { scans: 0, undos: 0, counts: {}, undone: new Map() });
    if (isUndoId(answer.id)) tallies.get(sweep).undone.set(numberOf(answer.id), answer);
    byId(t, answer.id, (item) => {
      if (answer.result === "badge") return erase(t, item);
      if (answer.result === "unclear") return; // it stays, held by the answer to the label before it
      if (answer.result === "retired") return hold(t, item, { shown: item.locationName, retired: true });
      if (answer.result === "whose") return hold(t, item, { whose: true });
      t.objectStore("queue").delete(item.no);
      if (sweep) return count(tallies.get(sweep), item, answer);
      if (answer.result === "location" && !item.undo) endChoice(t, item, answer.location);
      change(t, item.undo || item.id, (entry) => {
        const state = item.undo && answer.result === "refused" ? entry.state : answer.result;
        return { ...entry, ...answer, id: entry.id, state };
      });
    });
  }
  for (const [sweep, tally] of tallies) {
    if (tally.undone.size) settleUndo(t, sweep, tally);
    else change(t, sweep, (entry) => withTally(entry, tally));
  }
});

/** Remove what was answered from the one item that undoes a sweep. */
function settleUndo(t, sweep, tally) {
  t.objectStore("queue").index("id").get(undoId(sweep, "")).onsuccess = ({ target: { result: item } }) => {
    let held = {};
    if (item) {
      const answered = item.undone.filter((no) => tally.undone.has(no) && tally.undone.get(no).result !== "whose");
      for (const no of answered) count(tally, item, tally.undone.get(no));
      const undone = item.undone.filter((no) => !answered.includes(no));
      if (undone.some((no) => tally.undone.has(no))) held = { held: { whose: true } };
      if (undone.length) t.objectStore("queue").put({ ...item, undone, ...held });
      else t.objectStore("queue").delete(item.no);
    }
    change(t, sweep, (entry) => ({ ...withTally(entry, tally), ...held, ...(held.held && { state: "unclear" }) }));
  };
}

function count(tally, item, { result }) {
  if (!item.undo) tally.scans += 1;
  else tally.undos += 1;
  const name = item.undo && result !== "undone" ? "kept" : result;
  tally.counts[name] = (tally.counts[name] || 0) + 1;
}

/** The entry of a sweep after some of its scans or undos were answered. */
function withTally(entry, { scans, undos, counts }) {
  const all = { ...entry.counts };
  for (const [name, number] of Object.entries(counts)) all[name] = (all[name] || 0) + number;
  const next = { ...entry, counts: all, open: entry.open - scans, undos: (entry.undos || 0) - undos };
  if (entry.state === "undoing") return next.undos > 0 ? next : { ...next, state: all.kept ? "recorded" : "undone" };
  return next.open > 0 || entry.state !== "queued" ? next : { ...next, state: entry.take ? "counted" : "recorded" };
}

/** Store tags of a sweep. */
export const addReads = (sweep, rows) => work(["sweep", "kept"], "readwrite", (t) => {
  t.objectStore("kept").put(sweep, SWEEPING);
  for (const row of rows) t.objectStore("sweep").put(row);
});

/** The sweep that is not saved yet, with its tags. */
export async function loadSweep() {
  const [current, reads] = await Promise.all([load(SWEEPING), work(["sweep"], "readonly", (t) => t.objectStore("sweep").getAll())]);
  return { current, reads };
}

export const clearSweep = () => work(["sweep", "kept"], "readwrite", forgetSweep);

function forgetSweep(t) {
  t.objectStore("sweep").clear();
  t.objectStore("kept").delete(SWEEPING);
}

/** Queue all scans of a sweep, with one entry in the log. */
export const saveSweep = (entry, items) => work(["queue", "log", "kept", "sweep"], "readwrite", (t) => {
  t.objectStore("kept").get(ENDED).onsuccess = ({ target: { result: ended } }) => {
    const { choice, locationId, locationName } = afterLabel(entry, ended || []);
    let last;
    for (const item of items) last = t.objectStore("queue").add(afterLabel(item, ended || []));
    last.onsuccess = ({ target: { result: no } }) => t.objectStore("log").put({ ...entry, choice, locationId, locationName, no });
    forgetSweep(t);
  };
});

/** Undo a sweep: scans that are held are withdrawn, the others undone. `made` is the stamp of the undo. */
export const undoSweep = ({ id, codes, take, list }, made) => work(["queue", "log"], "readwrite", (t) => {
  const withdrawn = new Set();
  t.objectStore("queue").openCursor().onsuccess = ({ target: { result: cursor } }) => {
    if (cursor) {
      const item = cursor.value;
      if (item.sweep === id && item.held && !item.undo) {
        withdrawn.add(item.id);
        cursor.delete();
      }
      return cursor.continue();
    }
    const sent = codes.map((code, no) => no).filter((no) => !withdrawn.has(scanId(id, no)));
    if (sent.length) t.objectStore("queue").add({ id: undoId(id, ""), undo: id, undone: sent, sweep: id, take, list, ...made });
    change(t, id, (entry) => ({ ...entry, undos: sent.length, state: sent.length ? "undoing" : "undone" }));
  };
});

/**
 * The code is the label of a location: assign that location to the later scans of the same choice. In
 * a stock-take, which may not cover that location, ask the person.
 */
function endChoice(t, label, location) {
  const fate = label.take
    ? { locationId: null, locationName: "", held: { label: label.code, shown: label.locationName, location } }
    : { choice: label.id, locationId: location.id, locationName: location.name };
  const kept = t.objectStore("kept");
  kept.get(ENDED).onsuccess = ({ target: { result: ended } }) => {
    kept.put([{ choice: label.choice, fate }, ...(ended || [])].slice(0, MOST_ENDED), ENDED);
  };
  const moved = new Map(); // sweeps
  t.objectStore("queue").openCursor(IDBKeyRange.lowerBound(label.no, true)).onsuccess = ({ target: { result: cursor } }) => {
    if (!cursor) return moved.forEach((one, sweep) => change(t, sweep, (entry) => ({ ...entry, ...one, held: null })));
    const item = cursor.value;
    if (item.choice === label.choice && item.code !== undefined && !item.held) {
      cursor.update({ ...item, ...fate });
      if (!item.sweep) change(t, item.id, (entry) => ({ ...entry, ...fate, state: fate.held ? "unclear" : "queued" }));
      else moved.set(item.sweep, fate);
    }
    cursor.continue();
  };
}

/** Hold a scan whose location was retired or whose person is unclear. */
function hold(t, item, held) {
  const changes = held.whose ? { held } : { locationId: null, locationName: "", held };
  t.objectStore("queue").put({ ...item, ...changes });
  change(t, item.undo || item.id, (entry) => ({ ...entry, ...changes, state: "unclear" }));
}

/** Assign scans held because of their person to this person, or discard them. */
export const claim = (by) => work(["queue", "log"], "readwrite", (t) => forAll(t, ({ held }) => held && held.whose, (item, cursor) => {
  if (by) cursor.update({ ...item, ...by, held: null });
  else cursor.delete();
  change(t, item.undo || item.id, (entry) => ({ ...entry, ...by, held: null, state: by ? (item.undo ? "undoing" : "queued") : item.undo ? entry.state : "undone" }));
}));

/** Assign a location to the held scans of a choice, so they are sent. */
export const release = (choice, location) => work(["queue", "log"], "readwrite", (t) => {
  forHeld(t, choice, (item, cursor) => {
    const placed = { locationId: location.id, locationName: location.name, held: null };
    cursor.update({ ...item, ...placed });
    change(t, item.id, (entry) => ({ ...entry, ...placed, state: "queued" }));
  });
});

/** Discard the held scans of a choice. They stay in the log as undone. */
export const discard = (choice) => work(["queue", "log"], "readwrite", (t) => {
  forHeld(t, choice, (item, cursor) => {
    cursor.delete();
    change(t, item.id, (entry) => ({ ...entry, held: null, state: "undone" }));
  });
});

/** Remove one scan from the queue. Returns false if it was already answered. */
export async function withdraw(id) {
  let isRemoved = false;
  await work(["queue", "log"], "readwrite", (t) => byId(t, id, (item) => {
    if (!item.held) return; // it may be on its way
    isRemoved = true;
    t.objectStore("queue").delete(item.no);
    change(t, id, (entry) => ({ ...entry, held: null, state: "undone" }));
  }));
  return isRemoved;
}

/** Delete a scan completely, for example the scan of a badge. */
export const drop = (id) => work(["queue", "log"], "readwrite", (t) => byId(t, id, (item) => erase(t, item)));

function erase(t, { no, id }) {
  t.objectStore("queue").delete(no);
  t.objectStore("log").delete(id);
}

const forHeld = (t, choice, task) => forAll(t, (item) => item.choice === choice && item.held && !item.held.whose, task);

function forAll(t, isMeant, task) {
  t.objectStore("queue").openCursor().onsuccess = ({ target: { result: cursor } }) => {
    if (!cursor) return;
    if (isMeant(cursor.value)) task(cursor.value, cursor);
    cursor.continue();
  };
}

function byId(t, id, task) {
  t.objectStore("queue").index("id").get(id).onsuccess = ({ target: { result } }) => { if (result) task(result); };
}

function change(t, id, made) {
  const log = t.objectStore("log");
  log.get(id).onsuccess = ({ target: { result } }) => { if (result) log.put(made(result)); };
}

/** Recent scans, newest first, in queue order because the device's clock may be set back. */
export async function recent(count = 30) {
  const all = await work(["log"], "readonly", (t) => t.objectStore("log").index("no").getAll());
  return all.reverse().slice(0, count);
}

export const update = (entry) => work(["log"], "readwrite", (t) => t.objectStore("log").put(entry));

/** Trim the log. Never drops queued scans or scans of an open stock-take. */
export async function tidy(take, keep = 500) {
  const isDone = (entry) => !["queued", "undoing", "unclear"].includes(entry.state) && !(take && entry.take === take);
  const old = (await recent(Infinity)).slice(keep).filter(isDone);
  if (old.length) await work(["log"], "readwrite", (t) => old.forEach((entry) => t.objectStore("log").delete(entry.id)));
}

/** What is sent one at a time after the scans: photos, and labels to print. Scans must always find room beside them. */
export const addParcel = (parcel) => work(["parcels"], "readwrite", (t) => t.objectStore("parcels").add(parcel));
export const parcels = () => work(["parcels"], "readonly", (t) => t.objectStore("parcels").getAll());

/** The server refused it: it is dropped, and the log keeps a line with the reason, after all that is there. */
export const refuseParcel = ({ no, id, at, era }, known, reason) => work(["parcels", "log"], "readwrite", (t) => {
  t.objectStore("parcels").delete(no);
  const log = t.objectStore("log");
  log.index("no").openKeyCursor(null, "prev").onsuccess = ({ target: { result: cursor } }) => {
    const last = cursor ? cursor.key : 0;
    const between = (last + Math.floor(last) + 1) / 2; // the next scan gets a whole number
    log.put({ id, no: between, at, era, code: id, known, reason, state: "refused", locationName: "" });
  };
});

export const dropParcel = (no) => work(["parcels"], "readwrite", (t) => t.objectStore("parcels").delete(no));

/** The device's copy of the assets, in buckets: see `copy.js`. */
export const loadAssets = () => work(["assets"], "readonly", (t) => t.objectStore("assets").getAll());
export const saveAssets = (buckets) => work(["assets"], "readwrite", (t) => buckets.forEach((one) => t.objectStore("assets").put(one))).catch(unlessFull);

export const load = (name) => work(["kept"], "readonly", (t) => t.objectStore("kept").get(name));
/** Store what the server can give again. Without room the page works with what it has. */
export const cache = (name, value) => save(name, value).catch(unlessFull);
export const save = (name, value) => work(["kept"], "readwrite", (t) => t.objectStore("kept").put(value, name));
