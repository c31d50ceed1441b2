// Handover from one person to the next: the location, carrier mode and stock-take of
// the previous person are not continued.

import * as carrier from "./carrier.js";
import { newId } from "./catch.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { closeSheet } from "./sheets.js";
import { say, showLocation } from "./show.js";
import { link } from "./sync.js";
import * as stock from "./take.js";
import { t } from "./texts.js";
import { redraw, shown } from "./view.js";

let owner = null; // the person who chose them

export async function load() {
  owner = (await queue.load("owner")) || (link.me && link.me.person) || null;
}

/** Pass the device to `person`. */
export async function passTo({ person }) {
  if (person === owner) return;
  const isFirst = owner === null;
  owner = person;
  await queue.save("owner", owner);
  if (isFirst || !(locations.choice.location || locations.choice.label || carrier.loading || stock.take)) return;
  await locations.choose(null, newId());
  await carrier.setLoading(null);
  if (stock.take) await stock.setAside();
  closeSheet();
  shown.id = "";
  showLocation(locations.choice);
  say(t("Another person is signed in: choose the location again"));
  await redraw();
}
