// A page that stays open for days. It loads all its modules at once, because after an upgrade the server has only those of
// another release. While nobody uses it, it makes room for the page of the new release.

import { sheet } from "./sheets.js";
import { link } from "./sync.js";

const UNUSED_FOR = 5 * 60 * 1000; // ms
const LATER = ["./attach.js", "./camera.js", "./leave.js", "./lists.js", "./sled-connector.js", "./test.js"];
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
