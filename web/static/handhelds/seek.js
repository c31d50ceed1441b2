// Find an asset with an RFID sled: the page answers to its tag only, by sound, and with a bar if the sled reports the signal
// strength. Nothing is recorded here.

import { tick } from "./feedback.js";
import * as copy from "./copy.js";
import { message, openSheet, part, sheet } from "./sheets.js";
import { findWith, startAll, stopAll } from "./sleds.js";
import { isEpc } from "./sweeping.js";
import { t, tn } from "./texts.js";

const EVERY = 120; // ms between two sounds, next to the asset
const [FARTHEST, NEAREST] = [-80, -35]; // dBm: an empty and a full bar
const LOST = 3000; // ms without a read: the bar shows nothing
const SOUNDS = 6; // as many times slower is the sound at the far end

let sought = { id: 0, epcs: new Set() };
let [others, at, timer] = [new Set(), -Infinity, 0];
let [near, sounded, watching] = [null, -Infinity, 0]; // `near`: 0 to 1, null without a signal strength

/** EPCs of an asset, as this device knows them. */
export const epcsOf = (id) => ((copy.byId(id) || { codes: [] }).codes || []).filter(isEpc).map((one) => one.toUpperCase());

export function openSeek({ id, name }) {
  sought = { id, epcs: new Set(epcsOf(id)) };
  [others, at, near, sounded] = [new Set(), -Infinity, null, -Infinity];
  const state = part("seek-state", t("Not yet"), "p");
  const bar = part("seek-bar", "", "meter");
  const count = message("");
  [state.id, bar.id, count.id] = ["seek-state", "seek-bar", "seek-others"];
  [bar.min, bar.max, bar.hidden] = [0, 100, true];
  bar.setAttribute("aria-label", t("Signal"));
  state.setAttribute("role", "status");
  openSheet("seek", name, state, bar, message(t("Pull the trigger and move slowly. Only this asset sounds.")), count,
    ...[...sought.epcs].map((one) => part("raw", one, "p")));
  startAll({ id, name, epcs: [...sought.epcs] });
  clearInterval(watching);
  watching = setInterval(watch, 500);
}

function watch() {
  if (sheet.name === "seek") return draw();
  clearInterval(watching);
  stopAll();
}

/** Take a read while the sheet is open; false if it is not for it. The whole EPC must match: another length is another tag. */
export function seeks({ code, asset, rssi }) {
  if (sheet.name !== "seek" || (code && !isEpc(code))) return false;
  const epc = code && code.toUpperCase();
  if (asset === sought.id || sought.epcs.has(epc) || (epc && (copy.find(epc) || {}).id === sought.id)) onRead(rssi);
  else if (epc) others.add(epc);
  timer = timer || setTimeout(draw, EVERY);
  return true;
}

findWith(seeks);

function onRead(rssi) {
  const now = performance.now();
  at = now;
  near = rssi === null || rssi === undefined ? null : Math.min(1, Math.max(0, (rssi - FARTHEST) / (NEAREST - FARTHEST)));
  if (now - sounded < EVERY * (near === null ? 1 : 1 + (1 - near) * (SOUNDS - 1))) return;
  sounded = now;
  tick();
  navigator.vibrate?.(40);
}

function draw() {
  timer = 0;
  if (sheet.name !== "seek") return;
  const state = document.getElementById("seek-state");
  const bar = document.getElementById("seek-bar");
  if (at > 0) {
    state.textContent = t("Found");
    state.classList.add("is-found");
  }
  const isLost = performance.now() - at > LOST;
  if (near !== null) {
    bar.hidden = false;
    bar.value = isLost ? 0 : Math.round(near * 100);
    state.textContent = isLost ? t("No signal") : near > 0.8 ? t("Very near") : near > 0.45 ? t("Nearer") : t("Far");
    state.classList.toggle("is-found", !isLost && near > 0.8);
  }
  document.getElementById("seek-others").textContent = others.size ? tn("{count} other tag read", "{count} other tags read", others.size) : "";
}
