// The drivers of sleds behind one interface: the simulated one, and the one whose reads the server has.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { empty } from "./database.mjs";
import "./page.mjs";

globalThis.fetch = async () => { throw new Error("no connection"); };

const locations = await import("../../../web/static/handhelds/locations.js");
const queue = await import("../../../web/static/handhelds/queue.js");
const { connector } = await import("../../../web/static/handhelds/sled-connector.js");
const { simulated } = await import("../../../web/static/handhelds/sled-simulated.js");

const EPCS = ["30AA00000000000000000001", "30AA00000000000000000002", "30AA00000000000000000003"];
const DOCK = { id: 4, name: "Dock" };

/** Timers that run when they are told to. */
function timers() {
  let waiting = [];
  return {
    setTimeout(task, after, ...given) { waiting.push({ task: () => task(...given), after }); return waiting.length; },
    clearTimeout() { waiting = []; },
    async run(times = 1000) {
      let passed = 0;
      while (waiting.length && times > 0) {
        const { task, after } = waiting.shift();
        [passed, times] = [passed + after, times - 1];
        await task();
        await new Promise(setImmediate);
      }
      return passed;
    },
  };
}

beforeEach(() => empty());

for (const driver of [simulated(), connector()]) {
  test("every driver has the five functions of the interface", () => {
    for (const name of ["connect", "onRead", "start", "stop", "power"]) assert.equal(typeof driver[name], "function");
  });
}

test("a simulated sled reads each tag once, as fast as its power", async () => {
  for (const [percent, expected] of [[100, 60], [50, 120]]) {
    const [time, reads] = [timers(), []];
    const sled = simulated({ codes: () => EPCS, timers: time });
    sled.onRead((read) => reads.push(read));
    await sled.connect();
    assert.equal(sled.power(percent), percent);
    sled.start();
    assert.equal(await time.run(), expected);
    assert.deepEqual(reads.map(({ code }) => code), EPCS);
  }
});

test("a simulated sled comes nearer to what is looked for, until it is stopped", async () => {
  const [time, reads] = [timers(), []];
  const sled = simulated({ timers: time });
  sled.onRead((read) => reads.push(read));
  sled.start({ id: 1, name: "Box", epcs: [EPCS[1]] });
  await time.run(100);
  assert.ok(reads.every(({ code }) => code === EPCS[1]));
  assert.ok(reads.at(-1).rssi > reads[0].rssi);
  sled.stop();
  assert.equal(await time.run(), 0);
});

test("the server is told each choice of a location once, with its time and its person", async () => {
  const made = { at: 1000, era: "e", session: "s", person: 7, organization: 9 };
  await locations.choose(DOCK, "choice-1", made);
  await connector().connect();
  await locations.choose(null, "choice-2", { ...made, at: 2000 });
  await locations.becomeUnclear("NO-SUCH-LABEL", "choice-3");
  await new Promise((resolve) => { setTimeout(resolve, 20); });
  const told = (await queue.waiting()).filter(({ act }) => act === "location");
  assert.deepEqual(told.map(({ choice, locationId, at }) => [choice, locationId, choice === "choice-3" ? 0 : at]),
    [["choice-1", 4, 1000], ["choice-2", null, 2000], ["choice-3", null, 0]]);
  assert.deepEqual([told[0].person, told[0].session], [7, "s"]);
});

test("while an asset is looked for, the signal is asked for, and each read is passed on once", async () => {
  const answers = [null, { rssi: -60, at: 1 }, { rssi: -60, at: 1 }, { rssi: -45, at: 2 }];
  const [time, reads, asked] = [timers(), [], []];
  const exchange = async (path) => { asked.push(path); return answers.shift(); };
  const sled = connector({ exchange, timers: time });
  sled.onRead((read) => reads.push(read));
  sled.start({ id: 17, name: "Box", epcs: EPCS });
  await new Promise(setImmediate);
  await time.run(3);
  sled.stop();
  await time.run();
  assert.deepEqual(reads, [{ asset: 17, rssi: -60 }, { asset: 17, rssi: -45 }]);
  assert.ok(asked.length <= 5 && asked.every((path) => path === "/scan/near/17"));
});

test("a sled that fails does not keep back the others", async () => {
  Object.assign(globalThis, { location: { hash: "", origin: "https://box.example" } });
  const { startAll, stopAll, use } = await import("../../../web/static/handhelds/sleds.js");
  const did = [];
  const sled = { connect: async () => {}, onRead() {}, start: () => did.push("start"), stop: () => did.push("stop") };
  await use({ ...sled, start() { throw new Error("the battery is empty"); } });
  await use(sled);
  const { setTimeout } = globalThis;
  globalThis.setTimeout = () => 0; // which would hide the message
  startAll();
  globalThis.setTimeout = setTimeout;
  stopAll();
  assert.deepEqual(did, ["start", "stop", "stop"]);
  assert.equal(document.getElementById("said").textContent, "the battery is empty");
});
