// Move everything from one location to another: a scan for each thing, as if it had been scanned there.

import { openLocations } from "./choose.js";
import { stamp } from "./clock.js";
import * as copy from "./copy.js";
import * as locations from "./locations.js";
import { newId } from "./catch.js";
import * as queue from "./queue.js";
import { button, closeSheet, message, openSheet } from "./sheets.js";
import { say } from "./show.js";
import { flush, link, recount } from "./sync.js";
import { t, tn } from "./texts.js";
import { redraw } from "./view.js";

/** First the list is updated, then the target is chosen, then the effect is shown and confirmed. */
export async function openMove() {
  const from = locations.choice.location;
  if (link.state === "ok") await copy.refresh(link.me).catch((error) => { if (!error.state) throw error; });
  const things = copy.at(new Set([from.id]));
  if (!things.length) {
    return openSheet("move", t("Move everything"), message(t("This device knows of no assets at {location}.", { location: from.name })));
  }
  openLocations(t("Where should everything at {location} go?", { location: from.name }), (to) => confirm(from, to, things));
}

function confirm(from, to, things) {
  if (to.id === from.id) return;
  const names = things.slice(0, 10).map((one) => one.name).join(", ");
  const count = things.length;
  openSheet("move", t("Move everything"),
    message(tn("{count} asset moves from {from} to {to}:", "{count} assets move from {from} to {to}:", count, { from: from.name, to: to.name })),
    message(count > 10 ? t("{names} and {more} more", { names, more: count - 10 }) : names),
    button(tn("Move {count} asset", "Move {count} assets", count), () => move(to, things), "button wide"));
}

async function move(to, things) {
  const choice = newId(); // one choice of a location, and one move, which is undone as a whole
  const common = { ...stamp(), choice, group: choice, locationId: to.id, locationName: to.name };
  // By id: the key of one thing may be the tag of another.
  await queue.addAll(things.map((one) => ({ ...common, id: newId(), assetId: one.id, code: one.key, known: one.name })));
  closeSheet();
  await recount();
  say(tn("{count} asset moved to {location}", "{count} assets moved to {location}", things.length, { location: to.name }));
  await redraw();
  flush();
}
