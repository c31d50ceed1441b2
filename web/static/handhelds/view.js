// What is drawn again when something changed: the large result, the log, the count, the lists that are open.

import { loading } from "./carrier.js";
import { countOf } from "./count.js";
import { signal } from "./feedback.js";
import * as queue from "./queue.js";
import { signedIn } from "./session.js";
import { fill } from "./sheets.js";
import { $, resultOf, showCount, showLog, showLoading, showResult, showTake } from "./show.js";
import { link } from "./sync.js";
import { groupsOf, take } from "./take.js";

const UNDOABLE = ["queued", "recorded", "again", "unknown", "unclear", "counted"];

export const shown = { id: "" }; // the scan in the large result

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
  showTake(take, take && groupsOf(log));
  showLoading(loading);
  await later.drawSheet(log);
  $("undo").disabled = !log.find(isUndoable);
}

export function isUndoable(entry) {
  const by = signedIn();
  return Boolean(by) && entry.person === by.person && UNDOABLE.includes(entry.state);
}
