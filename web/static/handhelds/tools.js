// Modules of sheets. They are loaded after the page accepts scans, to not delay the first scan.

export { attachButtons } from "./attach.js";
export { toggleCamera } from "./camera.js";
export { openCheck, showLines } from "./check.js";
export { openHeld, openLocations, openWhose } from "./choose.js";
export { find, openFind } from "./find.js";
export { openJobs } from "./jobs.js";
export { openList, showList } from "./list.js";
export { openTest, showRaw, showTested } from "./test.js";
