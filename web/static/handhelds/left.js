// Takes over what waits in the storage of the page without HTTPS. No page can read the storage of the other address, so this
// page, at both addresses in turn, passes it on in the fragment of the next address, which no server sees: part after part,
// each under the person who made it. The page without HTTPS drops a part only after the other one has stored it.
//   #give:TOKEN:PORT:ID   without HTTPS: the part ID is stored; continue at PORT with HTTPS
//   #take:TOKEN:ID:PART   with HTTPS: store a part; without one nothing is left
// Both are random, and no other page can read these addresses. Without the token of the page that began nothing is stored, and
// without the id of the part that was passed on last nothing is dropped.

import * as clock from "./clock.js";
import * as queue from "./queue.js";
import { newId, noteWaiting, waitingWithoutHttps } from "./session.js";

const TOKEN = "edge-left";
const MOST = 20000; // letters of a part, unless one item alone is longer
const BYTES = 8000; // of a photo, turned into letters at once

/** The address to go to next, "" for none. */
export async function step({ protocol, hostname, port, hash }) {
  const [act, token = "", ...given] = hash.slice(1).split(":");
  const other = (scheme, at, rest) => `${scheme}://${hostname}${at && `:${at}`}/scan/left#${rest}`;
  if (protocol === "http:" && act === "give" && /^[\w-]+$/.test(token) && /^\d{0,5}$/.test(given[0])) {
    const [part, id] = await partAfter(given[1]);
    return other("https", given[0], `take:${token}:${part ? `${id}:${encodeURIComponent(JSON.stringify(part))}` : ""}`);
  }
  if (protocol !== "https:") return "";
  const from = waitingWithoutHttps();
  if (act !== "take" && from.count) {
    localStorage.setItem(TOKEN, newId());
    return other("http", from.port, `give:${localStorage.getItem(TOKEN)}:${port}:`);
  }
  if (act !== "take" || token !== localStorage.getItem(TOKEN)) return "/scan";
  const [id, ...rest] = given;
  if (id) await queue.takeOver(unpacked(JSON.parse(decodeURIComponent(rest.join(":")))));
  else localStorage.removeItem(TOKEN);
  return id ? other("http", from.port, `give:${token}:${port}:${id}`) : "/scan";
}

/** Drop the part that is stored at the other address, and return the next one with its id; null if nothing is left. */
async function partAfter(stored) {
  const [passed, ...last] = (localStorage.getItem(TOKEN) || "").split(":");
  if (stored && stored === passed) await queue.dropUpTo(...last.map(Number));
  await clock.load();
  const [items, [parcel]] = [await queue.waiting(), await queue.parcels()];
  const times = clock.siteTimes(items);
  const part = { items: [], parcels: [] };
  for (const item of items) {
    const one = { ...item, no: undefined, at: times.get(item.id), era: { site: true } };
    if (part.items.length && JSON.stringify([part, one]).length > MOST) break;
    part.items.push(one);
  }
  if (!items.length && parcel) part.parcels.push(packed(parcel));
  const [id, count] = [newId(), part.items.length];
  noteWaiting(items.reduce((sum, item) => sum + queue.sizeOf(item), 0) + (await queue.parcels()).length);
  localStorage.setItem(TOKEN, `${id}:${count ? items[count - 1].no : 0}:${part.parcels.length ? parcel.no : 0}`);
  return count || part.parcels.length ? [part, id] : [null];
}

function packed({ no, at, era, photo, ...parcel }) {
  const more = { ...parcel, at: Math.round(clock.siteTime({ at, era })), era: { site: true } };
  if (!photo) return more;
  const bytes = new Uint8Array(photo);
  let text = "";
  for (let n = 0; n < bytes.length; n += BYTES) text += String.fromCharCode(...bytes.subarray(n, n + BYTES));
  return { ...more, photo: btoa(text) };
}

function unpacked({ items, parcels }) {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  return { items, parcels: parcels.map((one) => (one.photo ? { ...one, photo: bytes(one.photo) } : one)) };
}

if (document.getElementById("left")) {
  step(location).then((next) => { if (next) location.replace(next); }).catch((error) => {
    [document.getElementById("left").hidden, document.getElementById("left-failed").hidden] = [true, false];
    throw error;
  });
}
