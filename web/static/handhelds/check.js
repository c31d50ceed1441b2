// Stock-takes: start or continue one, list present and missing assets, sign off.

import { ago } from "../times.js";
import { setLoading } from "./carrier.js";
import { siteNow } from "./clock.js";
import * as copy from "./copy.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { button, choice, closeSheet, drawGroups, fill, message, openSheet, part, anchor, sheet } from "./sheets.js";
import { say } from "./show.js";
import { ASK_AGAIN, askToSignOff, CALM, isCaughtUp } from "./signing.js";
import { ask, link, mayHold } from "./sync.js";
import { begin, cancel, catchUp, expectedAt, finish, groupsOf, join, markLost, otherDevices, setAside, take } from "./take.js";
import { t, tn } from "./texts.js";
import { redraw } from "./view.js";
import { chooseLocation } from "./where.js";

const TITLES = {
  missing: t("Missing"),
  elsewhere: t("Elsewhere or not expected"),
  unknown: t("Unmatched tags"),
  here: t("Here"),
};

export async function openCheck() {
  if (take) return openLines();
  const { location } = locations.choice;
  const begins = document.createElement("div");
  const others = document.createElement("div");
  openSheet("check", t("New stock-take"), begins, others);
  if (location) fill(begins, await beginForm(location));
  else fill(begins, [message(t("Scan the label of the location to count."))]);
  await offerOthers(others);
}

async function beginForm(location) {
  if (link.state === "ok") await copy.refresh(link.me).catch((error) => { if (!error.state) throw error; });
  const below = part("choice", "", "label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  below.append(box, t("including sub-locations"));
  const detail = message("");
  const show = () => {
    const count = expectedAt(location, box.checked).length;
    detail.textContent = tn("{count} asset expected at {location}", "{count} assets expected at {location}", count, { location: location.name });
  };
  box.addEventListener("change", show);
  show();
  const start = button(t("Start at {location}", { location: location.name }), async () => {
    await begin(location, box.checked);
    await setLoading(null); // a stock-take ends carrier mode
    closeSheet();
    await redraw();
    say(t("Scan everything here. Nothing is recorded until you sign off"));
  }, "button wide");
  return [detail, below, start];
}

async function offerOthers(list) {
  try {
    const { stock_takes } = await ask("/scan/stock-takes");
    if (!stock_takes.length) return;
    fill(list, [part("choices-head", t("Continue with"), "h3"), ...stock_takes.map((one) => choice(
      one.name,
      t("started by {person} {ago}, {scanned} of {expected} scanned", { person: one.started_by, ago: ago(one.started_at, siteNow()), scanned: one.scanned, expected: one.expected }),
      () => goOn(one),
    ))]);
  } catch (error) {
    if (!error.state) throw error; // offline, only a stock-take started here can continue
  }
}

async function goOn(one) {
  await join(one);
  await setLoading(null);
  const location = locations.byId(one.location);
  if (location) return chooseLocation(location);
  closeSheet();
  await redraw();
}

/** After a sweep: the lines. One step signs off as soon as everything is sent and no other device may hold scans. */
export async function openSwept() {
  if (!take) return;
  ready = { since: Infinity, isAsked: false, isSafe: false };
  await openLines(ready);
}

let ready = null; // of the lines after a sweep: whether one step may sign off, and since when (ms) its button is shown

async function openLines(given = null) {
  ready = given;
  const [head, body] = [document.createElement("div"), document.createElement("div")];
  [head.id, body.id] = ["take-head", "take-lines"];
  openSheet("take", t("Stock-take at {location}", { location: take.name }), head, body,
    button(t("Pause, to continue later or on another device"), () => leave(setAside), "button plain wide"),
    button(t("Cancel the stock-take: nothing is recorded"), () => leave(cancel), "button plain wide"));
  showLines(await queue.recent(Infinity));
}

/** Fill the open sheet; call again when a scan or another device changes it. */
export function showLines(log) {
  const body = document.getElementById("take-lines");
  if (!body) return; // a person opened something else while the log was read
  if (!take) return closeSheet();
  const groups = groupsOf(log);
  if (ready && !ready.isAsked && isSent()) prepare(ready);
  const isReady = Boolean(ready && ready.isSafe && isSent());
  if (ready) ready.since = isReady ? Math.min(ready.since, performance.now()) : Infinity;
  fill(document.getElementById("take-head"), [
    part("list-count", tn("{number} of {count} found", "{number} of {count} found", take.expected.length, { number: groups.here.length }), "p"),
    ...(isReady
      ? [button(t("Sign off as {person}", { person: link.me.name }), signOffAtOnce, "button wide"), message(t("Signing off records the scans and keeps the result."))]
      : [button(t("Sign off …"), confirm, "button wide")]),
  ]);
  drawGroups(body, "take", TITLES, "here", groups, line);
}

async function leave(how) {
  await how();
  closeSheet();
  await redraw();
}

function line(group, one) {
  const detail = [one.key, detailOf(group, one)].filter(Boolean).join(" · ");
  const lost = take.lost.includes(one.id);
  return [one.id || one.name, [one.name, detail, lost], () => {
    const item = part("take-line", "", "li");
    item.append(part("log-thing", one.name), part("log-detail", detail));
    if (group === "missing") {
      const acts = part("row-acts", "");
      acts.append(button(lost ? t("Not lost") : t("Lost"), async () => { await markLost(one.id, !lost); await redraw(); }, "button plain slim"));
      item.append(acts);
    }
    return item;
  }];
}

function detailOf(group, one) {
  const location = locations.byId(one.location);
  const when = one.seen ? ago(one.seen * 1000, siteNow()) : "";
  if (one.how === "reader") return location ? t("seen by a reader at {location}, {when}", { location: location.name, when }) : t("seen by a reader {when}", { when });
  if (group === "missing" || group === "elsewhere") {
    return location ? t("last seen at {location}, {when}", { location: location.name, when }) : t("Never seen");
  }
  return "";
}

const isSent = () => link.state === "ok" && !link.waiting;

/** Whether no other device may hold scans, as the server says now. */
const isSettled = async () => Boolean((await isCaughtUp(catchUp)) && take && !(await otherDevices()).some(mayHold));

/** Ask what other devices hold, again and again while they hold something. If it is nothing, the button signs off at once. */
async function prepare(own) {
  own.isAsked = true;
  const isSafe = await isSettled();
  if (ready !== own || sheet.name !== "take") return;
  if (!isSafe) return setTimeout(askAgain, ASK_AGAIN, own);
  own.isSafe = true;
  await redraw();
}

async function askAgain(own) {
  own.isAsked = false;
  if (ready === own && sheet.name === "take" && isSent()) await prepare(own);
}

async function signOffAtOnce() {
  const isCalm = ready && performance.now() - ready.since > CALM;
  if (!isCalm || !isSent() || !(await isSettled())) return take && confirm();
  await signOff(groupsOf(await queue.recent(Infinity)), await otherDevices());
}

const confirm = () => askToSignOff({
  title: t("Sign off the stock-take at {location}?", { location: take.name }),
  catchUp, devices: otherDevices, isOpen: () => Boolean(take), content,
}, "take");

/** What is signed off is what the sheet shows. */
async function content() {
  const [unclear, groups] = [link.held.length, groupsOf(await queue.recent(Infinity))];
  const parts = [
    countsOf(groups),
    message(t("Signing off records the scans and keeps the result.")),
    ...(unclear ? [message(tn("{count} scan without a clear location is not counted", "{count} scans without a clear location are not counted", unclear))] : []),
  ];
  return { parts, key: keyOf(groups), sign: (devices) => signOff(groups, devices) };
}

const keyOf = (groups) => JSON.stringify(Object.values(groups).map((group) => group.map(({ id, name }) => id || name)));

function countsOf(groups) {
  const list = part("moves", "", "ul");
  list.append(...Object.keys(TITLES).map((group) => part("", `${TITLES[group]}: ${groups[group].length}`, "li")));
  return list;
}

async function signOff(groups, devices) {
  if (!take) return;
  const { id } = take;
  await finish(groups, devices);
  await redraw();
  openSheet("signed-off", t("Signed off"), countsOf(groups), anchor(`/stock-takes/${id}`, t("Open the report")));
}
