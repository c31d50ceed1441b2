// Expected lists: choose one, see what is missing, sign it off.

import { setLoading } from "./carrier.js";
import { catchUp, choose, countOf, groupsOf, leave, list, otherDevices, signOff, unsigned } from "./expected.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { anchor, button, choice, closeSheet, drawGroups, fill, message, openSheet, part, sheet } from "./sheets.js";
import { say } from "./show.js";
import { askToSignOff, CALM } from "./signing.js";
import { link, mayHold } from "./sync.js";
import { t, tn } from "./texts.js";
import { redraw } from "./view.js";
import { chooseLocation } from "./where.js";

const TITLES = { missing: t("Missing"), wrong: t("Wrong"), surplus: t("Surplus"), ticked: t("Ticked off") };

let ready = { on: "", since: 0 }; // the version on the screen, and since when
let isFresh = false; // the server has answered for everything that was scanned

export async function openLists() {
  const body = document.createElement("div");
  openSheet("lists", t("Expected lists"), body);
  fill(body, [message(t("Searching …"))]);
  try {
    const lists = await unsigned();
    const scope = locations.choice.location ? locations.withBelow(locations.choice.location.id) : new Set();
    const sorted = [...lists.filter((one) => scope.has(one.location)), ...lists.filter((one) => !scope.has(one.location))];
    fill(body, sorted.length ? sorted.map(row) : [message(t("No list is waiting."))]);
  } catch (error) {
    if (!error.state) throw error;
    fill(body, [message(t("No connection. A list must be chosen while there is one."))]);
  }
}

function row(one) {
  const detail = [one.place, tn("{count} asset", "{count} assets", one.items), one.is_open ? t("open") : t("starts now")];
  return choice(one.name, detail.join(" · "), () => begin(one));
}

async function begin(one) {
  try {
    await choose(one);
  } catch (error) {
    if (!error.state) throw error;
    return say(error.message);
  }
  await setLoading(null);
  const here = locations.choice.location;
  const place = locations.byId(one.location);
  if (place && !(here && locations.withBelow(place.id).has(here.id))) return chooseLocation(place);
  closeSheet();
  await redraw();
}

export async function openList() {
  if (!list) return;
  const [head, body] = [document.createElement("div"), document.createElement("div")];
  [head.id, body.id] = ["list-sign", "list-groups"];
  openSheet("expected", list.name, head, body,
    button(t("Leave the list: it stays open"), async () => { await leave(); closeSheet(); await redraw(); }, "button plain wide"));
  [ready, isFresh] = [{ on: "", since: 0 }, false];
  showGroups(await queue.recent(Infinity));
}

/** Fetch the server's result, once everything is sent. */
async function refresh() {
  isFresh = link.state === "ok" && !link.waiting;
  if (!isFresh) return;
  try {
    if (!(await catchUp())) say(t("The list was signed off or deleted on another device"));
  } catch (error) {
    if (!error.state) throw error;
  }
  await redraw();
}

/** Fill the open sheet; call again when something changed. */
export function showGroups(log) {
  const body = document.getElementById("list-groups");
  if (!body) return; // a person opened something else while the log was read
  if (!list) return closeSheet();
  if (link.waiting) isFresh = false;
  else if (!isFresh) refresh();
  const groups = groupsOf(log);
  const count = groups.ticked.length + groups.missing.length;
  if (ready.on !== list.version) ready = { on: list.version, since: performance.now() };
  fill(document.getElementById("list-sign"), [
    part("list-count", t("{number} of {count} ticked off", { number: groups.ticked.length, count }), "p"),
    button(t("Sign off as {person}", { person: link.me ? link.me.name : "" }), () => confirm(groups), "button wide"),
    message(t("A signed list does not change any more.")),
  ]);
  drawGroups(body, "expected", TITLES, "ticked", groups, line, (name) => countOf(groups, name));
}

function line(_, { id, name, key, other }) {
  const detail = [key, other ? t("belongs to {list}", { list: other }) : ""].filter(Boolean).join(" · ");
  return [id, [name, detail], () => {
    const item = part("take-line", "", "li");
    item.append(part("log-thing", name), part("log-detail", detail));
    return item;
  }];
}

/** Sign off at once if all assets are there, no others, and no other device may hold scans; otherwise ask. */
async function confirm(groups) {
  if (link.state !== "ok") return say(t("No connection: sign off later"));
  if (link.waiting) return say(t("Not everything is sent yet"));
  const isCalm = performance.now() - ready.since > CALM;
  if (isWhole(groups) && isCalm && !(await otherDevices()).some(mayHold)) return finish(list.version);
  await askToSignOff({
    title: t("Sign off {list}?", { list: list.name }), catchUp, devices: otherDevices, isOpen: () => Boolean(list), content,
  }, "expected");
}

/** What is signed off is what the sheet shows. */
async function content() {
  const [groups, { version }] = [groupsOf(await queue.recent(Infinity)), list];
  return { parts: [countsOf((name) => countOf(groups, name))], key: version, isPartial: !isWhole(groups), sign: () => finish(version) };
}

const isWhole = (groups) => !groups.missing.length && !groups.wrong.length && !groups.surplus.length;

function countsOf(number) {
  const counts = part("moves", "", "ul");
  counts.append(...Object.keys(TITLES).map((name) => part("", `${TITLES[name]}: ${number(name)}`, "li")));
  return counts;
}

async function finish(version) {
  if (!list) return;
  const { id } = list;
  try {
    const { ticked, missing, surplus_count, wrong_count } = await signOff(version);
    const numbers = { missing: missing.length, wrong: wrong_count, surplus: surplus_count, ticked: ticked.length };
    openSheet("expected-signed", t("Signed off"), countsOf((name) => numbers[name]), anchor(`/expected-lists/${id}`, t("Open the report")));
  } catch (error) {
    if (!error.state) throw error;
    await openList(); // with the new result
    say(error.message);
  }
  await redraw();
}

export const isOpen = () => sheet.name === "expected";
