// What begins a sweep, and what stays a scan.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { isEpc, scanId, sweepOf, undoId, watcher } from "../../../web/static/handhelds/sweeping.js";

const epc = (number, length = 24) => `E280${String(number).padStart(length - 4, "0")}`;
let log;
let timer;
let mayBegin;
let offer;
let number = 0;

const timers = { setTimeout: (task) => { timer = task; return 1; }, clearTimeout: () => { timer = null; } };
const read = (code, at) => offer({ id: `scan-${number += 1}`, code }, at);

beforeEach(() => {
  [log, timer, mayBegin] = [[], null, true];
  offer = watcher({
    mayBegin: () => mayBegin, timers,
    onSingle: ({ code }) => log.push(["single", code]),
    onSweep: (ones) => log.push(["sweep", ...ones.map(({ code }) => code)]),
    onRepeat: ({ code }) => log.push(["repeat", code]),
  });
});

test("an EPC has 96 bits or more, in words of 16", () => {
  assert.deepEqual([24, 28, 32, 64].map((length) => isEpc(epc(1, length))), [true, true, true, true]);
  assert.deepEqual([20, 25, 26, 68].map((length) => isEpc(epc(1, length))), [false, false, false, false]);
  assert.deepEqual(["BC-0001", "https://box/a/ONE", `${epc(1).slice(1)}G`].map(isEpc), [false, false, false]);
});

test("three tags within a fraction of a second begin a sweep with all three", () => {
  [1, 2, 3].forEach((one) => read(epc(one), one * 30));
  assert.deepEqual(log, [["sweep", epc(1), epc(2), epc(3)]]);
});

test("a tag that stays alone is a scan, after a moment", () => {
  read(epc(1), 0);
  assert.deepEqual(log, []);
  timer();
  assert.deepEqual(log, [["single", epc(1)]]);
});

test("tags at the pace of a person are scans, even if the page gets them late", () => {
  [1, 2, 3, 4].forEach((one) => read(epc(one), one * 200)); // no timer ran in between
  timer();
  assert.deepEqual(log.map(([kind]) => kind), ["single", "single", "single", "single"]);
});

test("barcodes are scans at any pace, at once, and in order", () => {
  read(epc(1), 0);
  [1, 2, 3].forEach((one) => read(`BC-000${one}`, one));
  assert.deepEqual(log, [["single", epc(1)], ["single", "BC-0001"], ["single", "BC-0002"], ["single", "BC-0003"]]);
});

test("one tag that is read again and again begins no sweep", () => {
  [0, 30, 60, 90].forEach((at) => read(epc(1), at));
  timer();
  assert.deepEqual(log, [["repeat", epc(1)], ["repeat", epc(1)], ["repeat", epc(1)], ["single", epc(1)]]);
});

test("where no sweep is possible, and from the camera, each tag is a scan at once", () => {
  mayBegin = false;
  [1, 2, 3].forEach((one) => read(epc(one), one * 30));
  mayBegin = true;
  [4, 5, 6].forEach((one) => read(epc(one)));
  assert.deepEqual(log.map(([kind]) => kind), Array(6).fill("single"));
});

test("the ids of scans and undos name their sweep", () => {
  const sweep = "0b5e5f3c-5a53-4cc5-8f0f-2f2a55f0d7c1";
  assert.deepEqual([scanId(sweep, 4999), undoId(sweep, 0)].map(sweepOf), [sweep, sweep]);
  assert.ok(undoId(sweep, 4999).length <= 64);
  assert.deepEqual([sweep, "old-scan-1", "u1"].map(sweepOf), ["", "", ""]);
});
