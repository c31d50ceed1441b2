// The scan page. A code goes this way: caught, kept on the device, shown, sent, answered, shown again.

import { isMuted, keepAwake, setMuted, signal } from "./feedback.js";
import { find, offerToAttach, openFind, openPlaces, openTest, showRaw, showTested } from "./find.js";
import * as queue from "./queue.js";
import { listen } from "./scanner.js";
import { $, closeSheet, facts, sheet, showLink, showLog, showPlace, showResult } from "./show.js";
import { ask, flush, link, start } from "./sync.js";

const SAME_SCAN = 2000; // ms: the same code again within it is one scan
const PATIENCE = 700; // ms: after it a scan is shown as stored, without waiting longer for the server's answer
const WORST_FIRST = ["refused", "place", "unknown", "again", "recorded", "undone"];

let places = [];
let place = null; // where is being scanned
let names = {}; // what codes meant before, to show a name without a connection
let lastCode = { code: "", at: 0 };
let shownId = ""; // of the scan in the large result
const unsignalled = new Map(); // id -> timer, of scans whose outcome was not yet heard
let line = load(); // codes are worked on one after the other, in the order they were scanned

async function onCode(code, at) {
  if (sheet.name === "test") return showTested(code);
  if (sheet.name === "find") return find(code);
  closeSheet();
  if (code === lastCode.code && at - lastCode.at < SAME_SCAN) return;
  lastCode = { code, at };
  const label = placeOf(code);
  if (label) return choosePlace(label);
  if (!place) {
    signal("refused");
    return showResult({ outcome: "refused", thing: "Scan a place first", told: `${code} was not recorded`, state: "" });
  }
  await keep(code, at);
}

async function keep(code, at) {
  const item = {
    id: newId(), code, at, place: place.id, placeName: place.name, known: names[code],
    person: link.me?.person ?? null, organization: link.me?.organization ?? null,
  };
  try {
    await queue.add(item);
  } catch (error) {
    signal("refused");
    return showResult({ outcome: "refused", thing: code, told: `This device cannot store it: ${error.message}`, state: "" });
  }
  shownId = item.id;
  const entry = { ...item, state: "queued" };
  const late = () => {
    unsignalled.delete(item.id);
    signal("queued");
    if (shownId === item.id) showResult(facts(entry));
  };
  unsignalled.set(item.id, setTimeout(late, link.state === "ok" ? PATIENCE : 0));
  if (link.state === "ok") showResult(facts(entry), false);
  showLog(await queue.recent());
  $("undo").disabled = false;
  flush();
}

/** Answers came: say the worst of them aloud, show the newest. */
async function onAnswers(results) {
  showLink(link);
  if (!results.length) return;
  const log = await queue.recent(300);
  const byId = new Map(log.map((entry) => [entry.id, entry]));
  const heard = [];
  for (const { id, result } of results) {
    if (unsignalled.has(id)) {
      clearTimeout(unsignalled.get(id));
      unsignalled.delete(id);
      heard.push(result);
    } else if (["refused", "unknown", "place", "undone"].includes(result)) {
      heard.push(result);
      if (byId.has(id) && result !== "undone") shownId = id; // a late answer that needs somebody
    }
    const entry = byId.get(id);
    if (entry?.asset) names[entry.code] = entry.asset.name;
  }
  if (heard.length) signal(heard.sort((a, b) => WORST_FIRST.indexOf(a) - WORST_FIRST.indexOf(b))[0]);
  showEntry(byId.get(shownId), heard.length > 0);
  showLog(log);
  $("undo").disabled = !undoable(log);
  rememberNames();
  if (log.length > 200) await queue.tidy();
}

function showEntry(entry, flash) {
  if (!entry) return;
  showResult(facts(entry), flash);
  if (entry.state === "unknown" && link.me?.may_edit) offerToAttach(entry, (answer) => onAttached(entry, answer));
}

async function onAttached(entry, answer) {
  await queue.update({ ...entry, ...answer, id: entry.id, state: answer.result });
  signal(answer.result);
  await refresh(entry.id);
}

async function refresh(id = shownId) {
  shownId = id;
  const log = await queue.recent(300);
  showEntry(log.find((entry) => entry.id === id), false);
  showLog(log);
  $("undo").disabled = !undoable(log);
}

// Places --------------------------------------------------------------------------------------------------------

function placeOf(code) {
  const label = /^https?:\/\/[^/]+\/l\/([^/?#]+)/.exec(code);
  if (label) return places.find((one) => one.key === decodeURIComponent(label[1]));
  return places.find((one) => one.codes.includes(code)) || places.find((one) => one.key === code);
}

async function choosePlace(chosen) {
  place = chosen;
  closeSheet();
  showPlace(place);
  signal("place");
  shownId = "";
  showResult({ outcome: "place", thing: place.name, told: "Now scan what is here", state: "" });
  await queue.save("place", place);
}

async function loadPlaces() {
  const kept = await queue.load("places");
  if (kept) places = kept.places;
  let version;
  try {
    const fresh = await ask("/scan/places", {
      headers: kept ? { "If-None-Match": kept.version } : {},
      etag: (value) => { version = value; },
    });
    if (fresh) {
      places = fresh.map(([id, name, area, key, ...codes]) => ({ id, name, area, key, codes }));
      await queue.save("places", { version, places });
    }
  } catch {
    return; // without a connection the kept ones are used
  }
  if (place && !places.some((one) => one.id === place.id)) {
    place = null;
    showPlace(place);
  }
}

// Undo ----------------------------------------------------------------------------------------------------------

const undoable = (log) => log.find((entry) => entry.person === (link.me?.person ?? entry.person)
  && ["queued", "recorded", "again", "unknown"].includes(entry.state));

async function undoLast() {
  const entry = undoable(await queue.recent(300));
  if (!entry) return;
  lastCode = { code: "", at: 0 }; // the same code may be scanned anew at once
  await queue.add({ id: newId(), undo: entry.id, at: Date.now(), person: entry.person, organization: entry.organization });
  await queue.update({ ...entry, state: "undoing" });
  await refresh(entry.id);
  flush();
}

// Start ---------------------------------------------------------------------------------------------------------

function newId() {
  if (crypto.randomUUID) return crypto.randomUUID(); // only on https
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

let namesTimer = 0;
function rememberNames() {
  clearTimeout(namesTimer);
  namesTimer = setTimeout(() => {
    names = Object.fromEntries(Object.entries(names).slice(-3000));
    queue.save("names", names);
  }, 2000);
}

function wire() {
  listen((code) => {
    const at = Date.now(); // now, not when its turn comes
    line = line.then(() => onCode(code, at)).catch(report);
  }, (event) => sheet.name === "test" && showRaw(event));
  $("undo").addEventListener("click", () => { line = line.then(undoLast).catch(report); });
  $("find").addEventListener("click", openFind);
  $("place").addEventListener("click", () => openPlaces(places, choosePlace));
  $("sheet-close").addEventListener("click", closeSheet);
  $("sheet").addEventListener("close", () => { sheet.name = ""; });
  $("test").addEventListener("click", () => { $("menu").open = false; openTest(); });
  $("mute").addEventListener("click", () => { setMuted(!isMuted()); showMute(); });
  $("sign-out").addEventListener("submit", (event) => { event.target.csrf.value = link.me?.csrf || ""; });
  document.addEventListener("click", (event) => {
    if (event.detail) document.activeElement?.closest(".bar button, .place")?.blur(); // tapped, not reached by keyboard
    if (!$("menu").contains(event.target)) $("menu").open = false;
  });
  showMute();
  document.body.dataset.listening = "1"; // whatever is scanned from here on is kept
}

function showMute() {
  $("mute").setAttribute("aria-pressed", String(isMuted()));
  $("mute").textContent = isMuted() ? "Sounds are muted: unmute" : "Mute the sounds";
}

function report(error) {
  signal("refused");
  showResult({ outcome: "refused", thing: "This page has a problem", told: String(error.message || error), state: "" });
}

/** What the device kept; a code that is scanned before it is there waits for it. */
async function load() {
  [place, names, link.me] = await Promise.all([queue.load("place"), queue.load("names"), queue.load("me")]);
  names ??= {};
  showPlace(place);
}

async function begin() {
  wire();
  keepAwake();
  await line;
  const log = await queue.recent();
  showLog(log);
  await start(onAnswers);
  await loadPlaces();
  $("undo").disabled = !undoable(log);
  setInterval(loadPlaces, 5 * 60 * 1000);
  queue.tidy();
  navigator.storage?.persist?.();
  if (navigator.serviceWorker) navigator.serviceWorker.register("/sw.js");
  document.body.dataset.ready = "1";
}

begin().catch(report);

