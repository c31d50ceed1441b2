// Test the scanner: shows each key and text as it arrives, and how it is interpreted. Nothing is recorded.

import { TEST_CODE, current, forget, fromTest, learn } from "./profile.js";
import { anchor, button, fill, message, openSheet, part } from "./sheets.js";
import { t } from "./texts.js";

const NEXT_CODE = 400; // ms without a key: what follows is another code
let last = 0;

export function openTest() {
  const raw = document.createElement("div");
  raw.id = "raw";
  raw.setAttribute("aria-live", "polite");
  const profile = document.createElement("div");
  profile.id = "profile";
  openSheet("test", t("Test my scanner"),
    message(t("Scan anything. Nothing is recorded here. Each key is shown as it arrives.")), profile, raw);
  showProfile();
}

function showProfile() {
  const { prefix, suffix, layout } = current();
  const learnt = [
    prefix && t("prefix “{text}” is removed", { text: prefix }),
    suffix && t("suffix “{text}” is removed", { text: suffix }),
    layout === "us" && t("keys are read as a US keyboard"),
  ].filter(Boolean);
  const lines = learnt.length
    ? [message(t("Learned for this scanner: {list}.", { list: learnt.join(", ") })), button(t("Forget"), () => { forget(); showProfile(); })]
    : [message(t("If the text differs from the printed code, scan the test code. This device then learns what the scanner adds or changes.")),
      anchor("/scan/test-code", t("Show the test code"))];
  fill(document.getElementById("profile"), lines);
}

/** `isText`: what arrived is part of the code, not a key that ends it. */
export function showRaw(name, isText) {
  const raw = document.getElementById("raw");
  if (!raw || name === "Shift") return;
  const now = performance.now();
  let row = raw.firstElementChild;
  if (!row || now - last > NEXT_CODE) {
    row = part("raw", "", "p");
    raw.prepend(row);
  }
  row.append(part("", name, isText ? "span" : "kbd"));
  last = now;
}

export function showTested(code, { typed, byKey }) {
  const raw = document.getElementById("raw");
  const learnt = fromTest(typed, byKey);
  if (learnt) {
    learn(learnt);
    showProfile();
  }
  const row = part("taken", t("Read as: {code}", { code: learnt ? TEST_CODE : code }), "p");
  if (raw.firstElementChild) raw.firstElementChild.after(row);
  else raw.prepend(row);
  last = 0;
}
