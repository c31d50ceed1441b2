// Number of scans and repeats at this location in this session.

import { choice } from "./locations.js";
import { signedIn } from "./session.js";

const COUNTED = ["queued", "recorded", "again", "unknown"];
let since = Number(localStorage.getItem("edge-count-since")) || 0; // when it was restarted by hand

/** `total` scans, of which `repeats` are repeats. */
export function countOf(log) {
  const here = log.filter((entry) => isHere(entry) && COUNTED.includes(entry.state));
  const things = new Set(here.map((entry) => (entry.asset ? entry.asset.id : entry.code)));
  return { total: here.length, repeats: here.length - things.size };
}

export function isHere(entry) {
  if (!choice.location || entry.locationId !== choice.location.id || entry.at < since || entry.take) return false;
  const by = signedIn();
  return Boolean(by) && entry.session === by.session;
}

export function beginAnew() {
  since = Date.now();
  localStorage.setItem("edge-count-since", String(since));
}
