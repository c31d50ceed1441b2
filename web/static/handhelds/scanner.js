// Input of a hardware scanner: keys, text inserted at once by an input method, or a paste.
// Keys are caught anywhere on the page. Text is caught by a field that has the focus when no control needs it and
// opens no keyboard. Scanner input in a field that a person uses is removed from it.

import { assembly, LONG_PAUSE } from "./assembly.js";
import { burst } from "./burst.js";
import { cleaned } from "./codes.js";
import { bare, current, learn, usCharacter } from "./profile.js";

const GROUP = "\u001d"; // divides the parts of a GS1 code; keyboards send it as Ctrl+]
const NOT_INSERTED = 30; // ms after a number: the system inserts its character at once
const ENDS = ["Enter", "Tab", "\r", "\n"];

let catcher;
let take = () => {};
let showRaw = () => {};
let isKnown = () => false;
let countOf = () => 0;
let fieldTimer = 0;
let lastKey = "";
let moment = 0; // of the last key or text, by the clock of the browser: a page that hung gets them late
let alt = ""; // digits that came while Alt was held: a scanner that types characters by their numbers
let numbered = ""; // their character, until the system inserts it or shows that it does not
let hasCapsLock = false; // at the last key
let seen = ""; // content of the catcher already passed on as codes
const typing = burst();
const codes = assembly({
  onCode: (text, usual) => finish(text, usual),
  onPart: (text, usual) => finish(text, usual, true),
  onEmpty: () => { if (seen) catcher.value = seen = ""; },
  isWhole: (text, usual) => isKnown(cleaned(bare(text, usual))),
  sendsEnter: () => current().end === "enter",
  slowest: () => current().slowest,
  learnSlowest: (slowest) => learn({ slowest }),
  learnEnter: (does) => { if (does !== (current().end === "enter")) learn({ end: does ? "enter" : "" }); },
});

export function listen(field, onCode, onRaw) {
  [catcher, take, showRaw] = [field, onCode, onRaw];
  document.addEventListener("keydown", onKey, true);
  document.addEventListener("keyup", onAltUp, true);
  // The key that ended a code must not press the button that happens to have the focus.
  document.addEventListener("keyup", (event) => {
    if (!codes.isEmpty() && event.key === " " && !isField(event.target)) event.preventDefault();
  }, true);
  addEventListener("blur", () => { [alt, numbered] = ["", ""]; }); // the end of Alt goes to another window
  document.addEventListener("paste", onPaste, true);
  document.addEventListener("beforeinput", (event) => {
    const { target, data, timeStamp, inputType } = event;
    if (!isField(target) || inputType !== "insertText" || !data) return;
    if (data.length > 1) typing.insert(target, data, timeStamp);
    else if (lastKey.length > 1) typing.key(target, data, data, timeStamp); // a key that did not say which one it is
  }, true);
  catcher.addEventListener("input", onInserted);
  catcher.addEventListener("compositionend", onInserted);
  keepFocus();
}

/** Set `test`: whether the device knows a code and no longer code with the same beginning; `count`: of the things with a code. */
export function knowBy(test, count) {
  [isKnown, countOf] = [test, count];
}

function onKey(event) {
  [lastKey, moment, hasCapsLock] = [event.key, event.timeStamp, event.getModifierState("CapsLock")];
  if (event.altKey && !event.ctrlKey && /^Numpad\d$/.test(event.code)) {
    [lastKey, alt] = ["Alt", alt + event.code[6]];
    return;
  }
  takeNumbered();
  if (isField(event.target)) return onFieldKey(event);
  const isGroup = isSeparator(event);
  if (event.metaKey || (event.ctrlKey && !event.altKey && !isGroup)) return;
  if (ENDS.includes(event.key)) {
    onEndKey(event);
  } else if (isGroup) {
    add(event, GROUP, GROUP, "GS", false);
  } else if (event.key.length === 1) {
    if (event.key === " " && codes.isEmpty()) return; // a person: Space presses the focused button
    add(event, event.key, usCharacter(event) || event.key, event.key, true);
  } else if (event.key === "Dead") { // an accent key of the system's layout, which waits for a letter
    add(event, "\u00b4", usCharacter(event), "Dead", false);
  } // anything else is no text, or comes as text to the field ("Unidentified", "Process")
}

/** FNC1: Ctrl+], or F8 within a code. */
const isSeparator = (event) => (event.ctrlKey ? event.key === "]" || event.code === "BracketRight" : event.key === "F8" && (!codes.isEmpty() || isField(event.target)));

/** The system inserts the character now, if it does so at all. */
function onAltUp(event) {
  if (event.key !== "Alt" || !alt) return;
  [numbered, alt] = [String.fromCharCode(Number(alt) % 256), ""];
  if (!isField(event.target)) setTimeout(takeNumbered, NOT_INSERTED);
  else if (numbered !== GROUP) numbered = "";
}

/** Take the character of a number, which the system has not inserted. */
function takeNumbered() {
  const character = numbered;
  numbered = "";
  if (character && isField(document.activeElement)) typing.key(document.activeElement, character, character, moment);
  else if (character) addKey(character, character, moment);
}

/** A person's Enter presses the focused button, and Tab goes on; unless it ends a code, or is the LF after a CR. */
function onEndKey(event) {
  if (!codes.isEmpty()) showRaw(event.key, false);
  if (codes.end(event.timeStamp)) event.preventDefault();
}

function add(event, character, usual, shown, isText) {
  event.preventDefault();
  showRaw(shown, isText);
  addKey(character, usual, event.timeStamp);
}

function addKey(character, usual, at) {
  codes.key(character, usual, at);
  if (seen) catcher.value = seen = ""; // what was inserted before this key is part of the code now
}

function onInserted(event) {
  const content = catcher.value;
  if (content === seen) return;
  numbered = "";
  moment = event.timeStamp;
  showRaw(content.startsWith(seen) ? content.slice(seen.length) : content, true);
  const lines = content.split(/[\r\n\t]+/);
  const rest = lines.pop();
  for (const line of lines) {
    codes.insert(line, event.timeStamp);
    codes.end(event.timeStamp);
  }
  if (lines.length) catcher.value = rest;
  seen = rest;
  codes.insert(rest, event.timeStamp);
}

function onPaste(event) {
  if (isField(event.target)) return;
  event.preventDefault();
  const text = event.clipboardData.getData("text");
  showRaw(text, true);
  for (const line of text.split(/[\r\n\t]+/)) finish(line, line);
}

/** In a field in use, input faster than a person types is a scan and is removed from the field. */
function onFieldKey(event) {
  const field = event.target;
  clearTimeout(fieldTimer);
  if (ENDS.includes(event.key)) {
    const burst = typing.ofScanner(field, event.timeStamp);
    if (!burst) return;
    event.preventDefault();
    event.stopPropagation();
    takeOut(field, burst);
  } else if (isSeparator(event)) {
    typing.key(field, GROUP, GROUP, event.timeStamp);
  } else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.isComposing) {
    typing.key(field, event.key, usCharacter(event) || event.key, event.timeStamp);
    if (typing.isGoingOn(field)) fieldTimer = setTimeout(onSilentField, LONG_PAUSE, field);
  }
}

/** For scanners that send no Enter: codes that the device knows. */
function onSilentField(field) {
  const { text, usual } = typing.soFar();
  if (isKnown(cleaned(bare(text, usual)))) takeOut(field, typing.soFar());
}

function takeOut(field, { before, text, usual }) {
  field.value = before;
  field.dispatchEvent(new Event("input", { bubbles: true })); // lists that follow the field follow it back
  finish(text, usual);
}

function finish(text, usual, isPart = false) {
  // A link that only makes sense as typed on a US keyboard proves that the scanner types for one.
  if (usual !== text && /^https?:\/\//i.test(cleaned(usual)) && !/^https?:\/\//i.test(cleaned(text))) learn({ layout: "us" });
  const typed = cleaned(bare(text, usual));
  const code = isPart ? typed : known(typed, text, usual);
  leaveButton();
  if (code) take(code, { typed: text, byKey: usual, isPart, moment, hasCapsLock });
}

/**
 * The code that the device knows: as it was typed, or as typed on a US keyboard if exactly one thing has that. Either teaches for
 * which keyboard the scanner types. The code has ended, so that longer ones do not matter.
 */
function known(code, text, usual) {
  const { layout } = current();
  const other = cleaned(bare(layout === "us" ? text : usual, ""));
  if (other === code) return code;
  const isTyped = countOf(code) > 0;
  if (!isTyped && countOf(other) !== 1) return code;
  if (layout !== "us") learn({ layout: isTyped ? "own" : "us" });
  return isTyped ? code : other;
}

/** A second end key of the code may come any time later: it must find no button to press. */
function leaveButton() {
  const active = document.activeElement;
  if (active && active !== catcher && !isField(active)) active.blur();
}

/** The catcher has the focus whenever no other control needs it: after a tap, after a sheet, when the page is back. */
function keepFocus() {
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

/** Whether a person may be typing into it; a box or a list takes no text. */
function isField(target) {
  return target instanceof HTMLElement && target.id !== "catcher"
    && Boolean(target.closest("input:not([type=checkbox]):not([type=radio]), textarea, [contenteditable]"));
}
