// What waits on the page without HTTPS goes to the page with it: two addresses with a storage each, and no way but the address.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { empty, swap } from "./database.mjs";
import { stored } from "./page.mjs";

const clock = await import("../../../web/static/handhelds/clock.js");
const queue = await import("../../../web/static/handhelds/queue.js");
const { noteWaiting } = await import("../../../web/static/handhelds/session.js");
const { step } = await import("../../../web/static/handhelds/left.js");

let kept = new Map(); // localStorage of the other address

function at(address) {
  const url = new URL(address);
  if (url.protocol === location.protocol) return url;
  swap();
  const own = new Map(stored);
  stored.clear();
  for (const [name, value] of kept) stored.set(name, value);
  kept = own;
  Object.assign(location, { protocol: url.protocol, hostname: url.hostname, port: url.port });
  return url;
}

/** Follow the addresses as a browser does, and return them. */
async function follow(start, most = 60) {
  const addresses = [];
  for (let next = start; next && next !== "/scan"; next = await step(at(next))) {
    addresses.push(next);
    assert.ok(addresses.length < most, next.slice(0, 80));
  }
  return addresses;
}

const scan = (id, more = {}) => ({ id, code: `code-${id}`, ...clock.stamp({ session: "s1", person: 7, organization: 9 }), choice: "c", locationId: 1, locationName: "Dock 1", held: null, ...more });

beforeEach(async () => {
  await queue.load("clock");
  for (const protocol of ["http:", "https:", "http:"]) {
    at(`${protocol}//box.local:${protocol === "http:" ? 8080 : 443}/`);
    empty();
    stored.clear();
  }
  at("http://box.local:8080/");
  document.cookie = "";
});

test("all of it is taken over in parts, with its person, order and times, and nothing stays behind", async () => {
  clock.note(clock.reading(), clock.reading(), Date.now() + 3600000);
  const scans = Array.from({ length: 250 }, (_, n) => scan(`scan-${n}`, n % 2 ? { person: 8, session: "s2" } : {}));
  await queue.addAll(scans);
  await queue.addAll([{ id: "undo-1", undo: "earlier", ...clock.stamp({ person: 7 }) }]);
  await queue.addParcel({ id: "photo-1", kind: "photo", asset: 4, ...clock.stamp({ person: 7 }), photo: Uint8Array.from([0, 255, 7]).buffer });
  noteWaiting(252);
  const addresses = await follow("https://box.local/scan/left");
  assert.ok(addresses.every((one) => one.length < 60000) && addresses.length > 6);
  const waiting = await queue.waiting();
  assert.deepEqual(waiting.map(({ id, person, session }) => [id, person, session]),
    [...scans.map(({ id, person, session }) => [id, person, session]), ["undo-1", 7, null]]);
  const times = clock.siteTimes(waiting);
  assert.ok(scans.every(({ id, at: made }) => Math.abs(times.get(id) - made - 3600000) < 5000), "as the other page knew the site's clock");
  assert.equal((await queue.recent(Infinity)).length, 250);
  const [photo] = await queue.parcels();
  assert.deepEqual([photo.id, [...new Uint8Array(photo.photo)]], ["photo-1", [0, 255, 7]]);
  at("http://box.local:8080/");
  assert.deepEqual([await queue.waiting(), await queue.parcels()], [[], []]);
});

test("what was taken over twice, because the way back was cut, is there once", async () => {
  await queue.addAll([scan("scan-1"), scan("scan-2")]);
  noteWaiting(2);
  const [first, second, third] = await follow("https://box.local/scan/left");
  at("http://box.local:8080/");
  await queue.addAll([scan("scan-1"), scan("scan-3")]); // as if it had not been dropped
  document.cookie = "edge_waiting=2:8080";
  await follow("https://box.local/scan/left");
  assert.deepEqual((await queue.waiting()).map(({ id }) => id), ["scan-1", "scan-2", "scan-3"]);
  assert.ok(first && second && third);
});

test("the tags of a sweep are one entry of the log", async () => {
  const place = { ...scan("sweep-1"), code: "", codes: [], sweep: "sweep-1", open: 900, counts: {}, state: "queued" };
  await queue.saveSweep(place, Array.from({ length: 900 }, (_, n) => scan(`sweep-1-s${n}`, { sweep: "sweep-1" })));
  noteWaiting(900);
  await follow("https://box.local/scan/left");
  const [entry, ...more] = await queue.recent(Infinity);
  assert.deepEqual([entry.id, entry.codes.length, entry.open, more], ["sweep-1", 900, 900, []]);
  await queue.settle(Array.from({ length: 900 }, (_, n) => ({ id: `sweep-1-s${n}`, result: "recorded" })));
  assert.deepEqual([(await queue.recent())[0].state, await queue.waiting()], ["recorded", []]);
});

test("who does not know the id of the part that was passed on cannot have it dropped", async () => {
  await queue.addAll([scan("scan-1"), scan("scan-2")]);
  noteWaiting(2);
  const numbers = (await queue.waiting()).map(({ no }) => no);
  for (const token of ["evil", "other"]) {
    await step(at(`http://box.local:8080/scan/left#give:${token}:443:`));
    for (const no of [0, ...numbers]) {
      for (const guess of [`${no}-0`, `${no}:0`, String(no), "undefined", "null"]) await step(at(`http://box.local:8080/scan/left#give:${token}:443:${guess}`));
    }
  }
  assert.deepEqual((await queue.waiting()).map(({ id }) => id), ["scan-1", "scan-2"]);
  await follow("https://box.local/scan/left");
  assert.deepEqual((await queue.waiting()).map(({ id }) => id), ["scan-1", "scan-2"], "they are here, at the other address");
});

test("an address of somebody else adds nothing, drops nothing and goes nowhere else", async () => {
  await queue.addAll([scan("scan-1")]);
  noteWaiting(1);
  const to = new URL(await step(at("http://box.local:8080/scan/left#give:evil:443:9-9")));
  assert.deepEqual([to.protocol, to.hostname, (await queue.waiting()).length], ["https:", "box.local", 1]);
  assert.equal(await step(at("http://box.local:8080/scan/left#give:evil:443@evil.example:")), "");
  const forged = encodeURIComponent(JSON.stringify({ items: [scan("forged")], parcels: [] }));
  assert.equal(await step(at(`https://box.local/scan/left#take:evil:1:${forged}`)), "/scan");
  assert.deepEqual(await queue.waiting(), []);
});
