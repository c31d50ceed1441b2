// The queue of a device: the order of scans, what undo leaves, and whose name and which location each scan has.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import "./page.mjs";
import { empty } from "./database.mjs";
import * as queue from "../../../web/static/handhelds/queue.js";

const [OLGA, OTTO] = [{ person: 1, organization: 9 }, { person: 2, organization: 9 }];
const DOCK = { choice: "at-dock", locationId: 10, locationName: "Dock 1" };
const GATE = { id: 70, key: "GATE-7", name: "Gate 7" };

let clock = 1000;
const scan = (id, more = {}) => queue.add({ id, code: `code-${id}`, at: clock += 10, held: null, ...DOCK, ...OLGA, ...more });
const places = async () => (await queue.waiting()).map(({ id, locationName }) => [id, locationName]);
const states = async () => Object.fromEntries((await queue.recent(Infinity)).map(({ id, state }) => [id, state]));

beforeEach(empty);

test("scans wait in the order they were made, also after the clock was set back", async () => {
  await scan("1");
  await scan("2", { at: 5 });
  await scan("3");
  assert.deepEqual((await queue.waiting()).map(({ id }) => id), ["1", "2", "3"]);
});

test("what is answered leaves the queue and stays in the log", async () => {
  for (const id of ["1", "2"]) await scan(id);
  await queue.settle([{ id: "1", result: "recorded", asset: { id: 5, name: "Pallet 1" } }]);
  assert.deepEqual(await places(), [["2", "Dock 1"]]);
  assert.deepEqual(await states(), { 1: "recorded", 2: "queued" });
});

test("what was scanned after the label of a location belongs to it, whenever it is stored", async () => {
  for (const id of ["1", "label", "2"]) await scan(id);
  await scan("elsewhere", { choice: "at-rack", locationId: 20, locationName: "Rack A" });
  const settled = queue.settle([{ id: "1", result: "recorded" }, { id: "label", result: "location", location: GATE }, { id: "2", result: "unclear" }]);
  const late = scan("3"); // before the page knows
  await settled;
  assert.equal((await late).locationName, "Gate 7");
  await scan("4");
  assert.deepEqual(await places(), [["2", "Gate 7"], ["elsewhere", "Rack A"], ["3", "Gate 7"], ["4", "Gate 7"]]);
});

test("two labels one after the other divide what follows", async () => {
  for (const id of ["first", "1", "second", "2"]) await scan(id);
  await queue.settle([{ id: "first", result: "location", location: GATE }]);
  await queue.settle([{ id: "1", result: "recorded" }, { id: "second", result: "location", location: { id: 80, key: "G-8", name: "Gate 8" } }]);
  await scan("3"); // still by the choice before both
  assert.deepEqual(await places(), [["2", "Gate 8"], ["3", "Gate 8"]]);
});

test("an undo takes the scan out of the log's saved ones; one that is refused changes nothing", async () => {
  for (const id of ["1", "2"]) await scan(id);
  await queue.settle([{ id: "1", result: "recorded" }, { id: "2", result: "recorded" }]);
  await queue.add({ id: "u1", undo: "1", at: clock, ...OLGA });
  await queue.settle([{ id: "u1", result: "undone" }]);
  await queue.add({ id: "u2", undo: "2", at: clock, ...OTTO });
  const before = (await states())["2"];
  await queue.settle([{ id: "u2", result: "refused", reason: "Only your own scans can be undone" }]);
  assert.deepEqual(await states(), { 1: "undone", 2: before });
  assert.deepEqual(await queue.waiting(), []);
});

test("a scan that waits for a location is withdrawn at once, one that may be on its way is not", async () => {
  await scan("1");
  await scan("2", { locationId: null, locationName: "", held: { label: "X" } });
  assert.deepEqual([await queue.withdraw("1"), await queue.withdraw("2")], [false, true]);
  assert.deepEqual([await places(), (await states())["2"]], [[["1", "Dock 1"]], "undone"]);
});

test("scans that waited are released to their location only", async () => {
  await scan("1", { choice: "a", locationId: null, locationName: "", held: { label: "X" } });
  await scan("2", { choice: "b", locationId: null, locationName: "", held: { label: "Y" } });
  await queue.release("a", GATE);
  assert.deepEqual(await places(), [["1", "Gate 7"], ["2", ""]]);
});

test("each scan keeps the name of who made it, whatever happens to it", async () => {
  await scan("label");
  await scan("1");
  await scan("2", OTTO);
  await queue.settle([{ id: "label", result: "location", location: GATE }]);
  await scan("3", OTTO);
  assert.deepEqual((await queue.waiting()).map(({ id, person }) => [id, person]), [["1", 1], ["2", 2], ["3", 2]]);
});

test("a badge leaves no trace", async () => {
  await scan("1", { code: "BADGE-1" });
  await queue.settle([{ id: "1", result: "badge" }]);
  assert.deepEqual([await queue.waiting(), await queue.recent(Infinity)], [[], []]);
});

test("what was scanned before the label, or waits for another answer, stays as it is", async () => {
  await scan("before");
  await scan("label");
  await scan("held", { locationId: null, locationName: "", held: { label: "X" } });
  await queue.settle([{ id: "label", result: "location", location: GATE }]);
  assert.deepEqual(await places(), [["before", "Dock 1"], ["held", ""]]);
});

test("in a stock-take somebody says where the scans after a label belong", async () => {
  for (const id of ["label", "1"]) await scan(id, { take: "take-1" });
  await queue.settle([{ id: "label", result: "location", location: GATE }]);
  await scan("2", { take: "take-1" });
  const held = { label: "code-label", shown: "Dock 1", location: GATE };
  assert.deepEqual((await queue.waiting()).map((item) => [item.id, item.locationId, item.held]), [["1", null, held], ["2", null, held]]);
  assert.deepEqual(await states(), { label: "location", 1: "unclear", 2: "unclear" });
});

test("as many labels are remembered as there may be scans on their way, and no more", async () => {
  for (let n = 1; n <= 9; n += 1) {
    await scan(`label-${n}`, { choice: `choice-${n}` });
    await queue.settle([{ id: `label-${n}`, result: "location", location: GATE }]);
  }
  await scan("1", { choice: "choice-1" });
  await scan("2", { choice: "choice-2" });
  assert.deepEqual(await places(), [["1", "Dock 1"], ["2", "Gate 7"]]);
});

test("an unclear answer leaves a scan where it is", async () => {
  await scan("1");
  await queue.settle([{ id: "1", result: "unclear" }]);
  assert.deepEqual([await places(), await states()], [[["1", "Dock 1"]], { 1: "queued" }]);
});

test("a scan at a location that was retired waits for another one", async () => {
  await scan("1");
  await queue.settle([{ id: "1", result: "retired" }]);
  const [{ locationId, locationName, held }] = await queue.waiting();
  assert.deepEqual([locationId, locationName, held], [null, "", { shown: "Dock 1", retired: true }]);
  await queue.release("at-dock", GATE);
  const [released] = await queue.waiting();
  assert.deepEqual([released.locationName, released.held, await states()], ["Gate 7", null, { 1: "queued" }]);
});

test("what nobody has proven to have made waits for its person, and for no location", async () => {
  await scan("1");
  await scan("2", { locationId: null, locationName: "", held: { label: "X" } });
  await queue.settle([{ id: "1", result: "whose" }]);
  await queue.release("at-dock", GATE);
  assert.deepEqual((await queue.waiting()).map(({ id, locationName, held }) => [id, locationName, held]), [["1", "Dock 1", { whose: true }], ["2", "Gate 7", null]]);
  await scan("3", { locationId: null, locationName: "", held: { label: "X" } });
  await queue.claim(OTTO);
  assert.deepEqual((await queue.waiting()).map(({ id, person, held }) => [id, person, held]), [["1", 2, null], ["2", 1, null], ["3", 1, { label: "X" }]]);
  assert.deepEqual(await states(), { 1: "queued", 2: "queued", 3: "unclear" });
});

test("a choice is discarded without what waits for its person or was sent", async () => {
  for (const id of ["1", "2", "3"]) await scan(id, id === "3" ? { held: { label: "X" } } : {});
  await queue.settle([{ id: "1", result: "whose" }]);
  await queue.discard("at-dock");
  assert.deepEqual([(await places()).map(([id]) => id), await states()], [["1", "2"], { 1: "unclear", 2: "queued", 3: "undone" }]);
});

test("what nobody claims leaves the queue; an undo that nobody claims changes nothing", async () => {
  await scan("1");
  await scan("2");
  await queue.settle([{ id: "1", result: "recorded" }, { id: "2", result: "whose" }]);
  await queue.add({ id: "u1", undo: "1", at: clock, ...OLGA });
  assert.equal((await states())["1"], "undoing");
  await queue.settle([{ id: "u1", result: "whose" }]);
  await queue.claim(null);
  assert.deepEqual([await queue.waiting(), await states()], [[], { 1: "unclear", 2: "undone" }]);
});

test("the log is kept short, without what still waits and what an open stock-take needs", async () => {
  for (const id of ["queued", "undoing", "unclear", "counted", "other", "old", "kept", "new"]) await scan(id, { take: { counted: "take-1", other: "take-0" }[id] });
  await queue.settle(["undoing", "counted", "other", "old", "kept", "new"].map((id) => ({ id, result: "recorded" })));
  await queue.settle([{ id: "unclear", result: "retired" }]);
  await queue.add({ id: "u1", undo: "undoing", at: clock, ...OLGA });
  await queue.tidy("take-1", 2);
  assert.deepEqual((await queue.recent(Infinity)).map(({ id }) => id), ["new", "kept", "counted", "unclear", "undoing", "queued"]);
  assert.deepEqual((await queue.recent(1)).map(({ id }) => id), ["new"]);
});

// Sweeps

const SWEEP = "sweep-one";
const swept = (codes) => codes.map((code, no) => ({ id: `${SWEEP}-s${no}`, code, sweep: SWEEP, at: clock, held: null, ...DOCK, ...OLGA }));
const entry = (codes) => ({ id: SWEEP, code: "", codes, sweep: SWEEP, open: codes.length, counts: {}, state: "queued", at: clock, held: null, ...DOCK, ...OLGA });

test("tags of a sweep are stored once each, and leave with its scans", async () => {
  await queue.addReads({ id: SWEEP }, [{ code: "A" }, { code: "B" }]);
  await queue.addReads({ id: SWEEP }, [{ code: "B" }, { code: "C" }]);
  const { current, reads } = await queue.loadSweep();
  assert.deepEqual([current, reads.map(({ code }) => code)], [{ id: SWEEP }, ["A", "B", "C"]]);
  await queue.saveSweep(entry(["A", "B"]), swept(["A", "B"]));
  assert.deepEqual(await queue.loadSweep(), { current: undefined, reads: [] });
  assert.deepEqual((await queue.waiting()).map(({ id }) => id), [`${SWEEP}-s0`, `${SWEEP}-s1`]);
  assert.deepEqual(await states(), { [SWEEP]: "queued" });
});

test("a sweep is one line, saved when all of it is answered", async () => {
  await queue.saveSweep(entry(["A", "B", "C"]), swept(["A", "B", "C"]));
  await queue.settle([{ id: `${SWEEP}-s0`, result: "recorded" }, { id: `${SWEEP}-s1`, result: "unknown" }]);
  assert.deepEqual(await states(), { [SWEEP]: "queued" });
  await queue.settle([{ id: `${SWEEP}-s2`, result: "recorded" }]);
  assert.deepEqual(await states(), { [SWEEP]: "recorded" });
  assert.deepEqual((await queue.recent(1))[0].counts, { recorded: 2, unknown: 1 });
});

test("one undo covers the sweep: what is held is withdrawn, the others are undone", async () => {
  await queue.saveSweep(entry(["A", "B", "C"]), swept(["A", "B", "C"]));
  await queue.settle([{ id: `${SWEEP}-s0`, result: "recorded" }, { id: `${SWEEP}-s1`, result: "retired" }]);
  await queue.undoSweep(entry(["A", "B", "C"]), { at: clock, ...OLGA });
  assert.deepEqual((await queue.waiting()).map(({ id, undone }) => undone || id), [`${SWEEP}-s2`, [0, 2]]);
  await queue.settle([{ id: `${SWEEP}-s2`, result: "recorded" }, { id: `${SWEEP}-u0`, result: "undone" }]);
  assert.deepEqual(await states(), { [SWEEP]: "undoing" });
  await queue.settle([{ id: `${SWEEP}-u2`, result: "undone" }]);
  assert.deepEqual([await states(), await queue.waiting()], [{ [SWEEP]: "undone" }, []]);
});

test("the undo of a sweep is one item, whose scans are answered in parts", async () => {
  const codes = Array.from({ length: 250 }, (_, no) => `CODE-${no}`);
  await queue.saveSweep(entry(codes), swept(codes));
  await queue.settle(codes.map((_, no) => ({ id: `${SWEEP}-s${no}`, result: "recorded" })));
  await queue.undoSweep(entry(codes), { at: clock, ...OLGA });
  const [item] = await queue.waiting();
  assert.equal(queue.sizeOf(item), 250);
  const undone = (from, to) => codes.slice(from, to).map((_, no) => ({ id: `${SWEEP}-u${from + no}`, result: "undone" }));
  await queue.settle(undone(0, 100));
  await queue.settle(undone(0, 100)); // the answer came twice
  assert.deepEqual((await queue.waiting()).map((one) => [queue.sizeOf(one), one.undone[0]]), [[150, 100]]);
  await queue.settle([...undone(100, 249), { id: `${SWEEP}-u249`, result: "whose" }]);
  assert.deepEqual((await queue.waiting()).map(({ undone, held }) => [undone, held]), [[[249], { whose: true }]]);
  await queue.claim(OTTO);
  await queue.settle([{ id: `${SWEEP}-u249`, result: "undone" }]);
  assert.deepEqual([await states(), await queue.waiting()], [{ [SWEEP]: "undone" }, []]);
});

test("the tag of a rack in a sweep moves no other tag", async () => {
  await queue.saveSweep(entry(["A", "RACK", "B"]), swept(["A", "RACK", "B"]));
  await queue.settle([{ id: `${SWEEP}-s0`, result: "recorded" }, { id: `${SWEEP}-s1`, result: "location", location: GATE }]);
  assert.deepEqual(await places(), [[`${SWEEP}-s2`, "Dock 1"]]);
});

test("a sweep after an unknown label follows it", async () => {
  await scan("label");
  await queue.saveSweep(entry(["A"]), swept(["A"]));
  await queue.settle([{ id: "label", result: "location", location: GATE }]);
  assert.deepEqual([await places(), (await queue.recent(1))[0].locationName], [[[`${SWEEP}-s0`, "Gate 7"]], "Gate 7"]);
});
