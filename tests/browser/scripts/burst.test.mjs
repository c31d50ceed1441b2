// A scanner that types into a field is told from a person by its speed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { burst } from "../../../web/static/handhelds/burst.js";

const field = { value: "" };

/** Type with these gaps (ms), and end after another one; what a scanner typed, or null. */
function typed(text, gaps, endGap = 5) {
  const one = burst();
  field.value = "";
  let now = 100;
  Array.from(text).forEach((letter, index) => {
    now += gaps[index % gaps.length];
    one.key(field, letter, letter, now);
    field.value += letter;
  });
  const found = one.ofScanner(field, now + endGap);
  return found && [found.before, found.text];
}

test("a scanner is quick, also one that hangs once", () => {
  assert.deepEqual(typed("BC-0001", [3]), ["", "BC-0001"]);
  assert.deepEqual(typed("BC-0001-LONG", [3, 3, 3, 3, 3, 800, 3, 3, 3, 3, 3, 3]), ["", "BC-0001-LONG"]);
});

test("a person is not, also one who types as fast as they can", () => {
  assert.equal(typed("rack b", [180, 90, 140]), null);
  assert.equal(typed("pallets and boxes", [40, 90, 70, 110]), null);
});

test("what a person typed before a scan stays", () => {
  assert.deepEqual(typed("palBC-0001", [120, 120, 120, 120, 4, 4, 4, 4, 4, 4]), ["pal", "BC-0001"]);
});

test("a text inserted at once with Enter right after it is a scan, a word that a keyboard suggests is none", () => {
  for (const [gap, isScan] of [[5, true], [400, false]]) {
    const one = burst();
    one.insert(field, "BC-0001", 100);
    assert.equal(Boolean(one.ofScanner(field, 100 + gap)), isScan);
  }
});
