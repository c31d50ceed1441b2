// Times of scans in a world of its own: a site's clock, a device whose clock anybody sets, whose count stops while it sleeps, and
// whose page is loaded again and again. Whatever happens, the order holds, and what two answers enclose has its time.

import assert from "node:assert/strict";
import { test } from "node:test";

import { empty } from "./database.mjs";
import { reload } from "./page.mjs";
import * as queue from "../../../web/static/handhelds/queue.js";

const [SECOND, MINUTE, HOUR, YEAR] = [1000, 60000, 3600000, 365 * 86400000];
const LONGEST = 400; // ms of an exchange
const NEAR = 2 * LONGEST + SECOND; // and the drift that the device allows for
const STEPS = 60;

const world = { now: 0, skew: 0, count: 0, load: 0 };
Object.defineProperty(globalThis, "performance", { value: { now: () => world.count, get timeOrigin() { return world.load; } } });
Date.now = () => world.now + world.skew;

/** Numbers from 0 to 1, the same for the same seed. */
function chance(seed) {
  let state = seed * 2654435761 + 1;
  return () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
}

/** A device in the world. Each scan notes when it was made, and how often the device slept, was set and was answered until then. */
class Device {
  constructor(random) {
    Object.assign(this, { random, scans: [], waiting: [], slept: 0, set: 0, answers: [] });
    Object.assign(world, { now: 1.8e12, skew: 0, count: 0, load: 1 });
  }

  pass(ms) { [world.now, world.count] = [world.now + ms, world.count + ms]; }

  async load() {
    [world.load, world.count] = [world.load + 1, 0];
    this.clock = await reload("clock.js");
    await this.clock.load();
  }

  sleep() {
    world.now += Math.round(this.random() * 2 * HOUR) + 3 * SECOND;
    this.slept += 1;
  }

  setClock() {
    const steps = [10 * MINUTE, -10 * MINUTE, HOUR, -HOUR, 3 * YEAR, -3 * YEAR, -world.skew];
    world.skew += steps[Math.floor(this.random() * steps.length)];
    this.set += 1;
  }

  scan() {
    this.pass(50 + Math.round(this.random() * 20 * SECOND));
    const { load, count: tick } = world;
    const one = { id: String(this.scans.length), no: this.scans.length + 1, ...this.clock.stamp({}), made: world.now, load, tick, slept: this.slept, set: this.set };
    this.scans.push(one);
    this.waiting.push(one);
  }

  exchange(isAnswered = true) {
    const asked = this.clock.reading();
    this.pass(Math.round(this.random() * LONGEST / 2));
    const { now } = world;
    this.pass(Math.round(this.random() * LONGEST / 2));
    if (!isAnswered) return now;
    this.clock.note(asked, this.clock.reading(), now);
    this.answers.push({ load: world.load, tick: world.count, slept: this.slept, set: this.set });
    return now;
  }

  /** As `sync.js` does it. The server keeps what it received first, and takes nothing for later than its receipt. */
  async send(isAnswered) {
    if (!this.waiting.length) return;
    if (!this.clock.isKnown()) this.exchange();
    const times = this.clock.siteTimes(this.waiting);
    await this.clock.noteSent(this.waiting, times);
    const received = this.exchange(isAnswered);
    for (const one of this.waiting) one.recorded = one.recorded || Math.min(times.get(one.id), received);
    if (isAnswered) this.waiting = [];
  }

  /** Whether answers of the same page enclose the scan, and the device did not sleep between them. */
  isEnclosed({ load, tick, slept }) {
    const own = this.answers.filter((one) => one.load === load && one.slept === slept);
    return own.some((one) => one.tick < tick) && own.some((one) => one.tick >= tick);
  }
}

async function newDevice(seed) {
  await queue.load("clock"); // after what the device before still stores
  empty();
  return new Device(chance(seed));
}

async function live(seed, acts) {
  const device = await newDevice(seed);
  const { random } = device;
  await device.load();
  device.exchange();
  for (let n = 0; n < STEPS; n += 1) {
    const act = acts[Math.floor(random() * acts.length)];
    if (act === "send") await device.send(random() < 0.7);
    else if (act === "exchange") device.exchange();
    else if (act === "load") await device.load();
    else device[act]();
  }
  device.scan();
  await device.send(true);
  return device;
}

const ALL = ["scan", "scan", "scan", "scan", "sleep", "setClock", "load", "exchange", "send"];

test("whatever is done to the clock, scans keep their order, and those between two answers their time", async () => {
  let enclosed = 0;
  for (let seed = 1; seed <= 60; seed += 1) {
    const device = await live(seed, ALL);
    for (const [n, one] of device.scans.entries()) {
      const about = `seed ${seed}, scan ${one.id}`;
      if (n) assert.ok(one.recorded >= device.scans[n - 1].recorded, `order: ${about}`);
      if (!device.isEnclosed(one)) continue;
      enclosed += 1;
      assert.ok(Math.abs(one.recorded - one.made) < NEAR, `${one.recorded - one.made} ms off: ${about}`);
    }
  }
  assert.ok(enclosed > 200, `${enclosed} scans`);
});

test("a device that only sleeps and loads its page has the time of each scan", async () => {
  for (let seed = 1; seed <= 40; seed += 1) {
    const device = await live(seed, ALL.filter((act) => act !== "setClock"));
    for (const one of device.scans) assert.ok(Math.abs(one.recorded - one.made) < NEAR, `${one.recorded - one.made} ms off: seed ${seed}, scan ${one.id}`);
  }
});

for (const [name, before, after] of [["10 minutes slow, put right", -10 * MINUTE, 0], ["3 years back, put right", -3 * YEAR, 0], ["put 10 minutes ahead", 0, 10 * MINUTE]]) {
  test(`a clock ${name}: the next scans have their time, also with a lost answer and another load`, async () => {
    const device = await newDevice(1);
    world.skew = before;
    await device.load();
    device.exchange();
    world.skew = after;
    device.scan();
    await device.send(false);
    await device.load();
    for (let n = 0; n < 3; n += 1) device.scan();
    device.pass(HOUR);
    await device.send(true);
    device.scan();
    await device.send(true);
    for (const one of device.scans) assert.ok(Math.abs(one.recorded - one.made) < NEAR, `${one.recorded - one.made} ms off: scan ${one.id}`);
  });
}
