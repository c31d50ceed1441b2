// What the scan page says of times is by the site's clock, whatever somebody does to the clock of the device.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { empty } from "./database.mjs";
import "./page.mjs";

const HOUR = 3600000;
const NOW = 1_800_000_000_000; // by the site's clock

document.cookie = "edge_who=session.5.9";
globalThis.fetch = async () => ({ status: 200, ok: true, headers: { get: () => null }, text: async () => "[]" });

const clock = await import("../../../web/static/handhelds/clock.js");
const copy = await import("../../../web/static/handhelds/copy.js");
const locations = await import("../../../web/static/handhelds/locations.js");
const view = await import("../../../web/static/handhelds/view.js");

/** The site answers. */
function answer() {
  const asked = clock.reading();
  clock.note(asked, clock.reading(), NOW + performance.now());
}

beforeEach(() => empty());

test("a count that was restarted goes on after the clock was set back", async ({ mock }) => {
  mock.timers.enable({ apis: ["Date"], now: NOW + 5 * HOUR });
  answer();
  await locations.choose({ id: 1, name: "Dock 1" }, "choice");
  const scan = () => ({ ...clock.stamp(), id: "scan", code: "BC-1", state: "recorded", locationId: 1 });
  const before = scan();
  view.beginAnew();
  assert.equal(view.countOf([scan(), before]).total, 1);
  mock.timers.setTime(NOW);
  answer();
  assert.equal(view.countOf([scan(), before]).total, 1);
});

test("the age of the copy does not follow the clock of the device", async ({ mock }) => {
  mock.timers.enable({ apis: ["Date"], now: NOW - 24 * HOUR });
  answer();
  await copy.refresh({ organization: 9 });
  assert.ok(Math.abs(copy.updatedAt - NOW) < HOUR);
});
