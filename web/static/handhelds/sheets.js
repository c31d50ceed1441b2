// What opens over the page: one sheet at a time. The Back button of the device closes it, and never leaves the page
// while there is no connection, because on plain http there would be no way back.

import { t } from "./texts.js";
import { link } from "./sync.js";

const $ = (id) => document.getElementById(id);
const LEAVE_WITHIN = 3000; // ms: Back pressed a second time within it leaves the page

/** The open sheet; `onCode(code)` is true if what was scanned is meant for it. */
export const sheet = { name: "", onCode: null };
let backAt = -Infinity;

export function openSheet(name, title, ...content) {
  [sheet.name, sheet.onCode] = [name, null];
  $("sheet-title").textContent = title;
  fill($("sheet-body"), content);
  const box = $("sheet");
  if (!box.open) box.showModal();
  box.append($("catcher")); // a modal sheet takes the focus from all that is not in it
  box.scrollTop = 0;
  $("catcher").focus({ preventScroll: true }); // not the field: the phone's keyboard would cover half of the screen
}

/** What a scanner inserts must not be lost: the catcher has the focus again before anything else can happen. */
export function closeSheet() {
  if ($("sheet").open) {
    $("strip").prepend($("catcher")); // closing gives the focus back to what had it before, unless that is hidden
    $("sheet").close();
    $("catcher").focus({ preventScroll: true });
  }
  [sheet.name, sheet.onCode] = ["", null];
}

/** Make Back leave the page only on purpose. Called once, with what to say when Back is pressed and nothing is open. */
export function guardBack(say) {
  $("sheet").addEventListener("cancel", (event) => {
    event.preventDefault();
    closeSheet();
  });
  $("sheet").addEventListener("close", () => { // a browser may close it without asking; another one may be open by now
    if ($("sheet").open || !sheet.name) return;
    [sheet.name, sheet.onCode] = ["", null];
    $("strip").prepend($("catcher"));
    $("catcher").focus({ preventScroll: true });
  });
  $("sheet-close").addEventListener("click", closeSheet);
  const stay = () => history.state === "scan" || history.pushState("scan", "");
  // Browsers skip what a page added before anybody touched it, so it is added at the first touch.
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, stay, { once: true, capture: true });
  addEventListener("popstate", () => onBack(say, stay));
}

function onBack(say, stay) {
  if (history.state === "scan") return; // forward again
  const menu = $("menu");
  if ($("sheet").open || menu.open) {
    closeSheet();
    menu.open = false;
    stay();
  } else if (link.state === "ok" && performance.now() - backAt < LEAVE_WITHIN) {
    history.back();
  } else {
    backAt = performance.now();
    say(link.state === "ok" ? t("Press Back again to leave this page") : t("No connection: this page stays open"));
    stay();
  }
}

export function fill(element, content) {
  element.textContent = "";
  element.append(...content);
}

const drawn = new WeakMap(); // element -> its lines by key

/**
 * Draw lines of `[key, shown, make]`: what `make` returned for a key stays as long as `shown` is equal, and only what differs is
 * touched, however many lines there are.
 */
export function drawLines(element, lines) {
  const before = drawn.get(element) || new Map();
  const after = new Map();
  for (const [key, shown, make] of lines) {
    const text = JSON.stringify(shown);
    const old = before.get(key);
    after.set(key, old && old.text === text ? old : { text, line: make() });
  }
  for (const [key, old] of before) if (after.get(key) !== old) old.line.remove();
  let next = element.firstElementChild;
  for (const { line } of after.values()) {
    if (line === next) next = next.nextElementSibling;
    else element.insertBefore(line, next);
  }
  drawn.set(element, after);
}

const MOST = 200; // lines shown of a group

/** Draw groups of lines that open and close, without empty ones. `line(group, one)` is a line for `drawLines`. */
export function drawGroups(element, id, titles, closed, groups, line, number = (name) => groups[name].length) {
  const names = Object.keys(titles).filter((name) => groups[name].length);
  drawLines(element, names.map((name) => [name, "", () => {
    const section = part("take-group", "", "details");
    section.open = name !== closed;
    section.id = `${id}-${name}`;
    section.append(part("", "", "summary"), part("log-list", "", "ol"));
    return section;
  }]));
  names.forEach((name, at) => {
    const [summary, list] = element.children[at].children;
    summary.textContent = `${titles[name]}: ${number(name)}`;
    drawLines(list, groups[name].slice(0, MOST).map((one) => line(name, one)));
  });
}

export function part(name, text, tag = "span") {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.textContent = text;
  return element;
}

export function message(text) {
  return part("quiet", text, "p");
}

/**
 * A button. A second tap does nothing while the first one is worked on. `calm`: ms in which it takes no tap, because a tap so
 * soon was meant for what was there before.
 */
export function button(text, onPress, className = "button plain", calm = 0) {
  const element = part(className, text, "button");
  let isBusy = false;
  element.type = "button";
  if (calm) {
    element.disabled = true;
    setTimeout(() => { element.disabled = false; }, calm);
  }
  element.addEventListener("click", async (event) => {
    if (isBusy) return;
    isBusy = true;
    try {
      await onPress(event);
    } finally {
      isBusy = false;
    }
  });
  return element;
}

/** One option of several: its name, and below it what distinguishes it. */
export function choice(name, detail, onPress) {
  const element = button("", onPress, "choice-button");
  element.append(part("", name, "b"), part("", detail));
  return element;
}

export function anchor(href, text) {
  const element = part("button plain", text, "a");
  element.href = href;
  return element;
}

/** A field with its button; `onText` receives what was typed or scanned. */
export function askFor(label, value, buttonText, onText) {
  const form = document.createElement("form");
  form.className = "ask";
  const field = document.createElement("input");
  field.id = "asked";
  field.value = value;
  field.autocomplete = "off";
  field.enterKeyHint = "go";
  const name = part("", label, "label");
  name.htmlFor = "asked";
  const go = button(buttonText, () => {}, "button");
  go.type = "submit";
  form.append(name, field, go);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) onText(field.value.trim());
  });
  return form;
}

/** A module of a sheet, which may not be loaded yet. Without a connection an error with a `state`. */
export const later = (name) => import(name).catch((error) => { throw Object.assign(error, { state: "offline" }); });
