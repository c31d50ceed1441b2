// Modules of sheets. They are loaded after the page accepts scans, to not delay the first scan; all of them, because the page
// may stay open for days, and after an upgrade the server has only those of another release. While nobody uses it, it makes
// room for the page of the new release.

import { later, sheet } from "./sheets.js";
import * as sweep from "./sweep.js";
import { link } from "./sync.js";

export { onRefused } from "./about.js";
export { openCheck, openSwept, showLines } from "./check.js";
export { openHeld, openLocations, openWhose } from "./choose.js";
export { find, openFind } from "./find.js";
export { openJobs } from "./jobs.js";
export { openList, showList } from "./list.js";
export { connectSled, divert, stopAll } from "./sleds.js";
export { sweep };

export const attachButtons = async (...given) => (await later("./attach.js")).attachButtons(...given);
export const guard = async () => (await later("./leave.js")).guardExits();
export const openExpected = async () => (await later("./lists.js")).openList();
export const openTest = async () => (await later("./test.js")).openTest();
export const showGroups = async (...given) => (await later("./lists.js")).showGroups(...given);
export const showRaw = async (...given) => (await later("./test.js")).showRaw(...given);
export const showTested = async (...given) => (await later("./test.js")).showTested(...given);
export const toggleCamera = async () => (await later("./camera.js")).toggleCamera();

const UNUSED_FOR = 5 * 60 * 1000; // ms
const LATER = ["./alerts.js", "./attach.js", "./camera.js", "./leave.js", "./lists.js", "./sled-connector.js", "./test.js"];
const [, OWN] = /\/static\/([^/]+)\//.exec(import.meta.url);

let usedAt = performance.now();
for (const kind of ["pointerdown", "keydown", "input"]) addEventListener(kind, () => { usedAt = performance.now(); }, true);

export async function loadAll() {
  await Promise.all(LATER.map((name) => import(name)));
  document.body.dataset.whole = "1";
}

/** Load the page of the server's release. Scans, location and lists are kept on the device. */
export function renew(isBusy) {
  const isNewer = link.state === "ok" && link.me && link.me.version && link.me.version !== OWN;
  if (isNewer && !isBusy && !sheet.name && performance.now() - usedAt > UNUSED_FOR) location.reload();
}
