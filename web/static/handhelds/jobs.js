// Further actions of the scan page.

import { setLoading, unloadAll } from "./carrier.js";
import { openCheck } from "./check.js";
import { openFind, find } from "./find.js";
import { openHere } from "./here.js";
import { openMove } from "./move.js";
import * as copy from "./copy.js";
import { choice } from "./locations.js";
import { askFor, button, choice as choiceButton, closeSheet, fill, message, openSheet, sheet } from "./sheets.js";
import { say } from "./show.js";
import { take } from "./take.js";
import { t } from "./texts.js";
import { redraw } from "./view.js";

export function openJobs() {
  const { location } = choice;
  const jobs = location ? [
    choiceButton(t("What is here?"), t("All assets at {location}", { location: location.name }), () => openHere(showThing)),
    choiceButton(t("Start a stock-take"), t("Find out what is here and what is missing"), openCheck),
    choiceButton(t("Move everything"), t("From {location} to another location", { location: location.name }), openMove),
    ...(take ? [] : [ // no carrier mode during a stock-take
      choiceButton(t("Put onto a carrier"), t("Contents move with the pallet"), () => begin({ kind: "load", carrier: null })),
      choiceButton(t("Take off a carrier"), t("Scan each asset"), () => begin({ kind: "unload" })),
    ]),
    choiceButton(t("Empty a carrier"), t("Take everything off at once"), openEmpty),
  ] : [message(t("Scan a location first."))];
  openSheet("jobs", t("What do you want to do?"), ...jobs);
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

function showThing(one) {
  openFind();
  find(one.key);
}
