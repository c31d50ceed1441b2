// What is at a location, from the server or, without a connection, from the device's copy; and moving all of it: a scan for
// each asset, as if it had been scanned there.

import { ago } from "../times.js";
import { newId } from "./catch.js";
import { openLocations } from "./choose.js";
import { siteNow, stamp } from "./clock.js";
import * as copy from "./copy.js";
import { asOf } from "./find.js";
import { choice, withBelow } from "./locations.js";
import * as queue from "./queue.js";
import { button, choice as choiceButton, closeSheet, fill, message, openSheet, part } from "./sheets.js";
import { say } from "./show.js";
import { flush, link, recount } from "./sync.js";
import { t, tn } from "./texts.js";
import { redraw } from "./view.js";

const MOST = 300; // lines shown; the number counts all

export async function openHere(onOpen) {
  const list = document.createElement("div");
  list.id = "here-list";
  const below = part("choice", "", "label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  below.append(box, t("including sub-locations"));
  let kept = new Map();
  const show = () => fill(list, lines(box.checked ? withBelow(choice.location.id) : new Set([choice.location.id]), kept, onOpen));
  box.addEventListener("change", show);
  openSheet("here", t("Assets at {location}", { location: choice.location.name }), below, list);
  fill(list, [message(t("Searching …"))]);
  kept = await current();
  show();
}

/** Bring the copy up to date. Returns where scans that wait on this device put assets. */
async function current() {
  if (link.state === "ok") await copy.refresh(link.me).catch((error) => { if (!error.state) throw error; });
  return copy.waiting();
}

function lines(ids, kept, onOpen) {
  const assets = copy.at(ids, kept);
  const seen = (one) => (one.seen ? t("last seen {ago}", { ago: ago(one.seen * 1000, siteNow()) }) : "");
  const detail = (one) => [one.key, seen(one), one.isKept ? t("Kept on this device") : ""].filter(Boolean).join(" · ");
  return [
    part("list-count", tn("{count} asset", "{count} assets", assets.length), "p"),
    ...assets.slice(0, MOST).map((one) => choiceButton(one.name, detail(one), () => onOpen(one))),
    ...(link.state === "ok" ? [] : [message(asOf())]),
  ];
}

/** First the list is updated, then the target is chosen, then the effect is shown and confirmed. */
export async function openMove() {
  const from = choice.location;
  const things = copy.at(new Set([from.id]), await current());
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
    button(tn("Move {count} asset", "Move {count} assets", count), () => moveAll(to, things), "button wide"));
}

async function moveAll(to, things) {
  const move = newId(); // one choice of a location, and one move, which is undone as a whole
  const common = { ...stamp(), choice: move, group: move, locationId: to.id, locationName: to.name };
  // By id: the key of one thing may be the tag of another.
  await queue.addAll(things.map((one) => ({ ...common, id: newId(), assetId: one.id, code: one.key, known: one.name })));
  closeSheet();
  await recount();
  say(tn("{count} asset moved to {location}", "{count} assets moved to {location}", things.length, { location: to.name }));
  await redraw();
  flush();
}
