// On every page: times in the time zone of the site, copy buttons, menus, suggestions in fields.

import { keepTimesCurrent } from "./times.js";
import { followLive } from "./live.js";
import { t } from "./handhelds/texts.js";
import { openBranches } from "./records/tree.js";
import "./find.js";

keepTimesCurrent();
followLive();
openBranches();
forgetNotice();
offerCompactRows();
leadToFault();
if (document.querySelector("[data-kept-scans]")) import("./kept-scans.js");

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) await copy(button);
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// A scanner types into whatever has the focus. When no field has it, the text goes to the field that expects a code, and
// the Enter after a code moves to the next field instead of submitting a form that is not filled in yet.
document.addEventListener("keydown", (event) => {
  const awaiting = document.querySelector("[data-scan]");
  if (!awaiting || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches("select")) return takeFromList(event, awaiting);
  if (event.key.length === 1 && event.key !== " " && !event.target.closest("input, select, textarea")) awaiting.focus();
  if (event.key === "Enter" && event.target === awaiting && awaiting.dataset.scan === "stay") {
    event.preventDefault();
    const fields = [...awaiting.form.elements].filter((one) => one.matches("input:not([type=hidden])"));
    fields[fields.indexOf(awaiting) + 1].focus();
  }
});

// The link that enrols a device is a QR code on another screen. A scanner types it into whatever field of the sign-in page
// has the focus; it must open, not be sent as an email address or a badge.
document.addEventListener("input", (event) => {
  const link = /\/enrol\/([\w-]{43})$/i.exec(event.target.value);
  if (!link || !event.target.closest(".door")) return;
  event.target.value = "";
  document.addEventListener("submit", (sent) => sent.preventDefault(), true); // the Enter after it
  location.assign(`/enrol/${link[1]}`);
});

// What a scanner sends to the field of a PIN, faster than a person types, must not count as a wrong PIN.
const FASTEST = 50; // ms between two keys
let pin = { length: 0, began: 0, at: 0 };
document.addEventListener("input", ({ target, timeStamp }) => {
  if (target.name !== "pin") return;
  pin = { length: target.value.length, began: pin.length ? pin.began : timeStamp, at: timeStamp };
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.target.name !== "pin" || pin.length < 4) return;
  if (event.timeStamp - pin.at > FASTEST || pin.at - pin.began > FASTEST * (pin.length - 1)) return;
  event.preventDefault();
  [event.target.value, event.target.placeholder] = ["", t("This was a scan, not a PIN")];
  pin.length = 0;
});

// In a select, keys choose an entry, unless two of them arrive faster than a person types: then a scanner sent them all. A
// busy handheld delays some.
const TOO_FAST = 100; // ms between two keys
const SLOWEST = 300; // ms between two keys of a scanner
let keys = { at: -Infinity };
function takeFromList(event, awaiting) {
  if (event.key.length !== 1) return;
  const list = event.target;
  const gap = event.timeStamp - keys.at;
  keys = gap > SLOWEST ? { text: event.key, chosen: list.value } : { ...keys, text: keys.text + event.key };
  keys.at = event.timeStamp;
  if (gap > TOO_FAST) return;
  event.preventDefault();
  list.value = keys.chosen;
  awaiting.value = keys.text;
  awaiting.focus();
}

// Choosing a filter applies it: there is no extra button to press.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit-on-change]") && !event.target.closest(".sheet.open")) event.target.form.requestSubmit();
});

// On a phone, filters are in a sheet with a button of its own, since choosing two would otherwise load the page twice.
function toggleSheet(button, isOpen) {
  const sheet = document.getElementById(button.dataset.sheet);
  sheet.classList.toggle("open", isOpen);
  button.setAttribute("aria-expanded", String(isOpen));
  if (isOpen) (sheet.querySelector("select, input") || sheet.querySelector("a")).focus();
  else button.focus();
}
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-sheet]");
  const open = document.querySelector("[data-sheet][aria-expanded=true]");
  if (button) toggleSheet(button, button !== open);
  else if (open && !event.target.closest(".sheet, .side")) toggleSheet(open, false);
});
document.addEventListener("focusin", ({ target }) => { // a sheet covers what comes after it
  const open = document.querySelector("[data-sheet][aria-expanded=true]");
  if (open && !target.closest(".sheet, .side, .quick, [data-sheet]")) toggleSheet(open, false);
});
document.addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && document.querySelector("[data-sheet][aria-expanded=true]");
  if (open) toggleSheet(open, false);
});

// What hovering over a timeline or a chart shows with a mouse, a tap shows with a finger.
document.addEventListener("click", (event) => {
  const stay = event.target.closest(".strip-line g, .plot g");
  if (stay) stay.closest("figure").querySelector(".detail").textContent = stay.querySelector("title").textContent;
});

// A second click on a slow link sends nothing; the server would process the form only once, too.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post" || "download" in form.dataset) return;
  if (form.dataset.sent) return event.preventDefault();
  form.dataset.sent = "yes";
  form.setAttribute("aria-busy", "true");
});
addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-sent]")) {
    delete form.dataset.sent;
    form.removeAttribute("aria-busy");
  }
});

// A page that the browser kept as it was has the filter that was chosen last, not that of its rows. Those that are loaded
// again do not have it, since their forms say `autocomplete="off"`.
addEventListener("pageshow", (event) => {
  if (event.persisted) for (const form of document.querySelectorAll("form.filters")) form.reset();
});

// A file that the server would refuse is not sent at all.
const MOST_BYTES = 7e6;
document.addEventListener("change", (event) => {
  const [file] = event.target.type === "file" ? event.target.files : [];
  if (file) event.target.setCustomValidity(file.size > MOST_BYTES ? t("A file can have at most 7 MB. Choose a smaller one, or divide it.") : "");
});

// Labels, changes and the export are for the chosen rows; with none chosen, for everything that matches the filter.
document.addEventListener("click", (event) => {
  if (event.target.matches("[data-pick-all]")) {
    for (const box of document.querySelectorAll("input[form=labels]")) box.checked = event.target.checked;
  } else if (event.target.matches("[data-chosen]") && document.querySelector("input[form=labels]:checked")) {
    event.preventDefault();
    const form = document.getElementById("labels");
    form.action = new URL(event.target.href).pathname;
    form.requestSubmit();
  }
});

// A field for a record suggests those that match what is typed.
document.addEventListener("input", async (event) => {
  const field = event.target;
  if (!field.dataset?.suggest || event.inputType === "insertReplacementText" || !field.value.trim()) return;
  const asked = field.value;
  const answer = await fetch(`${field.dataset.suggest}?q=${encodeURIComponent(asked)}`, { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || field.value !== asked) return;
  const options = (await answer.json()).assets.map(([key, name]) => new Option(name, key));
  const list = document.getElementById(field.getAttribute("list"));
  list.textContent = "";
  list.append(...options);
});

// The picture of the first label follows the chosen code and paper.
document.addEventListener("change", async (event) => {
  const form = event.target.closest("form[data-preview]");
  if (!form) return;
  const asked = () => String(new URLSearchParams(new FormData(form)));
  const query = asked();
  const answer = await fetch(`${form.dataset.preview}?${query}`).catch(() => null);
  if (!answer?.ok || query !== asked()) return;
  const text = await answer.text();
  document.getElementById("preview").innerHTML = text;
});

// A field that filters a long list on the page.
document.addEventListener("input", (event) => {
  const list = document.getElementById(event.target.dataset?.filter);
  if (!list) return;
  const words = event.target.value.toLowerCase().split(/\s+/);
  for (const row of list.querySelectorAll("[data-filter-text]")) {
    const text = row.dataset.filterText.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of list.querySelectorAll("[data-filter-group]")) group.hidden = !group.querySelector("[data-filter-text]:not([hidden])");
  list.querySelector("[data-filter-none]").hidden = Boolean(list.querySelector("[data-filter-text]:not([hidden])"));
});

// After a form was refused, the cursor is in the first field to correct, also if it is in a part that was closed.
function leadToFault() {
  const field = document.querySelector("main [aria-invalid=true]");
  if (!field) return;
  for (let part = field.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  field.focus();
}

// A notice is shown once, and not again when the page is reloaded.
function forgetNotice() {
  const address = new URL(location.href);
  if (!address.searchParams.has("done")) return;
  address.searchParams.delete("done");
  history.replaceState(history.state, "", address);
}

// On a desktop, more rows on the screen; kept on this device only.
function offerCompactRows() {
  const button = document.querySelector("[data-rows-toggle]");
  if (!button) return;
  const show = (isCompact) => {
    document.documentElement.dataset.rows = isCompact ? "compact" : "";
    button.setAttribute("aria-pressed", String(isCompact));
  };
  show(localStorage.getItem("rows") === "compact");
  button.hidden = false;
  button.addEventListener("click", () => {
    const isCompact = button.getAttribute("aria-pressed") !== "true";
    localStorage.setItem("rows", isCompact ? "compact" : "");
    show(isCompact);
  });
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  let copied = false;
  if (navigator.clipboard) {
    copied = await navigator.clipboard.writeText(source.textContent).then(() => true, () => false);
  }
  if (!copied) copied = copyBySelection(source); // the clipboard needs https; a selection does not
  button.textContent = copied ? t("Copied") : t("Select and copy");
}

function copyBySelection(source) {
  const selection = getSelection();
  selection.selectAllChildren(source);
  return document.execCommand("copy");
}
