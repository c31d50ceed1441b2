// Where a device says that assets are: by the server's copy, what it was answered since, and the scans that wait on it.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { empty } from "./database.mjs";
import { reload } from "./page.mjs";

const queue = await import("../../../web/static/handhelds/queue.js");
const [RACK, DOCK, TRUCK] = [1, 2, 3];
const [PALLET, CRATE, BOX, OTHER] = [11, 12, 13, 14];
const AT = 1_800_000_000; // seconds

let copy;
let number = 0;

/** On this device: a box in a crate on a pallet at the rack, and something else at the dock. */
beforeEach(async () => {
  empty();
  const row = (id, location, carrier) => [id, `KEY-${id}`, `Thing ${id}`, location, AT - 600, AT - 600, [`BC-${id}`], "c", ...(carrier ? [carrier] : [])];
  const rows = [row(PALLET, RACK), row(CRATE, RACK, PALLET), row(BOX, RACK, CRATE), row(OTHER, DOCK)];
  await queue.saveAssets(rows.map((one) => ({ no: one[0], digest: "", rows: [one] })));
  copy = await reload("copy.js");
  await copy.load();
});

const scan = (code, locationId, more = {}) => queue.add({ id: `scan-${number += 1}`, code, locationId, at: (AT + number) * 1000, ...more });
const at = async (location) => copy.at(new Set([location]), await copy.waiting()).map(({ id }) => id);

test("what is on a carrier moves with it, as soon as its scan was saved", () => {
  copy.move(PALLET, DOCK, AT * 1000);
  assert.deepEqual([PALLET, CRATE, BOX, OTHER].map((id) => copy.byId(id).location), [DOCK, DOCK, DOCK, DOCK]);
  assert.equal(copy.byId(BOX).since, AT);
  copy.move(CRATE, RACK, AT * 1000); // seen where its carrier is not
  copy.move(PALLET, TRUCK, AT * 1000);
  assert.deepEqual([PALLET, CRATE, BOX].map((id) => copy.byId(id).location), [TRUCK, RACK, RACK]);
  copy.move(OTHER, TRUCK, AT * 1000, { onto: PALLET });
  copy.move(PALLET, DOCK, AT * 1000);
  assert.equal(copy.byId(OTHER).location, DOCK);
  copy.move(OTHER, DOCK, AT * 1000, { off: true });
  copy.move(PALLET, RACK, AT * 1000);
  assert.equal(copy.byId(OTHER).location, DOCK);
});

test("scans that wait on this device count for it, and what is on a carrier with them", async () => {
  await scan("BC-11", DOCK);
  assert.deepEqual(await at(DOCK), [PALLET, CRATE, BOX, OTHER]);
  assert.deepEqual(await at(RACK), []);
  assert.equal((await copy.waiting()).get(BOX).isKept, true);
  assert.deepEqual((await copy.waiting()).get(PALLET).since, AT + number);
  assert.equal(copy.byId(PALLET).location, RACK, "the server has not answered");
  await scan("KEY-13", TRUCK, { off: true });
  await scan("BC-14", TRUCK);
  await scan("BC-11", RACK);
  assert.deepEqual([await at(TRUCK), await at(RACK)], [[BOX, OTHER], [PALLET, CRATE]]);
  await scan("BC-11", TRUCK, { take: "take-1" });
  await scan("BC-11", null, { held: { question: true } });
  assert.deepEqual(await at(RACK), [PALLET, CRATE], "scans of a stock-take and those without a location move nothing");
});

test("a sweep and a move of everything count as well, and what was answered no more", async () => {
  const sweep = { id: "sweep-1", code: "", codes: ["BC-11", "BC-14", "NOT-KNOWN"], open: 3, counts: {}, locationId: TRUCK, at: AT * 1000, state: "queued" };
  await queue.saveSweep(sweep, [{ id: "sweep-1-s0", code: "BC-11", sweep: "sweep-1", choice: "c" }]);
  await scan("BC-14", RACK, { assetId: PALLET });
  assert.deepEqual([await at(TRUCK), await at(RACK)], [[OTHER], [PALLET, CRATE, BOX]]);
  await queue.settle([{ id: `scan-${number}`, result: "recorded", asset: { id: PALLET } }]);
  assert.deepEqual(await at(TRUCK), [PALLET, CRATE, BOX, OTHER]);
});

test("the server rounds when something was seen down to ten minutes, but it was there since its stay began", async () => {
  const row = (since, seen) => [PALLET, "KEY-11", "Thing 11", RACK, since, seen, ["BC-11"], "c"];
  for (const [since, seen, shown] of [[AT + 400, AT, AT + 400], [AT - 900, AT, AT], [null, null, 0]]) {
    await queue.saveAssets([{ no: PALLET, digest: "", rows: [row(since, seen)] }]);
    copy = await reload("copy.js");
    await copy.load();
    assert.equal(copy.byId(PALLET).seen, shown);
  }
});

test("a scan of this shift is known as one after the device's clock was set", async ({ mock }) => {
  const { note, reading } = await import("../../../web/static/handhelds/clock.js");
  mock.timers.enable({ apis: ["Date"], now: AT * 1000 });
  const asked = reading();
  note(asked, reading(), (AT + 5 * 24 * 3600) * 1000); // by the site's clock, five days later
  await queue.work(["log"], "readwrite", (t) => t.objectStore("log").put({ id: "scan-x", no: 900, state: "recorded", asset: { id: PALLET }, locationId: RACK, ...reading() }));
  await copy.load();
  assert.equal(copy.wasScannedAt(PALLET, RACK), true);
  mock.timers.setTime((AT + 24 * 3600) * 1000);
  note(reading(), reading(), (AT + 5 * 24 * 3600) * 1000);
  assert.equal(copy.wasScannedAt(PALLET, RACK), true);
});
