// Lists that are drawn again and again touch only the lines that changed.

import assert from "node:assert/strict";
import { test } from "node:test";

import "./database.mjs";
import "./page.mjs";

class Fake {
  constructor(text = "") {
    [this.text, this.children, this.parent, this.touched] = [text, [], null, 0];
  }
  get firstElementChild() { return this.children[0] || null; }
  get nextElementSibling() { return this.parent.children[this.parent.children.indexOf(this) + 1] || null; }
  remove() {
    this.parent.touched += 1;
    this.parent.children = this.parent.children.filter((one) => one !== this);
    this.parent = null;
  }
  insertBefore(line, next) {
    if (line.parent) line.remove();
    this.touched += 1;
    this.children.splice(next ? this.children.indexOf(next) : this.children.length, 0, line);
    line.parent = this;
  }
}

const { drawLines } = await import("../../../web/static/handhelds/sheets.js");

let made = 0;
const line = ([key, text]) => [key, [text], () => { made += 1; return new Fake(text); }];

/** Draw the lines; how many were made, and how often the list was touched. */
function draw(list, lines) {
  made = list.touched = 0;
  drawLines(list, lines.map(line));
  assert.deepEqual(list.children.map(({ text }) => text), lines.map(([, text]) => text));
  return [made, list.touched];
}

test("of 5,000 lines only those that changed, came or went are touched", () => {
  const list = new Fake();
  const lines = Array.from({ length: 5000 }, (_, no) => [no, `Pallet ${no}`]);
  assert.deepEqual(draw(list, lines), [5000, 5000]);
  assert.deepEqual(draw(list, lines), [0, 0]);
  const changed = lines.map(([key, text]) => [key, key === 4000 ? "found" : text]);
  assert.deepEqual(draw(list, changed), [1, 2]); // one taken out, one put in
  assert.deepEqual(draw(list, changed.slice(1)), [0, 1]);
  assert.deepEqual(draw(list, [["new", "New"], ...changed.slice(1)]), [1, 1]);
  assert.deepEqual(draw(list, []), [0, 5000]);
});

test("lines in another order end in that order", () => {
  const list = new Fake();
  draw(list, [[1, "a"], [2, "b"], [3, "c"], [4, "d"]]);
  assert.equal(draw(list, [[4, "d"], [1, "a"], [2, "b"], [3, "c"]])[0], 0);
  assert.equal(draw(list, [[3, "c"], [5, "e"], [1, "a"]])[0], 1);
});
