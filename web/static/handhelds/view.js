// What is drawn again when something changed: the large result, the log, the count, the lists that are open.

import { loading } from "./carrier.js";
import { siteNow, siteTime } from "./clock.js";
import * as expected from "./expected.js";
import { signal } from "./feedback.js";
import { choice } from "./locations.js";
import * as queue from "./queue.js";
import { signedIn } from "./session.js";
import { fill } from "./sheets.js";
import { $, resultOf, showCount, showExpected, showLog, showLoading, showResult, showTake } from "./show.js";
import { link } from "./sync.js";
import { groupsOf, take } from "./take.js";

const COUNTED = ["queued", "recorded", "again", "unknown"];
const UNDOABLE = ["queued", "recorded", "again", "unknown", "unclear", "counted"];

export const shown = { id: "" }; // the scan in the large result

let countedSince = Number(localStorage.getItem("edge-count-since")) || 0; // when the count was restarted by hand
let later = { drawSheet: async () => {}, attachButtons: async () => [] };

/** What is loaded after the page: `drawSheet(log)` draws the open sheet, `attachButtons(entry, onDone)` makes buttons. */
export function drawWith(given) {
  later = given;
}

export async function showEntry(entry, flash) {
  if (!entry) return;
  showResult(resultOf(entry), flash);
  if (entry.state === "unknown" && link.me && link.me.may_edit) {
    const buttons = await later.attachButtons(entry, (answer) => onAttached(entry, answer));
    if (shown.id === entry.id) fill($("acts"), buttons);
  }
}

async function onAttached(entry, answer) {
  await queue.update({ ...entry, ...answer, id: entry.id, state: answer.result });
  signal(answer.result);
  await showAgain(entry.id);
}

/** A scan of the log in the large result, as it stands now. */
export async function showAgain(id) {
  shown.id = id;
  const log = await queue.recent(Infinity);
  await showEntry(log.find((entry) => entry.id === id), false);
  await redraw();
}

let drawing = null;
let drawAgain = false;
/** Many changes in one moment are drawn once. */
export function redraw() {
  drawAgain = Boolean(drawing);
  drawing = drawing || draw().finally(() => {
    drawing = null;
    if (drawAgain) return redraw();
  });
  return drawing;
}

async function draw() {
  const log = await queue.recent(Infinity);
  showLog(log);
  showCount(countOf(log));
  showTake(take, take && groupsOf(log, false)); // thousands are counted with each scan
  showExpected(expected.list, expected.list && expected.groupsOf(log, false));
  showLoading(loading);
  await later.drawSheet(log);
  $("undo").disabled = !log.find(isUndoable);
}

export function isUndoable(entry) {
  const by = signedIn();
  return Boolean(by) && entry.person === by.person && UNDOABLE.includes(entry.state);
}

/** Scans at this location in this session: `total` scans, of which `repeats` are repeats. */
export function countOf(log) {
  const here = log.filter((entry) => isHere(entry) && COUNTED.includes(entry.state));
  const things = new Set(here.flatMap((entry) => entry.codes || [entry.asset ? entry.asset.id : entry.code]));
  const total = here.reduce((sum, { codes }) => sum + (codes ? codes.length : 1), 0);
  return { total, repeats: total - things.size };
}

export function isHere(entry) {
  if (!choice.location || entry.locationId !== choice.location.id || entry.take || siteTime(entry) < countedSince) return false;
  const by = signedIn();
  return Boolean(by) && entry.session === by.session;
}

export function beginAnew() {
  countedSince = siteNow();
  localStorage.setItem("edge-count-since", String(countedSince));
}
