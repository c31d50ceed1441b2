// What a hardware scanner sends, whichever way it does: keys, text inserted at once by an input method, or a paste.
// Keys are caught anywhere on the page, text by a field that holds the focus while nobody else needs it and that
// opens no keyboard. A code ends with Enter, Tab, CR, LF, or with a pause.

import { cleaned } from "./codes.js";
import { bare, learn, usCharacter } from "./profile.js";

const PAUSE = 300; // ms without a key: a scanner that sends no Enter has ended; a slow handheld may hang that long
const LONG_PAUSE = 1500; // once it is known that the scanner does send one: a busy page must not cut a code in two
const REST = 200; // ms after a code: some scanners end it with two keys
const SHORTEST = 4; // of a code that only a pause ended: less is a person who hit a key
const GROUP = "\u001d"; // divides the parts of a GS1 code; keyboards send it as Ctrl+]

let typed = ""; // in the system's layout
let byKey = ""; // in the US layout
let inserted = ""; // by the field
let timer = 0;
let endedAt = -Infinity;
let pause = PAUSE;
let take = () => {};
let showRaw = () => {};

export function listen(catcher, onCode, onRaw) {
  take = onCode;
  showRaw = onRaw;
  document.addEventListener("keydown", onKey, true);
  // The key that ended a code must not press the button that happens to have the focus.
  document.addEventListener("keyup", (event) => {
    if (typed && event.key === " " && !isField(event.target)) event.preventDefault();
  }, true);
  document.addEventListener("paste", onPaste, true);
  catcher.addEventListener("input", () => onInserted(catcher));
  catcher.addEventListener("compositionend", () => onInserted(catcher));
  keepFocus(catcher);
}

function onKey(event) {
  if (isField(event.target)) return;
  const isGroup = event.ctrlKey && (event.key === "]" || event.code === "BracketRight");
  if (event.metaKey || (event.ctrlKey && !event.altKey && !isGroup)) return;
  if (event.key === "Enter" || event.key === "Tab" || event.key === "\r" || event.key === "\n") {
    onEndKey(event);
  } else if (isGroup) {
    event.preventDefault();
    add(GROUP, GROUP, "GS", false);
  } else if (event.key.length === 1) {
    if (event.key === " " && !typed) return; // a person: Space presses the focused button
    event.preventDefault();
    add(event.key, usCharacter(event) || event.key, event.key, true);
  } else if (event.key === "Dead") { // an accent key of the system's layout, which waits for a letter
    event.preventDefault();
    add("\u00b4", usCharacter(event), "Dead", false);
  } // anything else is no text, or comes as text to the field ("Unidentified", "Process")
}

function onEndKey(event) {
  if (!typed && !inserted) { // a person: Enter presses the focused button, Tab goes on; unless it is the LF after a CR
    if (performance.now() - endedAt < REST) event.preventDefault();
    return;
  }
  event.preventDefault();
  showRaw(event.key, false);
  pause = LONG_PAUSE;
  end(false);
}

function add(character, usual, shown, isText) {
  showRaw(shown, isText);
  typed += character;
  byKey += usual;
  wait();
}

function onInserted(catcher) {
  const lines = catcher.value.split(/[\r\n\t]+/);
  if (catcher.value === inserted) return;
  showRaw(catcher.value.slice(inserted.length) || catcher.value, true);
  inserted = lines.pop();
  for (const line of lines) finish(line, "", false);
  if (lines.length) {
    pause = LONG_PAUSE;
    catcher.value = inserted;
  }
  wait();
}

function onPaste(event) {
  if (isField(event.target)) return;
  event.preventDefault();
  const text = event.clipboardData.getData("text");
  showRaw(text, true);
  for (const line of text.split(/[\r\n\t]+/)) finish(line, "", false);
}

function wait() {
  clearTimeout(timer);
  timer = setTimeout(end, pause, true);
}

function end(byPause) {
  clearTimeout(timer);
  const [text, usual] = [typed + inserted, inserted ? "" : byKey];
  typed = byKey = inserted = "";
  const catcher = document.getElementById("catcher");
  if (catcher.value) catcher.value = "";
  endedAt = performance.now();
  finish(text, usual, byPause);
}

function finish(text, usual, byPause) {
  if (byPause && text.length < SHORTEST) return;
  // A link that only makes sense as typed on a US keyboard proves that the scanner types for one.
  if (usual !== text && /^https?:\/\//i.test(cleaned(usual)) && !/^https?:\/\//i.test(cleaned(text))) learn({ layout: "us" });
  const code = cleaned(bare(text, usual));
  if (code) take(code, { typed: text, byKey: usual });
}

/** The field has the focus whenever no other control needs it: after a tap, after a sheet, when the page is back. */
function keepFocus(catcher) {
  const again = () => {
    const active = document.activeElement;
    if (!document.hidden && (!active || active === document.body || active.tagName === "DIALOG")) {
      catcher.focus({ preventScroll: true });
    }
  };
  document.addEventListener("focusout", () => setTimeout(again, 0));
  document.addEventListener("visibilitychange", again);
  addEventListener("focus", again);
  again();
}

function isField(target) {
  return target instanceof HTMLElement && target.id !== "catcher"
    && Boolean(target.closest("input, textarea, select, [contenteditable]"));
}
