// The marks of badges are computed as on the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { stored } from "./page.mjs";
import { keepMarks, markOf, mayBeBadge } from "../../../web/static/handhelds/codes.js";

test("a text has the mark that the server gives it", () => {
  assert.deepEqual(["", "0123456789abcdefBADGE-77", "saltÜmläut-€"].map(markOf), [684, 856, 311]);
});

test("an EPC may be a badge only if a badge may look like an EPC", () => {
  const epcs = Array.from({ length: 1000 }, (_, n) => `3034257BF7194E40${n.toString(16).padStart(8, "0")}`.toUpperCase());
  const all = Array.from({ length: 1024 }, (_, mark) => mark);
  keepMarks({ salt: "s", marks: all, epcs: [] });
  assert.equal(epcs.some(mayBeBadge), false);
  assert.equal(mayBeBadge("4711"), true);
  keepMarks({ salt: "s", marks: all, epcs: [markOf(`s${epcs[7]}`)] });
  assert.equal(mayBeBadge(` ${epcs[7]} `), true);
  assert.equal(epcs.every(mayBeBadge), false);
  stored.set("edge-badges", JSON.stringify({ salt: "s", marks: all })); // of an earlier release
  assert.equal(epcs.every(mayBeBadge), true);
});
