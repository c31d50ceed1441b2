// Shapes stay inside the plan, whatever is done to them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { handles, history, isWithin, moved, resized, rotated } from "../../../web/static/tracking/shapes.js";

const BOX = [[100, 100], [300, 100], [300, 200], [100, 200]];

test("a shape moves as a whole, at most to the edge", () => {
  assert.deepEqual(moved(BOX, 10, -20), [[110, 80], [310, 80], [310, 180], [110, 180]]);
  assert.deepEqual(moved(BOX, -500, 5000), [[0, 900], [200, 900], [200, 1000], [0, 1000]]);
});

test("a corner of the box resizes, and the opposite one stays", () => {
  assert.deepEqual(handles(BOX), BOX);
  assert.deepEqual(resized(BOX, 2, [500, 300]), [[100, 100], [500, 100], [500, 300], [100, 300]]);
  assert.deepEqual(resized(BOX, 0, [0, 0]), [[0, 0], [300, 0], [300, 200], [0, 200]]);
  assert.deepEqual(resized(BOX, 2, [0, 0]), [[100, 100], [108, 100], [108, 108], [100, 108]]);
  assert.deepEqual(resized(BOX, 2, [9000, 150])[2], [1000, 150]);
});

test("a shape turns by what is seen, on a plan that is twice as wide as high", () => {
  assert.deepEqual(rotated(BOX, 90, 2), [[225, -50], [225, 350], [175, 350], [175, -50]].map(([x, y]) => [x, y + 50]));
  assert.deepEqual(rotated(rotated(BOX, 90, 1), -90, 1), BOX);
  const wide = [[0, 0], [1000, 0], [1000, 500], [0, 500]];
  assert.deepEqual(rotated(wide, 90, 2), wide); // would not fit
});

test("a point is inside of a shape or not", () => {
  assert.deepEqual([[200, 150], [50, 150], [200, 250]].map((point) => isWithin(BOX, point)), [true, false, false]);
});

test("changes are undone and redone in their order", () => {
  const steps = history();
  assert.equal(steps.undo("a"), null);
  steps.keep("a");
  steps.keep("b");
  assert.equal(steps.undo("c"), "b");
  assert.equal(steps.undo("b"), "a");
  assert.equal(steps.redo("a"), "b");
  steps.keep("b");
  assert.equal(steps.hasFuture, false);
});
