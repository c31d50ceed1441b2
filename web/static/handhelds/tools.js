// Modules of sheets. They are loaded after the page accepts scans, to not delay the first scan.

import { later } from "./sheets.js";
import * as sweep from "./sweep.js";

export { onRefused } from "./about.js";
export { openCheck, openSwept, showLines } from "./check.js";
export { openHeld, openLocations, openWhose } from "./choose.js";
export { find, openFind } from "./find.js";
export { openJobs } from "./jobs.js";
export { openList, showList } from "./list.js";
export { loadAll, renew } from "./release.js";
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
