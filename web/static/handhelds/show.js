// What a person sees all the time: the large result, the list of the last scans, the location, the connection.

import { ago, clockTime } from "../times.js";
import { siteNow, siteTime } from "./clock.js";
import { waitingWithoutHttps } from "./session.js";
import { fill, part } from "./sheets.js";
import { isExpected, take } from "./take.js";
import { t, tn } from "./texts.js";

export const $ = (id) => document.getElementById(id);

const WORDS = {
  recorded: t("Saved"),
  again: t("Already scanned here"),
  unknown: t("Unmatched tag"),
  refused: t("Refused"),
  queued: t("Kept on this device"),
  location: t("Location"),
  counted: t("Found"),
  surplus: t("Not expected here"),
  unclear: t("Location unclear"),
  undone: t("Undone"),
  undoing: t("Undoing"),
};
const SHAPES = {
  recorded: "✓", again: "=", unknown: "?", refused: "✕", queued: "↑", location: "◆", counted: "✓", surplus: "≠", unclear: "◇", undone: "↶", undoing: "↶",
};
const STATES = {
  recorded: t("Saved on the server"),
  again: t("Saved on the server"),
  unknown: t("Added to the unmatched tags"),
  refused: t("Not saved"),
  queued: t("Will be sent"),
  counted: t("Counted"),
  surplus: t("Counted; will be recorded here"),
  unclear: t("Waiting until you choose its location"),
  undoing: t("Will be sent"),
};

export const wordOf = (state) => WORDS[state] || state;
export const shapeOf = (state) => SHAPES[state] || "·";

/** The large result. `flash`: over the whole screen for a moment, for somebody who looks from the corner of an eye. */
export function showResult({ outcome, thing, detail = "", state = STATES[outcome] || "", word = wordOf(outcome) }, flash = true) {
  $("word").textContent = word;
  $("shape").textContent = SHAPES[outcome] || "";
  $("thing").textContent = thing;
  $("detail").textContent = detail;
  $("state").textContent = state;
  $("acts").textContent = "";
  const station = $("station");
  station.dataset.outcome = outcome;
  if (flash) {
    station.classList.remove("flash");
    void station.offsetWidth; // restart the animation
    station.classList.add("flash");
  }
}

/** The text for a scan in the log. */
export function resultOf(entry) {
  if (entry.sweep) return sweptResult(entry);
  if (entry.take && ["queued", "counted"].includes(entry.state)) return countedResult(entry);
  const outcome = entry.state;
  const thing = (entry.asset && entry.asset.name) || entry.known || entry.code;
  const at = entry.locationName ? t("At {location}", { location: entry.locationName }) : "";
  if (entry.held && entry.held.whose) return unclaimedResult(outcome, thing, at);
  if (outcome === "unknown" && entry.asset) return { outcome, thing: entry.asset.name, detail: entry.reason };
  if (outcome === "unknown") return { outcome, thing: entry.code, detail: at };
  if (outcome === "refused") return { outcome, thing, detail: entry.reason || "" };
  if (outcome === "undone") return undoneResult(entry, thing);
  if (outcome === "location") {
    return { outcome, thing: entry.location ? entry.location.name : entry.code, detail: t("Now scan the assets here"), state: "" };
  }
  if (entry.unlisted && ["queued", "recorded", "again"].includes(outcome)) {
    return { outcome: "surplus", thing, detail: outcome === "queued" ? at : before(entry), word: t("Not on the list"), state: STATES[outcome] };
  }
  if (outcome === "recorded" || outcome === "again") return { outcome, thing, detail: before(entry) };
  return { outcome, thing, detail: at };
}

/** A sweep is one result and one line, however many tags it has. */
function sweptResult({ state, codes, counts, locationName }) {
  const { unknown = 0, refused = 0 } = counts;
  const detail = [
    t("At {location}", { location: locationName }),
    ...(unknown ? [tn("{count} unmatched tag", "{count} unmatched tags", unknown)] : []),
    ...(refused ? [tn("{count} refused", "{count} refused", refused)] : []),
  ].join(" · ");
  return { outcome: state, thing: tn("Sweep of {count} tag", "Sweep of {count} tags", codes.length), detail };
}

/** Classify a stock-take scan immediately from local data. */
function countedResult(entry) {
  const { asset, known, code } = entry;
  const isAnswered = entry.state === "counted"; // the server's answer wins
  if (!asset && (isAnswered || !known)) {
    const outcome = isAnswered ? "unknown" : "queued";
    return { outcome, thing: code, detail: "", state: t("Will be added to the unmatched tags when the stock-take is signed off") };
  }
  const wasExpected = asset && take && take.id === entry.take ? isExpected(asset.id) : entry.expected; // also once it has ended
  const outcome = wasExpected ? "counted" : "surplus";
  return { outcome, thing: asset ? asset.name : known, detail: entry.was ? before(entry) : "", state: STATES[entry.state === "queued" ? "queued" : outcome] };
}

/** Previous location; empty for a repeated answer, which does not contain it. */
function before({ was, locationName }) {
  if (was === null) return t("Never seen before");
  if (!was) return t("At {location}", { location: locationName });
  const when = ago(was.seen_at, siteNow());
  return was.name === locationName ? t("Was here, {when}", { when }) : t("Was at {location}, {when}", { location: was.name, when });
}

function unclaimedResult(outcome, thing, at) {
  return { outcome, thing, detail: at, word: t("Who made it?"), state: t("Waiting until someone says who made it") };
}

function undoneResult(entry, thing) {
  if (entry.asset) {
    const detail = t("Scan at {location} undone", { location: entry.locationName });
    return { outcome: "undone", thing, detail, state: entry.was === null ? t("Never seen") : t("Previous location restored") };
  }
  const detail = entry.locationName ? t("Scan of this code at {location} undone", { location: entry.locationName }) : "";
  return { outcome: "undone", thing, detail, state: t("No location changed") };
}

export function showLog(entries) {
  const items = entries.slice(0, 12).map(logItem);
  if (!items.length) items.push(part("empty-log", t("Nothing yet."), "li"));
  fill($("log"), items);
}

export function logItem(entry) {
  const item = document.createElement("li");
  const { outcome, thing, word = wordOf(outcome) } = resultOf(entry);
  item.dataset.outcome = outcome;
  const shape = part("log-shape", shapeOf(outcome));
  shape.setAttribute("aria-hidden", "true");
  const detail = [word, outcome === "refused" && entry.reason, entry.locationName, clockTime(siteTime(entry))].filter(Boolean).join(" · ");
  item.append(shape, part("log-thing", thing), part("log-detail", detail));
  return item;
}

export function showLocation({ location, label, question }) {
  const isUnclear = label || question;
  const name = location ? location.name : isUnclear ? t("Location unclear") : t("No location yet");
  $("location-name").textContent = name;
  $("location-hint").textContent = location ? location.area ? t("in {area}", { area: location.area }) : ""
    : isUnclear ? t("Scan its label again, or tap to choose") : t("Scan a location's label, or tap to choose");
  $("location").classList.toggle("none", !location);
}

/** Show the number of scans and repeats at this location. */
export function showCount({ total, repeats }) {
  $("count").hidden = !total;
  $("count-total").textContent = total;
  $("count-detail").textContent = repeats ? tn("{count} repeat", "{count} repeats", repeats) : tn("scan", "scans", total);
}

/** Show the current stock-take's progress on the button that opens its lists. */
export function showTake(take, groups) {
  $("take").hidden = !take;
  if (!take) return;
  $("take").textContent = t("Stock-take at {location}: {number} of {count} found", { location: take.name, number: groups.here.length, count: take.expected.length });
}

/** Show the progress of the current expected list on the button that opens it. */
export function showExpected(list, groups) {
  $("expected").hidden = !list;
  if (!list) return;
  const count = groups.ticked.length + groups.missing.length;
  $("expected").textContent = t("{list}: {number} of {count}", { list: list.name, number: groups.ticked.length, count });
}

/** Show the carrier mode; a tap ends it. */
export function showLoading(loading) {
  $("loading").hidden = !loading;
  if (!loading) return;
  const text = loading.kind === "unload" ? t("Taking off: scan each asset you take off")
    : loading.carrier ? t("Putting onto {carrier}: scan the assets", { carrier: loading.carrier.name }) : t("Putting onto a carrier: scan the carrier first");
  $("loading").textContent = `${text} · ${t("tap to end")}`;
}

export function showLink({ state, waiting: scans, parcels, held, me }) {
  const waiting = scans + parcels;
  const line = $("link");
  const elsewhere = waitingWithoutHttps().count;
  const shown = state !== "ok" ? state : waiting > held.length ? "sending" : waiting || elsewhere ? "held" : state;
  line.dataset.state = $("station").dataset.link = shown;
  const kept = tn("{count} kept", "{count} kept", waiting);
  if (state === "signed-out") {
    const again = part("", t("Sign in again"), "a");
    again.href = "/sign-in?next=/scan";
    fill(line, [again, waiting ? ` · ${kept}` : ""]);
  } else if (state === "ok" && !waiting && elsewhere) {
    const send = part("", t("{kept} on the page without HTTPS: send", { kept: tn("{count} kept", "{count} kept", elsewhere) }), "a");
    send.href = "/scan/left";
    fill(line, [send]);
  } else {
    line.textContent = {
      ok: shown === "sending" ? t("Sending · {kept}", { kept }) : held.some((item) => item.held.whose) ? kept : waiting ? t("{kept} without a location", { kept }) : t("All saved"),
      offline: waiting ? t("Offline · {kept}", { kept }) : t("Offline · scans will be kept"),
      trouble: waiting ? t("The server has a problem · {kept}", { kept }) : t("The server has a problem · scans will be kept"),
      forbidden: waiting ? t("No permission to scan · {kept}", { kept }) : t("No permission to scan: ask an administrator"),
      full: t("Device full · {kept}", { kept }),
      "other-site": t("{kept} for another organization: its people must sign in here", { kept }),
      unknown: t("Starting …"),
    }[state];
    if (!isSecureContext && state === "offline") line.textContent += `. ${t("Do not close this page")}`;
  }
  $("who").textContent = me ? [me.name, me.device].filter(Boolean).join(" · ") : "";
  showHeld(held);
}

/** Show the bar of scans without a location or person until they are assigned. */
function showHeld(held) {
  $("held").hidden = !held.length;
  const whose = held.filter((item) => item.held.whose).length;
  $("held").textContent = whose ? tn("{count} scan from an earlier session: say who made it", "{count} scans from an earlier session: say who made them", whose) : tn("{count} scan without a clear location: choose it", "{count} scans without a clear location: choose it", held.length);
}

/** Show a message for a moment, over the bar at the bottom. */
let [sayTimer, saidAt] = [0, 0];
export function say(text) {
  clearTimeout(sayTimer);
  saidAt = performance.now();
  $("said").textContent = text;
  $("said").hidden = false;
  sayTimer = setTimeout(() => { $("said").hidden = true; }, 4000);
}

/** Make room for the result of the next scan, on a low screen. A message can be read for a moment at least. */
export function hush() {
  if (performance.now() - saidAt > 1200) $("said").hidden = true;
}
