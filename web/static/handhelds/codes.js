// Codes before anything is looked up: cleaned of what scanners add, parsed if they are the link of a label, and whether they may
// be a badge. The device knows ten bits of each badge of the site, no badge: enough to ask the server before it stores such a
// code.

import { identity, separated } from "./gs1.js";
import { trimmed } from "./matching.js";
import { isEpc } from "./sweeping.js";

const AIM = /^\][A-Za-z][0-9A-Za-z]/;
const GS1 = /^\](C1|e0|d2|Q3|J1)/; // identifiers of an element string, whose parts are divided by a control character
const CONTROLS = /[\u0000-\u001c\u001e\u001f\u007f]/g;
const BADGES = "edge-badges";
const LINK = /^https?:\/\/[^/]*\/([al])\/([^/?#]+)/i;

/** Without an AIM symbology identifier, unless only that says how to read the rest; without control characters and spaces. */
export function cleaned(text) {
  const code = separated(trimmed(text.replace(CONTROLS, "")));
  const bare = trimmed(code.replace(AIM, ""));
  const isElementString = GS1.test(code) && (code.includes("\u001d") || (identity(code) && !identity(bare)));
  return isElementString ? code : bare;
}

/** `{ kind, key }` of a label's link, whichever address the box had when it was printed; null for any other code. */
export function linkOf(code) {
  const match = LINK.exec(code);
  return match && { kind: match[1].toLowerCase() === "l" ? "location" : "asset", key: decoded(match[2]) };
}

/** True if it looks like a location label, even if partly misread. */
export function looksLikeLocation(code) {
  const link = linkOf(code);
  if (link) return link.kind === "location";
  return /^h?t?tps?\W/i.test(code) && /\/l(\/|$)/i.test(code);
}

/** The one-time code of the link that enrols a device; "" for any other code. It is a secret. */
export function enrolmentOf(code) {
  const match = /\/enrol\/([\w-]{43})$/i.exec(code);
  return match ? match[1] : "";
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a percent sign that was misread
  }
}

/** From the server: `{ salt, marks, epcs }`, `epcs` of the badges that may look like the EPC of a tag. */
export function keepMarks(badges) {
  localStorage.setItem(BADGES, JSON.stringify(badges));
}

export function mayBeBadge(code) {
  const { salt, marks, epcs = marks } = read();
  const possible = isEpc(code.trim()) ? epcs : marks;
  return possible.length > 0 && possible.includes(markOf(salt + code.trim()));
}

function read() {
  try {
    return { salt: "", marks: [], ...JSON.parse(localStorage.getItem(BADGES)) };
  } catch {
    return { salt: "", marks: [] }; // edited by hand
  }
}

/** As on the server: `mark` in `edge/people/passwords.py`. */
export function markOf(text) {
  let state = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) state = Math.imul(state ^ byte, 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 22;
}
