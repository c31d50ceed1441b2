// How keys and inserted texts become codes: in their order, by the times at which they were made, never in pieces.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { assembly } from "../../../web/static/handhelds/assembly.js";

let now, due, codes, parts, known, sendsEnter, slowest, made;

/** Timers that run when the test lets time pass; `late` is how long the page hangs. */
const timers = {
  setTimeout: (task, delay, ...given) => { due = { at: now + delay, run: () => task(...given) }; return 1; },
  clearTimeout: () => { due = null; },
};

function pass(ms, late = 0) {
  const end = now + ms;
  while (due && due.at <= end) {
    const { at, run } = due;
    due = null;
    now = Math.max(now, at) + late;
    late = 0;
    run();
  }
  now = Math.max(now, end);
}

beforeEach(() => {
  [now, due, codes, parts, known, sendsEnter, slowest] = [1000, null, [], [], [], false, 0];
  made = assembly({
    onCode: (text) => codes.push(text),
    onPart: (text) => parts.push(text),
    onEmpty: () => {},
    isWhole: (text) => known.includes(text) && !known.some((one) => one !== text && one.startsWith(text)),
    sendsEnter: () => sendsEnter,
    learnEnter: (does) => { sendsEnter = does; },
    slowest: () => slowest,
    learnSlowest: (gap) => { slowest = gap; },
    since: 0,
    clock: { now: () => now },
    timers,
  });
});

function type(text, gap = 5) {
  for (const letter of text) {
    pass(gap);
    made.key(letter, letter, now);
  }
}

const enter = () => made.end(now);

for (const gap of [5, 40, 140, 290]) {
  test(`keys that follow the load of the page as they follow each other, ${gap} ms, are the rest of a code`, () => {
    now = 0; // the key before this one went to the page before
    type("0021", gap);
    enter();
    assert.deepEqual([codes, parts], [[], ["0021"]]);
    type("BC-0021", gap);
    enter();
    assert.deepEqual(codes, ["BC-0021"]);
  });
}

test("the rest of a code counts for none also if only silence ends it", () => {
  [now, known] = [0, ["0021"]];
  type("0021");
  pass(2000);
  assert.deepEqual([codes, parts], [[], ["0021"]]);
});

test("a code that begins after a pause is whole; how long it must be follows from the slowest keys of the scanner", () => {
  now = 310;
  type("BC-0021", 60);
  enter();
  assert.deepEqual([codes, slowest], [["BC-0021"], 60]);
  type("AB", 200); // a person
  enter();
  assert.equal(slowest, 60);
});

test("keys and inserted texts keep their order", () => {
  type("T:");
  made.insert("ü", now);
  type("ml");
  made.insert("au", now);
  made.insert("aut", now); // an input method changes what it inserted
  enter();
  assert.deepEqual(codes, ["T:ümlaut"]);
});

test("a stall divides no code of a scanner that sends Enter", () => {
  sendsEnter = true;
  known = ["BC-0002"];
  for (const stall of [300, 700, 1400]) {
    type("BC-0");
    pass(stall);
    type("002");
    enter();
  }
  assert.deepEqual([codes, parts], [["BC-0002", "BC-0002", "BC-0002"], []]);
});

test("the first code of a device is not divided either", () => {
  type("BC-0");
  pass(1200);
  type("002");
  enter();
  assert.deepEqual([codes, sendsEnter], [["BC-0002"], true]);
});

test("both pieces of a code with a very long stall are refused, and the next scan of it is taken", () => {
  [sendsEnter, known] = [true, ["BC-0002", "BC-00021"]];
  type("BC-0002");
  pass(4000);
  type("1");
  enter();
  assert.deepEqual([codes, parts], [[], ["BC-0002", "1"]]);
  type("BC-00021");
  enter();
  assert.deepEqual(codes, ["BC-00021"]);
});

test("an Enter that comes very late presses nothing", () => {
  sendsEnter = true;
  type("NOBODY");
  pass(3000);
  assert.equal(enter(), true);
  type("NOBODY");
  enter();
  assert.deepEqual([codes, parts], [["NOBODY"], ["NOBODY"]]);
});

test("a page that hangs gets the keys of that time before it ends a code", () => {
  known = ["BC-0"];
  type("BC-0");
  pass(310, 900); // the timer runs 900 ms late: keys of that time were not delivered yet
  for (const [index, letter] of Array.from("002").entries()) made.key(letter, letter, 1025 + 5 * index);
  assert.deepEqual(codes, []);
  enter();
  assert.deepEqual(codes, ["BC-0002"]);
});

test("two codes that a page that hung gets at once are two", () => {
  known = ["BC-0001", "BC-0002"];
  type("BC-0001");
  now += 5000;
  for (const [index, letter] of Array.from("BC-0002").entries()) made.key(letter, letter, now - 3000 + 5 * index);
  pass(2000);
  assert.deepEqual(codes, ["BC-0001", "BC-0002"]);
});

test("a scanner that sends no Enter is quick with what the device knows, and waits with all else", () => {
  known = ["BC-0001", "BC-00012", "BC-0003"];
  type("BC-0003");
  pass(310);
  assert.deepEqual(codes, ["BC-0003"]);
  type("BC-0001"); // a longer code begins with it
  pass(600);
  type("2");
  pass(310);
  assert.deepEqual(codes, ["BC-0003", "BC-00012"]);
  type("NOBODY");
  pass(1000);
  assert.equal(codes.length, 2);
  pass(600);
  assert.deepEqual(codes.slice(2), ["NOBODY"]);
});

test("a scanner without Enter that replaces one with is learned from the same text twice", () => {
  sendsEnter = true;
  type("NOBODY");
  pass(1600);
  type("NOBODY");
  pass(1600);
  assert.deepEqual([codes, parts, sendsEnter], [["NOBODY"], ["NOBODY"], false]);
});

test("a key that a person hit is no code, and not the beginning of one", () => {
  type("x");
  pass(2000);
  type("BC-0001");
  enter();
  assert.deepEqual(codes, ["BC-0001"]);
  assert.equal(made.end(now + 5000), false); // a person's Enter
});

test("CR and LF end one code", () => {
  type("BC-0001");
  assert.deepEqual([enter(), enter()], [true, true]);
  assert.deepEqual(codes, ["BC-0001"]);
});
