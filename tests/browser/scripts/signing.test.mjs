// The question before a sign-off: the other devices stop only as long as they are asked, so it asks until it is closed.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import "./database.mjs";
import "./page.mjs";

class Element {
  constructor() {
    Object.assign(this, { children: [], dataset: {}, listeners: {}, textContent: "", classList: { toggle() {}, add() {} } });
  }

  append(...added) { this.children.push(...added); }

  prepend() {}

  replaceChildren(...all) { this.children = all; }

  setAttribute() {}

  focus() {}

  showModal() { this.open = true; }

  addEventListener(name, listener) { this.listeners[name] = listener; }

  get text() { return [this.textContent, ...this.children.map(({ text }) => text)].join(" ").trim(); }
}

const elements = new Map();
document.createElement = () => new Element();
document.getElementById = (id) => (id === "texts" ? null : elements.get(id) || elements.set(id, new Element()).get(id));

const { sheet } = await import("../../../web/static/handhelds/sheets.js");
const { link } = await import("../../../web/static/handhelds/sync.js");
const { askToSignOff } = await import("../../../web/static/handhelds/signing.js");

const sent = { name: "otto", unsent: 0, isOpen: false, reported: 0 };
let asked;
let signed;
let devices;
let key;

const job = {
  title: "Sign off?",
  catchUp: async (asks) => { asked.push(asks); return true; },
  isOpen: () => true,
  devices: async () => devices,
  content: async () => { const of = key; return { parts: [], key, sign: () => signed.push(of) }; },
};

const lines = () => document.getElementById("sheet-body").children;
const press = () => lines().at(-1).listeners.click();
const isSafe = () => lines().at(-1).text.startsWith("Sign off as");

async function next(timers) {
  timers.tick(3000);
  for (let turn = 0; turn < 50; turn += 1) await null;
}

beforeEach(() => {
  [asked, signed, devices, key] = [[], [], [sent], "before"];
  Object.assign(link, { state: "ok", me: { name: "olga" } });
  sheet.name = "sign-off";
  document.getElementById("sheet-body").replaceChildren();
});

test("it asks the others again after they have stopped, until the question is closed", async ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  await askToSignOff(job, "sign-off");
  assert.equal(isSafe(), true);
  await next(mock.timers);
  await next(mock.timers);
  assert.deepEqual(asked, [true, true, true]);
  sheet.name = "";
  await next(mock.timers);
  await next(mock.timers);
  assert.equal(asked.length, 4, "the last one found it closed");
});

test("a device that scans again takes the offer back, and so does a lost connection", async ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  await askToSignOff(job, "sign-off");
  devices = [{ ...sent, isOpen: true }];
  await next(mock.timers);
  assert.equal(isSafe(), false);
  devices = [sent];
  await next(mock.timers);
  assert.equal(isSafe(), true);
  link.state = "offline";
  await next(mock.timers);
  assert.equal(isSafe(), false);
  assert.match(document.getElementById("sheet-body").text, /No connection/);
});

test("a result that changed since it was drawn is shown, and not signed off", async ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  await askToSignOff(job, "sign-off");
  key = "after"; // the device slept; another one scanned meanwhile and stopped again
  await press();
  assert.deepEqual([signed, isSafe()], [[], true]);
  await press();
  assert.deepEqual(signed, ["after"]);
});

test("what may be incomplete is signed off as it is on the screen", async ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  devices = [{ ...sent, isOpen: true }];
  await askToSignOff(job, "sign-off");
  key = "after";
  await next(mock.timers);
  await press();
  assert.deepEqual(signed, ["before"]);
});
