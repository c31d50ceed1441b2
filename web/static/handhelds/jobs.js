// Further actions of the scan page.

import { openAbout } from "./about.js";
import { awaitsCarrier, setLoading, unloadAll } from "./carrier.js";
import { openCheck } from "./check.js";
import { openFind, find } from "./find.js";
import { list } from "./expected.js";
import { openHere, openMove } from "./here.js";
import * as copy from "./copy.js";
import { choice } from "./locations.js";
import * as queue from "./queue.js";
import { askFor, button, choice as choiceButton, closeSheet, fill, later, message, openSheet, sheet } from "./sheets.js";
import { say } from "./show.js";
import { startAll } from "./sleds.js";
import { begin as startSweep } from "./sweep.js";
import { take } from "./take.js";
import { t } from "./texts.js";
import { redraw } from "./view.js";

/** The asset that was scanned last is offered by name. */
export async function openJobs() {
  const { location } = choice;
  const last = await lastAsset();
  const lists = take || list ? [] : [choiceButton(t("Expected list"), t("Compare what is here with what should be"), openLists)];
  const stockTake = list ? [] : [choiceButton(t("Start a stock-take"), t("Find out what is here and what is missing"), openCheck)];
  const jobs = location ? [
    choiceButton(t("What is here?"), t("All assets at {location}", { location: location.name }), () => openHere(showThing)),
    choiceButton(t("Start a sweep"), t("Read many RFID tags at once"), beginSweep),
    ...stockTake,
    ...lists,
    choiceButton(t("Move everything"), t("From {location} to another location", { location: location.name }), openMove),
    ...(take ? [] : [ // no carrier mode during a stock-take
      choiceButton(t("Put onto a carrier"), t("Contents move with the pallet"), () => begin({ kind: "load", carrier: null })),
      choiceButton(t("Take off a carrier"), t("Scan each asset"), () => begin({ kind: "unload" })),
    ]),
    choiceButton(t("Empty a carrier"), t("Take everything off at once"), openEmpty),
  ] : [message(t("Scan a location first.")), ...stockTake, ...lists]; // a list names its place, and so does a stock-take that is open
  if (last) jobs.push(choiceButton(t("Note, photo or label"), last.name, () => openAbout(last)));
  openSheet("jobs", t("What do you want to do?"), ...jobs);
}

async function lastAsset() {
  const [entry] = (await queue.recent(30)).filter(({ asset, code, codes }) => !codes && (asset || copy.find(code)));
  return entry && (entry.asset || copy.find(entry.code));
}

function beginSweep() {
  closeSheet();
  if (awaitsCarrier()) say(t("Scan the carrier first"));
  else {
    startSweep();
    startAll();
  }
}

async function begin(loading) {
  await setLoading(loading);
  closeSheet();
  await redraw();
}

function openEmpty() {
  const answer = document.createElement("div");
  const empty = (text) => {
    const one = copy.find(text);
    if (!one) return fill(answer, [message(t("No match for {text}.", { text }))]);
    fill(answer, [button(t("Take everything off {carrier}", { carrier: one.name }), async () => { await unloadAll(one); closeSheet(); say(t("{carrier} is empty", { carrier: one.name })); }, "button wide")]);
  };
  openSheet("empty", t("Empty a carrier"), askFor(t("Tag, key or name"), "", t("Find"), empty), answer);
  sheet.onCode = (code) => { empty(code); return true; };
}

async function openLists() {
  try {
    await (await later("./lists.js")).openLists();
  } catch (error) {
    if (!error.state) throw error;
    say(t("No connection: not loaded yet"));
  }
}

function showThing(one) {
  openFind();
  find(one.key);
}
