// The scan page. What happens to a code: caught, stored on the device, shown, sent, answered, shown again.

import { enrolmentOf, keepMarks, linkOf, looksLikeLocation, mayBeBadge } from "./codes.js";
import * as carrier from "./carrier.js";
import * as clock from "./clock.js";
import { stamp } from "./clock.js";
import { divertTo, expectSignIn, forget, handOver, newId } from "./catch.js";
import * as copy from "./copy.js";
import * as expected from "./expected.js";
import { isMuted, keepAwake, setMuted, signal } from "./feedback.js";
import { hasWrongCheckDigit } from "./gs1.js";
import * as locations from "./locations.js";
import { current } from "./profile.js";
import * as queue from "./queue.js";
import { knowBy } from "./scanner.js";
import { signedIn } from "./session.js";
import { closeSheet, guardBack, sheet } from "./sheets.js";
import { $, hush, resultOf, say, showLink, showLocation, showResult } from "./show.js";
import { flush, greet, link, post, recount, start } from "./sync.js";
import { isEpc, sweepOf, watcher } from "./sweeping.js";
import * as stock from "./take.js";
import { t, tn } from "./texts.js";
import { drawWith, isUndoable, redraw, showAgain, showEntry, shown } from "./view.js";
import { askWhich, awaitsLabel, chooseLocation, followLabel, loadOwner, loseLocation, passTo, place, refreshLocations, refusePart, takeBackHeld } from "./where.js";

const PREFIXED = /^\][A-Za-z]\d/; // the scanner adds the kind of code
const SAME_SCAN = 2000; // ms: the same code again within it is one scan
const LOADED_WITHIN = 5000; // ms: scans do not wait longer for the modules of what opens over the page
const PATIENCE = 700; // ms: after it a scan is shown as kept, without waiting longer for the server's answer
const SIGN_IN_WITHIN = 15000; // ms
const BADGE_PATIENCE = 3000; // ms: the scans after it wait for the answer, since it may end the session
const WORST_FIRST = ["refused", "unclear", "location", "unknown", "surplus", "again", "recorded", "undone", "counted", "done"];
const NEEDS_ATTENTION = ["refused", "unknown", "location", "unclear", "undone"];

let lastCode = { code: "", at: 0 };
let isLoaded = false;
let wasLost = false; // the connection, at the last look
let sweep = { isOn: () => false, takes: () => false, sort() {} }; // until its module is loaded
let early = null; // tags of a sweep while it is loaded
const attended = new Set(); // sweeps of which a problem was signalled
const signalled = new Map(); // id -> outcome by the device's copy, of scans that the server has not answered yet
let line = Promise.resolve(); // codes are processed one at a time, in the order they were scanned

async function onCode({ id, code, raw, at, era, by = signedIn() }) {
  hush();
  if (enrolmentOf(code)) return openEnrolment(code);
  if (sheet.name === "test") return (await useTools()).showTested(code, raw);
  if (mayBeOneOf(code, raw) && !(await isNoBadge(mayBeBadge(code) ? code : raw.typed.trim(), at))) return;
  if (raw && raw.isPart) return refusePart(code);
  if (sheet.name === "find") return void (await useTools()).find(code).catch(report); // the next scan does not wait for it
  if (sheet.onCode && sheet.onCode(code)) return;
  if (isRepeat(code, at)) return; // before it closes what a person has just opened
  closeSheet();
  if (sweep.isOn() && !(locations.find(code) && !locations.choice.location)) {
    signal("refused");
    return say(t("Save or discard the sweep first"));
  }
  if (!by) {
    signal("refused");
    return showResult({ outcome: "refused", thing: t("Sign in again"), detail: t("{code} was not recorded", { code }), state: "" });
  }
  await passTo(by);
  lastCode = { code, at };
  const thing = copy.find(code);
  const location = locations.find(code, thing);
  if (raw && !thing && !location) sayWhyUnknown(raw);
  if (location && thing && !linkOf(code) && locations.choice.location) return whichOne(id, code, stamp(by, { at, era }), location, thing);
  if (location) return chooseLocation(location, id, stamp(by, { at, era }));
  if (looksLikeLocation(code)) {
    await loseLocation(code);
    refreshLocations().catch(report); // it may be newer than this page
    return;
  }
  if (!thing && hasWrongCheckDigit(raw && PREFIXED.test(raw.typed) ? raw.typed : code)) {
    signal("refused");
    const detail = t("Wrong check digit: the code was misread or misprinted. Scan it again");
    return showResult({ outcome: "refused", thing: code, detail, state: "" });
  }
  const { choice } = locations;
  if (!choice.location && !choice.label && !choice.question) {
    signal("refused");
    return showResult({ outcome: "refused", thing: t("Scan a location first"), detail: t("{code} was not recorded", { code }), state: "" });
  }
  const stopped = stoppedBy(stock.take, expected.listAt(choice.location));
  if (stopped) {
    signal("refused");
    return showResult({ outcome: "refused", thing: stopped, detail: t("{code} was not recorded", { code }), state: "" });
  }
  if (carrier.loading && !(await readyToLoad(thing))) return;
  await keep(id, code, stamp(by, { at, era }), thing);
}

/** Say what may have changed a code that is not known here, and what to do. */
function sayWhyUnknown({ hasCapsLock, typed, byKey }) {
  if (hasCapsLock) say(t("Caps Lock is on and may have changed this code"));
  else if (byKey && byKey !== typed && !current().layout) say(t("If the printed code is different, tap Menu, then “Test my scanner”"));
}

/** True if the last scan is repeated, as by a sled, which reads the same tag again and again. */
function isRepeat(code, at) {
  if (code !== lastCode.code || Math.abs(at - lastCode.at) >= SAME_SCAN) return false; // the clock may have been set back
  if (isEpc(code)) lastCode.at = at;
  return true;
}

/** True for an unknown code that may be a badge, which must not be stored. */
function mayBeOneOf(code, raw) {
  const isPossible = mayBeBadge(code) || Boolean(raw && raw.typed && mayBeBadge(raw.typed));
  return isPossible && !copy.find(code) && !locations.find(code);
}

/** Ask the server. A badge signs in its owner, as on the sign-in page. */
async function isNoBadge(badge, at) {
  const refuse = (detail) => {
    signal("refused");
    showResult({ outcome: "refused", thing: t("This may be a badge"), detail, state: "" });
    return false;
  };
  const late = new Promise((_, reject) => { setTimeout(reject, BADGE_PATIENCE, { state: "offline" }); });
  let person;
  try {
    const answer = await Promise.race([post("/scan/badge", { code: badge }), late]);
    if (!answer.badge) return true;
    ({ person } = answer);
  } catch (error) {
    if (!error.state) throw error;
    const isTooOften = error.status === 429;
    return refuse(isTooOften ? t("Not saved. Scan it again in a minute") : t("Not saved. Scan it again when there is a connection"));
  }
  if (!link.me || !link.me.device) return refuse(t("Not saved. Badges work only on enrolled devices"));
  const form = document.createElement("form");
  [form.method, form.action] = ["post", "/sign-in?next=/scan"];
  for (const [name, value] of Object.entries({ badge, csrf: link.me.csrf, next: "/scan" })) {
    const field = document.createElement("input");
    [field.type, field.name, field.value] = ["hidden", name, value];
    form.append(field);
  }
  document.body.append(form);
  expectSignIn(person, at);
  form.submit();
  await new Promise((resolve) => { setTimeout(resolve, SIGN_IN_WITHIN); }); // the next page takes what waits
  expectSignIn(null);
  return false;
}

/** The code matches both. The scan waits as an asset scan, stored as the link of its label for the server. */
async function whichOne(id, code, made, location, thing) {
  await askWhich(id, code, location, thing);
  await keep(id, `${window.location.origin}/a/${encodeURIComponent(thing.key)}`, made, thing);
  await recount();
  openHeld(await useTools(), link.held.filter((item) => item.choice === locations.choice.id), t("What is {code}?", { code }));
}

function openHeld(tools, held, title) {
  const whose = held.filter((item) => item.held.whose);
  if (whose.length) return tools.openWhose(whose, (isMine) => inLine(() => claim(isMine)));
  tools.openHeld(held, (...given) => inLine(() => place(...given)), (choice) => inLine(() => takeBackHeld(choice)), title);
}

/** The code that enrols this device was scanned here, and not with its camera. */
function openEnrolment(code) {
  if (link.state === "ok") return location.assign(`/enrol/${enrolmentOf(code)}`);
  signal("refused");
  return showResult({ outcome: "refused", thing: t("No connection"), state: "" });
}

/** Whether the device knows a code, and no longer one that begins with it. */
function isWhole(code) {
  const thing = copy.find(code);
  if (!thing && !locations.find(code)) return false;
  const { key } = linkOf(code) || { key: code };
  return !copy.isBegun(key) && !locations.isBegun(key);
}

/** When loading a carrier, the first thing scanned is the carrier itself; what is put on it must be known here. */
async function readyToLoad(thing) {
  if (!thing) {
    signal("refused");
    showResult({ outcome: "refused", thing: t("Unmatched tag"), detail: t("Only known assets can be put onto a carrier or taken off it"), state: "" });
    return false;
  }
  if (carrier.loading.kind === "load" && !carrier.loading.carrier) {
    await carrier.setLoading({ kind: "load", carrier: { id: thing.id, name: thing.name } });
  }
  return true;
}

async function keep(id, code, made, thing) {
  const { id: choice, location, label, question } = locations.choice;
  let item = {
    id, code, ...made, choice, locationId: location && location.id, locationName: location ? location.name : "",
    held: location ? null : { label, question }, known: thing && thing.name, take: stock.take ? stock.take.id : undefined,
    list: stock.take ? undefined : expected.listAt(location),
    expected: stock.take && thing ? stock.isExpected(thing.id) : undefined,
    unlisted: !stock.take && expected.list && thing ? !expected.isExpected(thing.id) : undefined,
    ...carrier.wireOf(thing),
  };
  const outcome = foresee(item, thing);
  signal(outcome); // it was stored when it was caught
  try {
    item = await queue.add(item);
  } catch (error) {
    if (error.name === "ConstraintError") return; // kept already, just before the page was closed
    signal("refused");
    return showResult({ outcome: "refused", thing: code, detail: t("This device cannot store the scan: {reason}", { reason: error.message }), state: "" });
  }
  shown.id = item.id;
  signalled.set(item.id, outcome);
  announce({ ...item, state: item.held ? "unclear" : "queued" });
  redraw();
  flush();
}

/** Predict the server's answer from local data. Without a connection there is no answer. */
function foresee(item, thing) {
  if (item.held) return "unclear";
  if (item.take && thing) return item.expected ? "counted" : "surplus";
  if (item.unlisted) return "surplus";
  if (link.state !== "ok") return "queued";
  if (!thing) return "unknown";
  return copy.wasScannedAt(thing.id, item.locationId) ? "again" : "recorded";
}

/** Show a scan, and after a moment without the server's response that it is stored on the device only. */
function announce(entry) {
  const late = () => {
    if (shown.id === entry.id && signalled.has(entry.id)) showResult(resultOf(entry));
    recount().catch(report);
  };
  const waits = link.state === "ok" && entry.state === "queued" && !(entry.take && entry.known);
  setTimeout(late, waits ? PATIENCE : 0);
  if (waits) showResult({ ...resultOf(entry), word: t("Sending …"), state: "" }, false);
}

/** Responses arrived: signal the worst of those that differ from what was signalled, show the newest. */
async function onAnswers(answers, parcel) {
  if (parcel) await (await useTools()).onRefused(parcel);
  showLink(link);
  inLine(passOn); // somebody may have signed in with another page
  const isRetired = answers.some(({ result }) => result === "retired");
  if (link.me && link.me.badges) keepMarks(link.me.badges);
  useSled();
  const results = answers.map((one) => (["retired", "whose"].includes(one.result) ? { ...one, result: "unclear" } : one));
  if (link.state === "ok" && (isRetired || awaitsLabel())) refreshLocations().catch(report);
  if (!results.length) return noteLink();
  if (results.some(({ result }) => result === "badge")) {
    signal("refused"); // it was not recognized as one here, and is no longer stored
    showResult({ outcome: "refused", thing: t("This may be a badge"), detail: "", state: "" });
    greet().catch(() => {});
  }
  const log = await queue.recent(300);
  const byId = new Map(log.map((entry) => [entry.id, entry]));
  const news = [];
  let isCorrection = false;
  for (const { id, result, reason, asset } of results.filter((one) => one.result !== "badge")) {
    const swept = byId.get(sweepOf(id));
    if (swept) {
      if (asset && ["recorded", "again"].includes(result)) copy.move(asset.id, swept.locationId, clock.siteTime(swept), swept);
      if (["refused", "unclear"].includes(result) && !attended.has(swept.id)) news.push(result);
      if (result !== "unknown" && NEEDS_ATTENTION.includes(result)) attended.add(swept.id);
      continue;
    }
    if (result === "refused" && !byId.has(id)) say(reason); // not a scan
    const entry = byId.get(id);
    const [before, outcome] = [signalled.get(id), entry && result !== "undone" ? resultOf(entry).outcome : result];
    if (signalled.delete(id) ? isNews(before, outcome) : NEEDS_ATTENTION.includes(result)) {
      news.push(outcome);
      isCorrection = isCorrection || Boolean(before) && before !== "queued" && outcome !== "again";
      if (entry && NEEDS_ATTENTION.includes(result) && result !== "undone") shown.id = id;
    }
    if (entry && entry.asset && ["recorded", "again"].includes(result)) copy.move(entry.asset.id, entry.locationId, clock.siteTime(entry), entry);
  }
  if (news.length) signal(WORST_FIRST.find((outcome) => news.includes(outcome)), isCorrection);
  await showEntry(byId.get(shown.id), results.some(({ id }) => [id, sweepOf(id)].includes(shown.id)));
  await followLabel(results.filter(({ result }) => result === "location").map(({ id }) => byId.get(id)));
  await redraw();
  if (log.length >= 300) await queue.tidy(stock.take && stock.take.id);
}

/** Follow the site at once when the connection is back, and everything that waited was sent. */
function noteLink() {
  const isBack = wasLost && link.state === "ok";
  wasLost = !["ok", "unknown"].includes(link.state);
  if (isBack) followSite();
}

/** Whether an outcome differs from what was signalled before, so that a person must notice. */
function isNews(before, outcome) {
  if (before === "queued") return NEEDS_ATTENTION.includes(outcome);
  return outcome !== before && outcome !== "undoing" && !(before === "again" && outcome === "recorded");
}

// Undo ----------------------------------------------------------------------------------------------------------

/** Undo the last scan, or all scans of assets that were moved together. */
async function undoLast() {
  const log = (await queue.recent(Infinity)).filter(isUndoable);
  if (log.length && log[0].sweep) return undoSweep(log[0]);
  if (log.length) await undo(log[0].group ? log.filter(({ group }) => group === log[0].group) : [log[0]]);
}

async function undo(entries) {
  if (isKeptBack(entries[0])) return;
  lastCode = { code: "", at: 0 }; // the same code may be scanned again at once
  const sent = [];
  for (const entry of entries) if (entry.state !== "unclear" || !(await queue.withdraw(entry.id))) sent.push(entry);
  await queue.addAll(sent.map(({ id, take, list }) => ({ id: newId(), undo: id, take, list, ...stamp() })));
  if (entries.length > 1) say(tn("Undoing {count} scan", "Undoing {count} scans", entries.length));
  await showAgain(entries[0].id);
  flush();
}

/** While another device signs off a stock-take or list, nothing of it changes here. Returns what to say. */
function stoppedBy(take, list) {
  if (take && stock.isStopped()) return t("The stock-take is being signed off on another device. Wait, or pause it here");
  return list && expected.isStopped() ? t("The list is being signed off on another device. Wait, or leave it here") : "";
}

function isKeptBack({ take, list }) {
  const stopped = stoppedBy(take, list);
  if (stopped) say(stopped);
  return Boolean(stopped);
}

/** Undo everything that a sweep recorded. */
async function undoSweep(entry) {
  if (isKeptBack(entry)) return;
  await queue.undoSweep(entry, stamp());
  say(tn("Undoing {count} scan", "Undoing {count} scans", entry.codes.length));
  await showAgain(entry.id);
  flush();
}

/** Save the open sweep, and show it as one result. */
async function saveSweep() {
  if (isKeptBack({ take: stock.take, list: expected.list })) return;
  (await useTools()).stopAll();
  const entry = await sweep.save();
  if (!entry) return;
  shown.id = entry.id;
  await showAgain(entry.id);
  await recount();
  flush();
  if (stock.take) await (await useTools()).openSwept(); // what is missing, and the sign-off; the next sweep closes it
  else if (expected.list) await (await useTools()).openExpected();
}

async function discardSweep() {
  (await useTools()).stopAll();
  await sweep.discard();
  closeSheet();
  say(t("Sweep discarded. Nothing was saved"));
}

/** Assign scans of an earlier session to the current person, or discard them. */
async function claim(isMine) {
  await queue.claim(isMine ? signedIn() : null);
  closeSheet();
  await recount();
  await redraw();
  flush();
}

// Start ---------------------------------------------------------------------------------------------------------

/** Run tasks one after the other, scans included. */
function inLine(task) {
  line = line.then(task).catch(report);
  return line;
}

let tools = null; // the modules of what opens over the page, once they are loaded
let late; // fails when they take too long

/** A radio that is connected but passes nothing must not hold up the scans behind this. A service worker needs no radio. */
function useTools() {
  if (!tools) {
    tools = import("./tools.js").catch((error) => {
      tools = null; // asked for again when it is needed
      throw error;
    });
    late = new Promise((_, reject) => { setTimeout(reject, LOADED_WITHIN, new Error(t("No connection: not loaded yet"))); });
    late.catch(() => {}); // nobody may be waiting for it
  }
  const isCached = navigator.serviceWorker && navigator.serviceWorker.controller;
  return isCached ? tools : Promise.race([tools, late]);
}

async function drawSheet(log) {
  sweep.sort();
  if (sheet.name === "list") (await useTools()).showList(log);
  if (sheet.name === "take") (await useTools()).showLines(log);
  if (sheet.name === "expected") (await useTools()).showGroups(log);
}

/** Open a sheet on click, before the next scan, which is for it. Its module is loaded first; a lost connection is reported. */
function opens(id, open) {
  $(id).addEventListener("click", () => inLine(async () => {
    let loaded;
    try {
      loaded = await useTools();
    } catch {
      return say(t("No connection: not loaded yet"));
    }
    Promise.resolve(open(loaded)).catch((error) => (error.state ? say(t("No connection: not loaded yet")) : report(error)));
  }));
}

function wire() {
  guardBack(say);
  const onLocation = (location) => inLine(() => chooseLocation(location));
  $("undo").addEventListener("click", ({ detail }) => detail > 1 || inLine(undoLast)); // a double tap is one
  opens("find", ({ openFind }) => openFind());
  opens("camera", ({ toggleCamera }) => toggleCamera());
  opens("jobs", ({ openJobs }) => openJobs());
  opens("take", ({ openCheck }) => openCheck());
  opens("expected", ({ openExpected }) => openExpected());
  $("loading").addEventListener("click", () => inLine(async () => { await carrier.setLoading(null); await redraw(); }));
  opens("location", ({ openLocations }) => openLocations(t("Where are you scanning?"), onLocation));
  opens("count", ({ openList }) => openList({
    isUndoable, onUndo: (entry) => inLine(() => (entry.sweep ? undoSweep(entry) : undo([entry]))), onShow: showListed, onBegin: () => inLine(redraw),
  }));
  opens("held", (tools) => openHeld(tools, link.held));
  $("sweep-save").addEventListener("click", () => inLine(saveSweep));
  $("sweep-discard").addEventListener("click", () => sweep.askDiscard(() => inLine(discardSweep)));
  $("sweep-move").addEventListener("click", () => sweep.toggleElsewhere());
  opens("test", ({ openTest }) => { $("menu").open = false; openTest(); });
  $("mute").addEventListener("click", () => { setMuted(!isMuted()); showMute(); });
  // A tap must not take the focus from the catcher, not even for a moment: text inserted then would be lost.
  document.addEventListener("mousedown", (event) => {
    if (document.activeElement === $("catcher") && event.target.closest("button, summary")) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const tapped = event.detail && event.target.closest("button, summary"); // not reached by keyboard
    if (tapped) tapped.blur();
    if (!$("menu").contains(event.target)) $("menu").open = false;
  });
  $("language").addEventListener("change", (event) => speak(event.target.value).catch(report));
  showMute();
}

/** Switch the language. That reloads the page, so it is done only while the server can be reached. */
async function speak(language) {
  try {
    await post("/language", { language });
  } catch (error) {
    if (!error.state) throw error;
    return say(error.message);
  }
  location.reload();
}

function showListed(entry) {
  closeSheet();
  inLine(() => showAgain(entry.id));
}

function showMute() {
  $("mute").setAttribute("aria-pressed", String(isMuted()));
  $("mute").textContent = isMuted() ? t("Unmute sounds") : t("Mute sounds");
}

function report(error) {
  signal("refused");
  showResult({ outcome: "refused", thing: t("Error on this page"), detail: String(error.message || error), state: "" });
}

/** Restore what the device stored. */
async function load() {
  [link.me] = await Promise.all([queue.load("me"), clock.load().then(copy.load), locations.load(), stock.load(), expected.load(), carrier.load()]);
  await loadOwner();
  showLocation(locations.choice);
  if (await queue.load("sweeping")) {
    early = [];
    openSweep();
  }
  isLoaded = true;
}

async function passOn() {
  const by = signedIn();
  if (by) await passTo(by);
}

async function workOn(one) {
  const by = one.awaited ? ownerOf(one) : one.by;
  if ((by || !one.awaited) && sweep.takes({ ...one, by }, one.raw)) return; // its module was loaded while the code waited
  await onCode({ ...one, by });
  forget(one.id);
}

/** Who scanned what followed a badge: its owner, if that is who signed in. */
function ownerOf({ awaited }) {
  const by = signedIn();
  return by && by.person === awaited ? by : null;
}

/** Tags that follow each other too fast for a person begin a sweep, unless an open sheet waits for one. */
const watch = watcher({
  mayBegin: () => !["test", "find"].includes(sheet.name) && !sheet.onCode
    && Boolean(locations.choice.location && signedIn()) && !carrier.awaitsCarrier(),
  onSingle: (one) => inLine(() => workOn(one)),
  onSweep: (ones) => {
    closeSheet();
    early = ones;
    openSweep(() => sweep.isOn() || sweep.begin());
  },
  onRepeat: (one) => forget(one.id),
});

/** Pass the codes in `early` to the sweep that they began, or that a closed page left. Without its module they are scans. */
async function openSweep(begin = () => {}) {
  await useSweep().then(begin).catch(() => {});
  const ones = early;
  early = null;
  for (const one of ones) if (!sweep.takes(one, one.raw)) inLine(() => workOn(one));
}

let asking = 0; // codes of which the server says whether they are badges: what follows them waits for the answer
let attached = null;

/** Load the module of sweeps, once. From then on it takes the tags of a sweep before anything else. */
function useSweep() {
  attached = attached || attach().catch((error) => {
    attached = null;
    throw error;
  });
  return attached;
}

async function attach() {
  const { sweep: loaded, divert } = await useTools();
  await loaded.load(); // the sweep of a page that was closed
  sweep = loaded;
  divertTo((one, raw) => !asking && divert(one, raw));
}

/** A code as it arrives, or one that arrived before the page was loaded. */
function receive(one) {
  if (!isLoaded) return inLine(() => { if (isLoaded) receive(one); }); // otherwise it stays stored until the next reload
  if (early) early.push(one);
  else if (asking || one.awaited) inLine(() => workOn(one));
  else if (!sweep.takes(one, one.raw)) {
    const isAsked = !isEpc(one.code) && mayBeOneOf(one.code, one.raw);
    asking += isAsked;
    watch(one, one.raw && one.raw.moment);
    if (isAsked) inLine(() => { asking -= 1; });
  }
}

async function begin() {
  inLine(load);
  knowBy(isWhole, (code) => Boolean(copy.find(code)) + Boolean(locations.find(code)));
  drawWith({ drawSheet, attachButtons: async (...given) => (await useTools()).attachButtons(...given).catch(() => []) });
  handOver(
    receive,
    (code, raw) => !["test", "find"].includes(sheet.name) && !mayBeOneOf(code, raw),
    (name, isText) => sheet.name === "test" && useTools().then(({ showRaw }) => showRaw(name, isText)),
  ).forEach((one) => receive({ ...one, raw: one.raw && { ...one.raw, moment: one.at } })); // by the clock of another page
  inLine(passOn);
  wire();
  keepAwake();
  await line;
  await redraw();
  await start(onAnswers);
  await refreshLocations();
  await redraw();
  setInterval(() => followOthers().catch(report), 10 * 1000);
  setInterval(followSite, 60 * 1000);
  queue.tidy(stock.take && stock.take.id);
  if (navigator.storage && navigator.storage.persist) navigator.storage.persist();
  if (navigator.serviceWorker) navigator.serviceWorker.register("/sw.js").catch(sayNoOffline);
  document.body.dataset.ready = String(Math.round(performance.now()));
  useTools().catch(() => tools).then(useSweep).then(async () => (await tools).guard()).catch(() => {}) // tried again when needed
    .then(async () => (await tools).loadAll()).catch(() => {}); // again each minute
  await catchUp();
}

/** Fetch the results of other devices for the current stock-take or expected list. */
async function followOthers() {
  if (link.state !== "ok") return;
  try {
    if (!link.waiting && !(await expected.catchUp())) say(t("The list was signed off or deleted on another device"));
    if (!(await stock.catchUp())) say(t("The stock-take was signed off or cancelled on another device"));
    await redraw();
  } catch (error) {
    if (!error.state) throw error;
  }
}

/** Fetch what changed: each minute, and at once when the connection is back. */
const followSite = () => catchUp().then(followServer).catch(report);

/** A sled may be given to this person or device, and a release installed, while the page is open. */
async function followServer() {
  if (link.state !== "ok") return;
  try {
    await greet();
    useSled();
    const { loadAll, renew } = await useTools();
    loadAll().catch(() => {});
    renew(sweep.isOn());
  } catch (error) {
    if (!error.state) throw error;
  }
}

function useSled() {
  if (link.me && link.me.sled) useTools().then(({ connectSled }) => connectSled()).catch(() => {}); // tried again
}

/** Fetch the current state of the site: locations, assets and where they are. */
async function catchUp() {
  await refreshLocations();
  if (link.state !== "ok") return;
  try {
    await copy.refresh(link.me);
    sweep.sort();
  } catch (error) {
    if (!error.state) throw error;
  }
  document.body.dataset.copied = "1";
}

function sayNoOffline() {
  say(t("This page could not be saved for offline use"));
}

begin().catch(report);
