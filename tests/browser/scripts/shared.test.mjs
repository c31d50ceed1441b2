// An expected list that several devices work on: what each reports, and how one that signs off stops the others.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { empty } from "./database.mjs";
import { reload } from "./page.mjs";

const queue = await import("../../../web/static/handhelds/queue.js");
const { link } = await import("../../../web/static/handhelds/sync.js");
const LIST = { id: 7, name: "Truck 12", location: 1, missing: [11, 12], ticked: [], surplus: [], wrong: [], since: 0 };

let sent;
let state; // the server's answer
let expected;
let onAnswer;

globalThis.fetch = async (path, { body }) => {
  sent.push(JSON.parse(body).holds);
  return { status: state ? 200 : 404, ok: Boolean(state), headers: { get: () => null }, text: async () => { onAnswer(); return JSON.stringify(state || {}); } };
};

beforeEach(async () => {
  empty();
  onAnswer = () => {};
  [sent, state] = [[], { ...LIST, is_signed: false, is_asked: false, devices: [["other", "otto", true, 0, null, 5]] }];
  Object.assign(link, { state: "ok", me: { csrf: "x", organization: 9, person: 1 } });
  await queue.save("list", LIST);
  expected = await reload("expected.js");
  await expected.load();
});

const scan = (id, more) => queue.add({ id, code: `BC-${id}`, locationId: 1, at: Date.now(), ...more });
const held = () => sent.map((holds) => holds.map(({ list, is_open, unsent }) => [list, is_open, unsent]));

test("a device reports the scans and undos of a list that wait on it, and nothing else", async () => {
  await scan("one", { list: 7 });
  await scan("two", { list: 7 });
  await scan("other", {});
  await queue.addAll([{ id: "undo", undo: "one", list: 7, at: Date.now() }, { id: "start", act: "start_list", list: 7, at: Date.now() }]);
  assert.equal(await expected.catchUp(), true);
  assert.deepEqual(held(), [[[7, true, 3]]]);
  assert.deepEqual((await expected.otherDevices()).map(({ name, isOpen }) => [name, isOpen]), [["otto", true]]);
  await expected.leave();
  await scan("three", { list: 7 });
  const { holdings } = await import("../../../web/static/handhelds/sync.js");
  assert.deepEqual((await holdings(await queue.waiting())).holds.map(({ is_open, unsent }) => [is_open, unsent]), [[false, 4]]);
});

test("a device that is asked to stop says so, and scans again only after the server knows", async () => {
  state.is_asked = true;
  await expected.catchUp();
  assert.deepEqual([held(), expected.isStopped()], [[[[7, true, 0]], [[7, false, 0]]], true]);
  [sent, state.is_asked] = [[], false];
  await expected.catchUp();
  assert.deepEqual([held(), expected.isStopped()], [[[[7, false, 0]], [[7, true, 0]]], false]);
});

test("a list that is left while the answer is stored stays left", async () => {
  state.is_asked = true;
  const before = expected.list;
  onAnswer = async () => {
    for (let turn = 0; turn < 100 && expected.list === before; turn += 1) await null;
    await expected.leave();
  };
  assert.equal(await expected.catchUp(), true);
  assert.equal(expected.list, null);
});

test("the counts include the surplus of which the server sends no lines", async () => {
  Object.assign(state, { surplus: [{ id: 13, name: "Box", key: "B", other: "" }], surplus_count: 700 });
  await expected.catchUp();
  const groups = expected.groupsOf([]);
  assert.deepEqual(["surplus", "wrong", "missing"].map((name) => expected.countOf(groups, name)), [700, 0, 2]);
});

test("an open sweep goes on, since what it reads is counted", async () => {
  await queue.save("sweeping", { id: "sweep" });
  state.is_asked = true;
  await expected.catchUp();
  assert.equal(expected.isStopped(), false);
});

test("a list that was signed off or deleted has ended", async () => {
  state.is_signed = true;
  assert.equal(await expected.catchUp(), false);
  assert.equal(expected.list, null);
  await queue.save("list", LIST);
  await expected.load();
  state = null;
  assert.equal(await expected.catchUp(), false);
});

test("a list at a door without a location counts no scans, so none are waited for", async () => {
  await queue.save("list", { ...LIST, location: null });
  await expected.load();
  state.location = null;
  await expected.catchUp();
  assert.deepEqual(held(), [[[7, false, 0]]]);
});
