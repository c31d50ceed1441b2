// The scan page. A code goes this way: caught, kept on the device, shown, sent, answered, shown again.

import { looksLikeLocation } from "./codes.js";
import * as copy from "./copy.js";
import { countOf } from "./count.js";
import { isMuted, keepAwake, setMuted, signal } from "./feedback.js";
import { guardExits } from "./leave.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { listen } from "./scanner.js";
import { closeSheet, fill, guardBack, sheet } from "./sheets.js";
import { $, facts, say, showCount, showLink, showLocation, showLog, showResult } from "./show.js";
import { flush, link, start } from "./sync.js";
import { t } from "./texts.js";

const SAME_SCAN = 2000; // ms: the same code again within it is one scan
const PATIENCE = 700; // ms: after it a scan is shown as kept, without waiting longer for the server's answer
const WORST_FIRST = ["refused", "unclear", "location", "unknown", "again", "recorded", "undone"];
const UNDOABLE = ["queued", "recorded", "again", "unknown", "unclear"];

let lastCode = { code: "", at: 0 };
let shownId = ""; // of the scan in the large result
const unsignalled = new Map(); // id -> timer, of scans whose outcome was not yet heard
let line = load(); // codes are worked on one after the other, in the order they were scanned
let tools = null; // the modules of what opens over the page, once they are loaded
const useTools = () => (tools = tools || import("./tools.js"));

async function onCode(code, raw, at) {
  if (sheet.name === "test") return (await useTools()).showTested(code, raw);
  if (sheet.name === "find") return (await useTools()).find(code);
  closeSheet();
  if (code === lastCode.code && at - lastCode.at < SAME_SCAN) return;
  lastCode = { code, at };
  const thing = copy.find(code);
  const location = locations.find(code, thing);
  if (location) return chooseLocation(location);
  if (looksLikeLocation(code)) return loseLocation(code);
  if (!locations.choice.location && !locations.choice.label) {
    signal("refused");
    return showResult({ outcome: "refused", thing: t("Scan a location first"), told: t("{code} was not recorded", { code }), state: "" });
  }
  await keep(code, at, thing);
}

async function keep(code, at, thing) {
  const { id, location, label } = locations.choice;
  const item = {
    id: newId(), code, at, choice: id, locationId: location && location.id, locationName: location ? location.name : "",
    held: location ? null : { label }, known: thing && thing.name,
    person: link.me ? link.me.person : null, organization: link.me ? link.me.organization : null,
  };
  try {
    await queue.add(item);
  } catch (error) {
    signal("refused");
    return showResult({ outcome: "refused", thing: code, told: t("This device cannot store it: {reason}", { reason: error.message }), state: "" });
  }
  shownId = item.id;
  announce({ ...item, state: item.held ? "unclear" : "queued" });
  redraw();
  flush();
}

/** Wait a moment for the server's answer before a scan is said to be only kept. */
function announce(entry) {
  const late = () => {
    unsignalled.delete(entry.id);
    signal(entry.state);
    if (shownId === entry.id) showResult(facts(entry));
  };
  const waits = link.state === "ok" && entry.state === "queued";
  unsignalled.set(entry.id, setTimeout(late, waits ? PATIENCE : 0));
  if (waits) showResult(facts(entry), false);
}

/** Answers came: say the worst of them aloud, show the newest. */
async function onAnswers(results) {
  showLink(link);
  if (link.state === "ok" && awaitsLabel()) refreshLocations().catch(report);
  if (!results.length) return;
  const log = await queue.recent(300);
  const byId = new Map(log.map((entry) => [entry.id, entry]));
  const heard = [];
  for (const { id, result } of results) {
    if (unsignalled.has(id)) {
      clearTimeout(unsignalled.get(id));
      unsignalled.delete(id);
      heard.push(result);
    } else if (["refused", "unknown", "location", "unclear", "undone"].includes(result)) {
      heard.push(result);
      if (byId.has(id) && result !== "undone") shownId = id; // a late answer that needs somebody
    }
    const entry = byId.get(id);
    if (entry && entry.asset && result !== "undone") copy.move(entry.asset.id, entry.locationId, entry.at);
  }
  if (heard.length) signal(heard.sort((a, b) => WORST_FIRST.indexOf(a) - WORST_FIRST.indexOf(b))[0]);
  await showEntry(byId.get(shownId), heard.length > 0);
  await followLabel(results.filter(({ result }) => result === "location").map(({ id }) => byId.get(id)));
  await redraw();
  if (log.length >= 300) await queue.tidy();
}

async function showEntry(entry, flash) {
  if (!entry) return;
  showResult(facts(entry), flash);
  if (entry.state === "unknown" && link.me && link.me.may_edit) {
    const { attachButtons } = await useTools();
    if (shownId === entry.id) fill($("acts"), attachButtons(entry, (answer) => onAttached(entry, answer)));
  }
}

async function onAttached(entry, answer) {
  await queue.update({ ...entry, ...answer, id: entry.id, state: answer.result });
  signal(answer.result);
  await showAgain(entry.id);
}

/** A scan of the log in the large result, as it stands now. */
async function showAgain(id) {
  shownId = id;
  const log = await queue.recent(Infinity);
  await showEntry(log.find((entry) => entry.id === id), false);
  await redraw();
}

let drawing = null;
let drawAgain = false;
/** The log, the count and what can be undone. Many scans in one moment are drawn once. */
function redraw() {
  drawAgain = Boolean(drawing);
  drawing = drawing || draw().finally(() => {
    drawing = null;
    if (drawAgain) return redraw();
  });
  return drawing;
}

async function draw() {
  const log = await queue.recent(Infinity);
  showLog(log);
  showCount(countOf(log));
  if (sheet.name === "list") (await useTools()).showList(log);
  $("undo").disabled = !log.find(isUndoable);
}

// Locations -----------------------------------------------------------------------------------------------------

async function chooseLocation(location, id = newId()) {
  await locations.choose(location, id);
  closeSheet();
  showLocation(locations.choice);
  signal("location");
  shownId = "";
  showResult({ outcome: "location", thing: location.name, told: t("Now scan what is here"), state: "" });
  await redraw();
}

/** A label nobody knows ends the location before it: what is scanned now would be saved at the wrong one. */
async function loseLocation(code) {
  await locations.becomeUnclear(code, newId());
  showLocation(locations.choice);
  signal("unclear");
  shownId = "";
  const told = t("{code} names no location this device knows. What you scan now waits until you choose one", { code });
  showResult({ outcome: "unclear", thing: t("Location unclear"), told, state: "" });
  await redraw();
  refreshLocations().catch(report); // it may have been made after this page was opened
}

/** A code that was sent as a thing turned out to be a location's label: from now on it is scanned there. */
async function followLabel(entries) {
  for (const entry of entries) {
    if (!entry || entry.choice !== locations.choice.id) continue;
    const { id, key, name } = entry.location;
    await chooseLocation(locations.all().find((one) => one.id === id) || { id, key, name, area: null });
    refreshLocations().catch(report);
  }
}

/** Whether a label was scanned that the server may know by now. */
function awaitsLabel() {
  return Boolean(locations.choice.label) || link.held.some(({ held }) => !held.location);
}

async function refreshLocations() {
  if (!(await locations.refresh())) return;
  const { location, label, id } = locations.choice;
  if (location && !locations.all().some((one) => one.id === location.id)) {
    await locations.choose(null, newId());
    showLocation(locations.choice);
  }
  const found = label && locations.find(label);
  if (found) await chooseLocation(found, id);
  await releaseKnown();
}

/** Scans under a label that has become known meanwhile were made there: the page showed no other location. */
async function releaseKnown() {
  const labels = new Map(link.held.filter(({ held }) => !held.location).map((item) => [item.choice, item.held.label]));
  for (const [choice, label] of labels) {
    const found = locations.find(label);
    if (found) await place(choice, found);
  }
}

async function place(choice, location) {
  await queue.release(choice, location);
  if (choice === locations.choice.id && !locations.choice.location) await chooseLocation(location, choice);
  closeSheet();
  say(t("They are saved at {location}", { location: location.name }));
  await redraw();
  flush();
}

async function takeBackHeld(choice) {
  await queue.discard(choice);
  closeSheet();
  await redraw();
  flush();
}

// Undo ----------------------------------------------------------------------------------------------------------

function isUndoable(entry) {
  return entry.person === (link.me ? link.me.person : entry.person) && UNDOABLE.includes(entry.state);
}

async function undoLast() {
  const entry = (await queue.recent(Infinity)).find(isUndoable);
  if (entry) await undo(entry);
}

async function undo(entry) {
  lastCode = { code: "", at: 0 }; // the same code may be scanned anew at once
  if (entry.state !== "unclear" || !(await queue.withdraw(entry.id))) {
    await queue.add({ id: newId(), undo: entry.id, at: Date.now(), person: entry.person, organization: entry.organization });
    await queue.update({ ...entry, state: "undoing" });
  }
  await showAgain(entry.id);
  flush();
}

// Start ---------------------------------------------------------------------------------------------------------

function newId() {
  if (crypto.randomUUID) return crypto.randomUUID(); // only on https, and not in old browsers
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** One after the other, scans included. */
function inLine(task) {
  line = line.then(task).catch(report);
  return line;
}

/** What a control opens comes from the tools; a connection that broke while they were loading is told. */
function opens(id, open) {
  $(id).addEventListener("click", () => useTools().then(open).catch(() => {
    tools = null;
    say(t("No connection: this could not be loaded yet"));
  }));
}

function wire() {
  listen($("catcher"), (code, raw) => {
    const at = Date.now(); // now, not when its turn comes
    inLine(() => onCode(code, raw, at));
  }, (name, isText) => sheet.name === "test" && useTools().then(({ showRaw }) => showRaw(name, isText)));
  guardBack(say);
  guardExits();
  const onLocation = (location) => inLine(() => chooseLocation(location));
  $("undo").addEventListener("click", () => inLine(undoLast));
  opens("find", ({ openFind }) => openFind());
  opens("jobs", ({ openJobs }) => openJobs());
  opens("location", ({ openLocations }) => openLocations(t("Where are you scanning?"), onLocation));
  opens("count", ({ openList }) => openList({
    isUndoable, onUndo: (entry) => inLine(() => undo(entry)), onShow: showListed, onBegin: () => inLine(redraw),
  }));
  opens("held", ({ openHeld }) => openHeld(link.held,
    (choice, location) => inLine(() => place(choice, location)), (choice) => inLine(() => takeBackHeld(choice))));
  opens("test", ({ openTest }) => { $("menu").open = false; openTest(); });
  $("mute").addEventListener("click", () => { setMuted(!isMuted()); showMute(); });
  document.addEventListener("click", (event) => {
    const tapped = event.detail && event.target.closest("button, summary"); // not reached by keyboard
    if (tapped) tapped.blur();
    if (!$("menu").contains(event.target)) $("menu").open = false;
  });
  showMute();
  document.body.dataset.listening = "1"; // whatever is scanned from here on is kept
}

function showListed(entry) {
  closeSheet();
  inLine(() => showAgain(entry.id));
}

function showMute() {
  $("mute").setAttribute("aria-pressed", String(isMuted()));
  $("mute").textContent = isMuted() ? t("Sounds are muted: unmute") : t("Mute the sounds");
}

function report(error) {
  signal("refused");
  showResult({ outcome: "refused", thing: t("This page has a problem"), told: String(error.message || error), state: "" });
}

/** What the device kept; a code that is scanned before it is there waits for it. */
async function load() {
  [link.me] = await Promise.all([queue.load("me"), locations.load(), copy.load()]);
  showLocation(locations.choice);
}

async function begin() {
  wire();
  keepAwake();
  await line;
  await redraw();
  await start(onAnswers);
  await refreshLocations();
  await redraw();
  setInterval(() => catchUp().catch(report), 60 * 1000);
  queue.tidy();
  if (navigator.storage && navigator.storage.persist) navigator.storage.persist();
  if (navigator.serviceWorker) navigator.serviceWorker.register("/sw.js").catch(sayNoOffline);
  useTools().catch(() => { tools = null; }); // asked for again when it is needed
  document.body.dataset.ready = "1";
  await catchUp();
}

/** What the site looks like by now: locations, assets and where they are. */
async function catchUp() {
  await refreshLocations();
  if (link.state !== "ok") return;
  try {
    await copy.refresh(link.me);
  } catch (error) {
    if (!error.state) throw error;
  }
  document.body.dataset.copied = "1";
}

function sayNoOffline() {
  say(t("This page could not be kept for the time without a connection"));
}

begin().catch(report);
