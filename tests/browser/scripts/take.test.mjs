// What a stock-take counts on the device: its own scans, and those that the server has of others.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./database.mjs";
import "./page.mjs";


const queue = await import("../../../web/static/handhelds/queue.js");
const { scanId } = await import("../../../web/static/handhelds/sweeping.js");
const stock = await import("../../../web/static/handhelds/take.js");

const TAKE = { id: "take-1", location: 1, name: "Dock 1", with_sublocations: false, expected: [11, 12, 13], seen: [], lost: [], devices: [] };
const ids = (groups) => [groups.here.map(({ id }) => id), groups.missing.map(({ id }) => id), groups.unknown.map(({ name }) => name)];

async function open(others) {
  await queue.save("take", { ...TAKE, others });
  await stock.load();
}

test("an undone sweep no longer counts, though the server's list is from before", async () => {
  const sweep = { id: "sweep-1", take: "take-1", codes: ["A", "B", "?"], state: "counted" };
  await open([[scanId("sweep-1", 0), "A", 11], [scanId("sweep-1", 1), "B", 12], [scanId("sweep-1", 2), "?", null], ["scan-9", "C", 13]]);
  assert.deepEqual(ids(stock.groupsOf([sweep])), [[11, 12, 13], [], ["?"]]);
  for (const state of ["undoing", "undone", "refused"]) {
    assert.deepEqual(ids(stock.groupsOf([{ ...sweep, state }])), [[13], [11, 12], []], state);
  }
});

test("an undone scan no longer counts, and a sweep or scan of another stock-take changes nothing", async () => {
  await open([["scan-1", "A", 11], ["scan-2", "B", 12]]);
  const scan = { id: "scan-1", take: "take-1", code: "A", state: "undone" };
  assert.deepEqual(ids(stock.groupsOf([scan])), [[12], [11, 13], []]);
  assert.deepEqual(ids(stock.groupsOf([{ ...scan, take: "take-0" }])), [[11, 12], [13], []]);
});
