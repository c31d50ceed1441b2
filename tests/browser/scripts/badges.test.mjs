// The marks of badges are computed as on the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { markOf } from "../../../web/static/handhelds/codes.js";

test("a text has the mark that the server gives it", () => {
  assert.deepEqual(["", "0123456789abcdefBADGE-77", "saltÜmläut-€"].map(markOf), [684, 856, 311]);
});
