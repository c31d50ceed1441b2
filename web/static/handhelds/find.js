// Find an asset: current and past locations. Nothing is recorded. Without a connection the device's copy is used.

import { ago, duration } from "../times.js";
import { openAbout } from "./about.js";
import { siteNow } from "./clock.js";
import * as copy from "./copy.js";
import * as locations from "./locations.js";
import { epcsOf, openSeek } from "./seek.js";
import { anchor, askFor, button, choice, fill, message, openSheet, part } from "./sheets.js";
import { ask } from "./sync.js";
import { t, tn } from "./texts.js";

export function openFind() {
  const answer = document.createElement("div");
  answer.id = "answer";
  answer.setAttribute("aria-live", "polite");
  answer.append(message(t("Scan or type a tag, key or name. Nothing is recorded here.")));
  openSheet("find", t("Find"), askFor(t("Tag, key or name"), "", t("Find"), find), answer);
}

let latest = 0; // of a slow answer and a later one, the later is shown

export async function find(text) {
  latest += 1;
  const mine = latest;
  document.getElementById("asked").value = "";
  const answer = document.getElementById("answer");
  fill(answer, [message(t("Searching for {text} …", { text }))]);
  let [found, age] = [null, []];
  try {
    found = await ask(`/scan/find?q=${encodeURIComponent(text)}`);
  } catch (error) {
    if (!error.state) throw error;
    [found, age] = [fromCopy(text), [message(asOf())]];
  }
  const kept = await copy.waiting();
  const assets = found.assets.map((one) => (kept.has(one.id) ? moved(one, kept.get(one.id)) : one));
  if (mine === latest) fill(answer, [...detail(text, { ...found, assets }), ...age]);
}

/** An asset where a scan that waits on this device puts it. */
function moved(one, { carrier, ...place }) {
  const there = known({ ...one, ...place });
  const moves = there.location === one.location ? one.moves : [{}, ...one.moves];
  return { ...there, moves, carrier: carrier && copy.byId(carrier) };
}

/** Answer from the device's copy, as the server would. */
function fromCopy(text) {
  const location = locations.find(text);
  const one = copy.find(text);
  if (location && !one) return { location, assets: [] };
  const assets = (one ? [one] : copy.search(text)).map(known);
  return { assets, total: assets.length };
}

function known(one) {
  const location = locations.byId(one.location);
  return {
    ...one, moves: [], location: location && location.name, area: location && location.area,
    since: one.since && one.since * 1000, seen_at: one.seen && one.seen * 1000,
  };
}

/** How old the device's copy is. */
export function asOf() {
  if (!copy.updatedAt) return t("No connection, and no data on this device yet.");
  return t("No connection. Data on this device: {ago}.", { ago: ago(copy.updatedAt, siteNow()) });
}

function detail(text, { assets, location, total }) {
  if (location) {
    return [message(t("{name} is a location.", { name: location.name })), anchor(`/locations/${location.id}`, t("Open"))];
  }
  if (!assets.length) return [message(t("No match for {text}.", { text }))];
  if (assets.length === 1) return thing(assets[0]);
  const choices = assets.map((one) => choice(one.name, [one.key, one.location].filter(Boolean).join(" · "), () => find(one.key)));
  return [message(tn("{count} match", "{count} things fit", total)), ...choices];
}

function thing(one) {
  const lines = [part("", one.name, "h3"), part("found-location", one.location || (one.seen_at ? t("The location is retired") : t("Never seen")), "p")];
  if (one.seen_at) lines.push(message(since(one)));
  if (one.isKept) lines.push(message(t("Kept on this device")));
  if (one.moves.length > 1) {
    const moves = part("moves", "", "ol");
    moves.append(...one.moves.slice(1).map((move) => part("", `${move.location}, ${ago(move.at, siteNow())}`, "li")));
    lines.push(message(t("Previously:")), moves);
  }
  if (one.carrier) lines.push(message(t("On {carrier}", { carrier: one.carrier.name })));
  if (one.load && one.load.length) lines.push(message(t("Carries {assets}", { assets: one.load.map(({ name }) => name).join(", ") })));
  if (epcsOf(one.id).length) lines.push(button(t("Find by sweep"), () => openSeek(one), "button wide"));
  lines.push(button(t("Note, photo or label"), () => openAbout(one), "button wide"));
  return [...lines, anchor(`/assets/${one.id}`, t("Open page"))];
}

function since(one) {
  const times = { area: one.area, duration: duration((siteNow() - one.since) / 1000), ago: ago(one.seen_at, siteNow()) };
  return one.area ? t("in {area}, for {duration}, last seen {ago}", times) : t("for {duration}, last seen {ago}", times);
}
