// The list of locations: a tree, with its siblings in the order in which people count.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./database.mjs";
import "./page.mjs";

const { inOrder } = await import("../../../web/static/handhelds/locations.js");

test("siblings are sorted 1, 2, 10, below the location that they belong to", () => {
  const one = (id, name, parent = null) => ({ id, name, parent });
  const all = [one(1, "Hall 10"), one(2, "Hall 2"), one(3, "Rack 10", 2), one(4, "Rack 9", 2), one(5, "Bin", 3), one(6, "Dock", 99)];
  assert.deepEqual(inOrder(all).map(({ name }) => name), ["Dock", "Hall 2", "Rack 9", "Rack 10", "Bin", "Hall 10"]);
});
