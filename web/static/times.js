// Times are those of the clock on the wall at the site, wherever the browser is: `data-zone` of the body names its zone.
// <time> elements: `data-ago` counts from now, `data-at` is a local date and time, `data-lasting` is a duration,
// `data-unseen` is one that is shown only when it is long enough to matter, `data-printed` is the time of a printout.
// Durations run only in a part of the page that follows the server, and stop when the server does not answer: a clock
// that runs on its own would make old data look new, or a healthy reader look dead.

import { LOCALES, t } from "./handhelds/texts.js";

const DATE = { year: "numeric", month: "short", day: "numeric" };
const WORTH_TELLING = 600; // seconds; `edge/pages/formatting.py` says the same

export function duration(seconds) {
  seconds = Math.max(0, Math.floor(seconds));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  const [size, unit, small, smallUnit] = seconds < 86400 ? [3600, t("h"), 60, "min"] : [86400, t("d"), 3600, t("h")];
  const rest = Math.floor((seconds % size) / small);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}

export function ago(milliseconds, now = Date.now()) {
  const seconds = (now - milliseconds) / 1000;
  if (seconds < -5) return t("in {duration}", { duration: duration(-seconds) });
  return seconds < 5 ? t("just now") : t("{duration} ago", { duration: duration(seconds) });
}

function unseen(seconds) {
  return seconds < WORTH_TELLING ? "" : duration(seconds);
}

export function clockTime(milliseconds, withSeconds = false) {
  const moment = new Date(milliseconds);
  const timeZone = zone();
  const day = (date) => date.toLocaleDateString("en", { timeZone });
  const today = day(new Date(siteNow())) === day(moment);
  const shown = { ...clockOf(), ...(withSeconds && { second: "2-digit" }) };
  return moment.toLocaleString(LOCALES, today ? shown : { ...DATE, ...shown });
}

function clockOf() {
  return { hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: zone() };
}

let heldAt = null; // stopped clocks show this moment

export function siteNow() {
  return Date.now() + offset();
}

/** Stop the clocks at a moment, or let them run again with null. */
export function holdTimes(moment) {
  heldAt = moment;
  renderTimes();
}

export function renderTimes(root = document, selector = "time[datetime]") {
  const now = heldAt ?? siteNow();
  for (const element of root.querySelectorAll(selector)) {
    const moment = Date.parse(element.dateTime);
    let text;
    if ("ago" in element.dataset) text = ago(moment, now);
    else if ("lasting" in element.dataset) text = duration((now - moment) / 1000);
    else if ("unseen" in element.dataset) text = unseen((now - moment) / 1000);
    else if ("printed" in element.dataset) text = new Date(siteNow()).toLocaleString(LOCALES, { ...DATE, ...clockOf() });
    else if ("at" in element.dataset) text = clockTime(moment, element.dataset.at === "seconds");
    if (text !== undefined && element.textContent !== text) element.textContent = text;
    if (!element.dataset.titled) {
      element.dataset.titled = "1";
      element.title = new Date(moment).toLocaleString(LOCALES, { hourCycle: "h23", timeZone: zone() });
    }
  }
}

function zone() {
  return document.body.dataset.zone || undefined;
}

// The site's clock counts, not the phone's.
let offsetOfSite = null;
function offset() {
  const now = Number(document.body.dataset.now);
  if (!now) return 0;
  if (offsetOfSite === null) offsetOfSite = now - Date.now();
  return offsetOfSite;
}

export function keepTimesCurrent() {
  renderTimes();
  setInterval(() => document.hidden || renderTimes(document, "[data-live] time[datetime], time[data-printed]"), 5000);
}
