// What a person sees: the large result, the list of the last scans, the line about the connection.

import { ago, clockTime } from "../times.js";
import { siteNow } from "./sync.js";

export const $ = (id) => document.getElementById(id);

const WORDS = {
  recorded: "Saved",
  again: "Already scanned here",
  unknown: "Unknown tag",
  refused: "Refused",
  queued: "Stored",
  place: "Place",
  undone: "Taken back",
  undoing: "Taking back",
};
const SHAPES = { recorded: "✓", again: "=", unknown: "?", refused: "✕", queued: "↑", place: "◆", undone: "↶", undoing: "↶" };
const STATES = {
  recorded: "Saved on the server",
  again: "Saved on the server",
  unknown: "Parked in the inbox of unknown tags",
  refused: "Not saved",
  queued: "Queued on this device, it will be sent",
  undone: "The position is what it was before",
  undoing: "Queued on this device, it will be sent",
};

/** The large result. `flash`: over the whole screen for a moment, for somebody who looks from the corner of an eye. */
export function showResult({ outcome, thing, told = "", state = STATES[outcome] || "" }, flash = true) {
  $("word").textContent = WORDS[outcome] || outcome;
  $("shape").textContent = SHAPES[outcome] || "";
  $("thing").textContent = thing;
  $("told").textContent = told;
  $("state").textContent = state;
  $("acts").replaceChildren();
  const station = document.querySelector(".station");
  station.dataset.outcome = outcome;
  if (flash) {
    station.classList.remove("flash");
    void station.offsetWidth; // start the animation anew
    station.classList.add("flash");
  }
}

/** What is said about a scan of the log. */
export function facts(entry) {
  const outcome = entry.state;
  const thing = entry.asset?.name || entry.known || entry.code;
  if (outcome === "unknown") return { outcome, thing: entry.code, told: `At ${entry.placeName}` };
  if (outcome === "refused") return { outcome, thing, told: entry.reason || "" };
  if (outcome === "undone") return { outcome, thing, told: `It is no longer scanned at ${entry.placeName}` };
  if (outcome === "place") return { outcome: "refused", thing: entry.location?.name || entry.code, told: "This is a place. Scan it again to work there", state: "" };
  if (outcome === "recorded" || outcome === "again") {
    const was = !entry.was ? "Never seen before"
      : `${entry.was.name === entry.placeName ? "Was here" : `Was at ${entry.was.name}`}, ${ago(entry.was.seen_at, siteNow())}`;
    return { outcome, thing, told: was };
  }
  return { outcome, thing, told: `At ${entry.placeName}` };
}

export function showLog(entries) {
  const items = entries.slice(0, 12).map((entry) => {
    const item = document.createElement("li");
    item.dataset.outcome = entry.state;
    const said = facts(entry);
    item.append(
      part("log-shape", SHAPES[entry.state] || "·", true),
      part("log-thing", said.thing),
      part("log-told", `${WORDS[entry.state] || entry.state} · ${entry.placeName} · ${clockTime(entry.at)}`),
    );
    return item;
  });
  if (!items.length) items.push(part("empty-log", "Nothing yet.", false, "li"));
  $("log").replaceChildren(...items);
}

export function showPlace(place) {
  $("place-name").textContent = place ? place.name : "No place yet";
  $("place-hint").textContent = place?.area ? `in ${place.area} · tap to change` : place ? "tap to change" : "Scan a place's label, or tap to choose";
  $("place").classList.toggle("none", !place);
}

export function showLink({ state, waiting, me }) {
  const kept = waiting ? `${waiting} ${waiting === 1 ? "scan" : "scans"} kept here` : "";
  const line = $("link");
  line.dataset.state = waiting && state === "ok" ? "sending" : state;
  if (state === "signed-out") {
    line.replaceChildren(link("/sign-in?next=/scan", "Sign in again"), kept ? ` · ${kept}` : "");
    return;
  }
  line.textContent = {
    ok: waiting ? `Sending · ${kept}` : "All saved",
    offline: `No connection · ${kept || "scans will be kept"}`,
    trouble: `The server has a problem · ${kept || "scans will be kept"}`,
    "other-site": `${kept} for another organization: its people must sign in here`,
    unknown: "Starting …",
  }[state];
  if (!isSecureContext && state === "offline") line.textContent += ". Do not close this page";
  $("who").textContent = [me?.name, me?.device].filter(Boolean).join(" · ");
}

function link(href, text) {
  const element = document.createElement("a");
  element.href = href;
  element.textContent = text;
  return element;
}

function part(name, text, hidden = false, tag = "span") {
  const element = document.createElement(tag);
  element.className = name;
  element.textContent = text;
  if (hidden) element.setAttribute("aria-hidden", "true");
  return element;
}

export function button(text, onPress, className = "button plain") {
  const element = document.createElement("button");
  element.type = "button";
  element.className = className;
  element.textContent = text;
  element.addEventListener("click", onPress);
  return element;
}

// Sheets over the page ------------------------------------------------------------------------------------------

export const sheet = { name: "" };

export function openSheet(name, title, ...content) {
  sheet.name = name;
  $("sheet-title").textContent = title;
  $("sheet-body").replaceChildren(...content);
  if (!$("sheet").open) $("sheet").showModal();
  $("sheet-close").focus(); // not the field: the phone's keyboard would cover half of the screen
}

export function closeSheet() {
  sheet.name = "";
  if ($("sheet").open) $("sheet").close();
}

/** A field with its button; `onText` gets what was typed, or scanned into it. */
export function ask(label, value, buttonText, onText) {
  const form = document.createElement("form");
  form.className = "ask";
  const field = document.createElement("input");
  field.id = "asked";
  field.value = value;
  field.autocomplete = "off";
  field.enterKeyHint = "go";
  const name = document.createElement("label");
  name.htmlFor = "asked";
  name.textContent = label;
  const go = button(buttonText, () => {}, "button");
  go.type = "submit";
  form.append(name, field, go);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) onText(field.value.trim());
  });
  return form;
}

export function message(text) {
  return part("quiet", text, false, "p");
}
