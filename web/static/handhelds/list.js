// What was scanned at this location since the count began, line by line.

import { choice } from "./locations.js";
import * as queue from "./queue.js";
import { logItem, resultOf } from "./show.js";
import { button, drawLines, fill, openSheet, part } from "./sheets.js";
import { t, tn } from "./texts.js";
import { beginAnew, countOf, isHere } from "./view.js";

let acts = {}; // what the buttons of a line do

/** The lines, newest first: `isUndoable(entry)`, `onUndo(entry)`, `onShow(entry)`, `onBegin()` for a new count. */
export async function openList(given) {
  acts = given;
  const head = document.createElement("div");
  head.id = "list-head";
  const list = part("log-list", "", "ol");
  list.id = "list-lines";
  openSheet("list", t("Scanned at {location}", { location: choice.location.name }), head, list);
  showList(await queue.recent(Infinity));
}

/** Fill the open list, and again whenever a response changes it. */
export function showList(log) {
  const head = document.getElementById("list-head");
  if (!head) return; // a person opened something else while the log was read
  const { total, repeats } = countOf(log);
  fill(head, [
    part("list-count", summary(total, repeats), "p"),
    button(t("Restart count"), () => { beginAnew(); acts.onBegin(); }),
  ]);
  const lines = log.filter(isHere).map((entry) => [entry.id, [entry.state, resultOf(entry), acts.isUndoable(entry)], () => row(entry)]);
  drawLines(document.getElementById("list-lines"), lines.length ? lines : [["", "", () => part("", t("Nothing yet."), "li")]]);
}

function summary(total, repeats) {
  const scans = tn("{count} scan", "{count} scans", total);
  return repeats ? `${scans}, ${tn("including {count} repeat", "including {count} repeats", repeats)}` : scans;
}

function row(entry) {
  const item = logItem(entry);
  const buttons = part("row-acts", "");
  if (entry.state === "unknown") buttons.append(button(t("Show"), () => acts.onShow(entry), "button plain slim"));
  if (acts.isUndoable(entry)) buttons.append(button(t("Undo"), () => acts.onUndo(entry), "button plain slim"));
  item.append(buttons);
  return item;
}
