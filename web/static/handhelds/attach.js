// Attach an unmatched tag to an existing or new asset; for editors.

import { askFor, button, choice, closeSheet, fill, message, openSheet, sheet } from "./sheets.js";
import { ask, post } from "./sync.js";
import { t } from "./texts.js";

/** The two buttons under an unmatched tag; `onDone` gets the server's answer. */
export function attachButtons(entry, onDone) {
  return [
    button(t("Assign …"), () => openAttach(entry, onDone), "button"),
    button(t("New asset"), () => openCreate(entry, onDone), "button"),
  ];
}

function openAttach(entry, onDone) {
  const list = document.createElement("div");
  const search = async (text) => {
    fill(list, [message(t("Searching …"))]);
    try {
      const { assets } = await ask(`/scan/find?q=${encodeURIComponent(text)}`);
      const choices = assets.map((one) =>
        choice(one.name, [one.key, one.location].filter(Boolean).join(" · "), () => attach(entry, { asset: one.id }, onDone)));
      fill(list, choices.length ? choices : [message(t("No matches."))]);
    } catch (error) {
      if (!error.state) throw error;
      fill(list, [message(error.message)]);
    }
  };
  openSheet("attach", t("Which asset is {code}?", { code: entry.code }), askFor(t("Name or key"), "", t("Search"), search), list);
  sheet.onCode = (code) => {
    if (code !== entry.code) search(code); // a sled goes on to read the unmatched tag
    return true;
  };
  document.getElementById("asked").focus();
}

function openCreate(entry, onDone) {
  const name = t("Asset {code}", { code: entry.code.slice(-8) });
  const form = askFor(t("Name"), name, t("Save"), (text) => attach(entry, { name: text }, onDone));
  openSheet("attach", t("New asset with {code}", { code: entry.code }), form);
}

async function attach(entry, what, onDone) {
  try {
    const { result } = await post("/scan/attach", { id: entry.id, ...what });
    closeSheet();
    onDone(result);
  } catch (error) {
    if (!error.state) throw error;
    document.getElementById("sheet-body").append(message(error.message));
  }
}
