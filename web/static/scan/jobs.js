// What there is to do beside scanning one thing after the other.

import { openCheck } from "./check.js";
import { openFind, find } from "./find.js";
import { openHere } from "./here.js";
import { choice } from "./locations.js";
import { choice as choiceButton, message, openSheet } from "./sheets.js";
import { t } from "./texts.js";

export function openJobs() {
  const { location } = choice;
  const jobs = location ? [
    choiceButton(t("What is here?"), t("Everything at {location}", { location: location.name }), () => openHere(showThing)),
    choiceButton(t("Check this location"), t("Stock-take: what is here, what is missing"), openCheck),
  ] : [message(t("Scan a location first."))];
  openSheet("jobs", t("What do you want to do?"), ...jobs);
}

function showThing(one) {
  openFind();
  find(one.key);
}
