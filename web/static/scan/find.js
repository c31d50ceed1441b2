// Find a thing, give an unknown tag to one, choose a place, test the scanner: what opens over the scan page.

import { ago, duration } from "../times.js";
import { cleaned } from "./scanner.js";
import { $, ask as askFor, button, closeSheet, message, openSheet } from "./show.js";
import { ask, post, siteNow } from "./sync.js";

// Find ----------------------------------------------------------------------------------------------------------

export function openFind() {
  const answer = document.createElement("div");
  answer.id = "answer";
  answer.setAttribute("aria-live", "polite");
  answer.append(message("Scan it, or type a tag, a key or a name. Nothing is recorded here."));
  openSheet("find", "Find", askFor("Tag, key or name", "", "Find", find), answer);
}

export async function find(text) {
  $("asked").value = "";
  const answer = $("answer");
  answer.replaceChildren(message(`Looking for ${text} …`));
  try {
    const { found, place, total } = await ask(`/scan/find?q=${encodeURIComponent(cleaned(text))}`);
    if (place) answer.replaceChildren(message(`${place.name} is a place.`), anchor(`/locations/${place.id}`, "Open it"));
    else if (!found.length) answer.replaceChildren(message(`Nothing is called ${text}, and no tag or key is.`));
    else if (found.length === 1) answer.replaceChildren(...thing(found[0]));
    else answer.replaceChildren(message(`${total} things fit`), ...found.map((one) => choice(one, () => find(one.key))));
  } catch (error) {
    answer.replaceChildren(message(`${error.message}: finding needs the server.`));
  }
}

function thing(one) {
  const name = heading(one.name);
  const place = document.createElement("p");
  place.className = "found-place";
  place.textContent = one.place || (one.seen_at ? "The place was retired" : "Never seen");
  const told = one.seen_at
    ? `${one.area ? `in ${one.area}, ` : ""}for ${duration((siteNow() - one.since) / 1000)}, last seen ${ago(one.seen_at, siteNow())}`
    : "";
  const moves = document.createElement("ol");
  moves.className = "moves";
  for (const move of one.moves.slice(1)) {
    const item = document.createElement("li");
    item.textContent = `${move.place}, ${ago(move.at, siteNow())}`;
    moves.append(item);
  }
  const parts = [name, place, message(told)];
  if (one.moves.length > 1) parts.push(message("Before that:"), moves);
  return [...parts, anchor(`/assets/${one.id}`, "Open its page")];
}

function heading(text) {
  const element = document.createElement("h3");
  element.textContent = text;
  return element;
}

function anchor(href, text) {
  const element = document.createElement("a");
  element.href = href;
  element.textContent = text;
  element.className = "button plain";
  return element;
}

function choice(one, onPress) {
  const element = button("", onPress, "choice-button");
  const name = document.createElement("b");
  name.textContent = one.name;
  const told = document.createElement("span");
  told.textContent = [one.key, one.place].filter(Boolean).join(" · ");
  element.append(name, told);
  return element;
}

// Unknown tags --------------------------------------------------------------------------------------------------

/** The two buttons under an unknown tag; `onDone` gets the server's answer. */
export function offerToAttach(entry, onDone) {
  $("acts").replaceChildren(
    button("It is …", () => openAttach(entry, onDone), "button"),
    button("New asset", () => openCreate(entry, onDone), "button"),
  );
}

function openAttach(entry, onDone) {
  const list = document.createElement("div");
  const search = async (text) => {
    list.replaceChildren(message("Looking …"));
    try {
      const { found } = await ask(`/scan/find?q=${encodeURIComponent(text)}`);
      list.replaceChildren(...found.map((one) => choice(one, () => attach(entry, { asset: one.id }, onDone))));
      if (!found.length) list.replaceChildren(message("Nothing fits."));
    } catch (error) {
      list.replaceChildren(message(error.message));
    }
  };
  openSheet("attach", `Which asset is ${entry.code}?`, askFor("Name or key", "", "Search", search), list);
  $("asked").focus();
}

function openCreate(entry, onDone) {
  const form = askFor("Its name", `Asset ${entry.code.slice(-8)}`, "Save", (name) => attach(entry, { name }, onDone));
  openSheet("attach", `New asset with ${entry.code}`, form);
}

async function attach(entry, what, onDone) {
  try {
    const { result } = await post("/scan/attach", { id: entry.id, ...what });
    closeSheet();
    onDone(result);
  } catch (error) {
    $("sheet-body").append(message(error.message));
  }
}

// Places --------------------------------------------------------------------------------------------------------

export function openPlaces(places, onChoose) {
  const list = document.createElement("div");
  const show = (text) => {
    const wanted = text.toLowerCase();
    const fitting = places.filter((place) => `${place.name} ${place.area || ""} ${place.key}`.toLowerCase().includes(wanted));
    list.replaceChildren(...fitting.slice(0, 200).map((place) =>
      choice({ name: place.name, key: place.area || place.key }, () => onChoose(place))));
    if (!fitting.length) list.replaceChildren(message(places.length ? "No place fits." : "The places are not loaded yet."));
    return fitting;
  };
  const form = askFor("Search a place", "", "Choose", (text) => {
    const fitting = show(text);
    if (fitting.length) onChoose(fitting[0]);
  });
  form.querySelector("input").addEventListener("input", (event) => show(event.target.value));
  show("");
  openSheet("places", "Where are you scanning?", form, list);
}

// Scanner test --------------------------------------------------------------------------------------------------

let last = 0;

export function openTest() {
  const told = document.createElement("div");
  told.id = "raw";
  told.setAttribute("aria-live", "polite");
  openSheet("test", "Test my scanner", message("Scan anything. Nothing is recorded here. Each key is shown as it arrives."), told);
}

export function showRaw(event) {
  if (event.key === "Shift" || !$("raw")) return;
  const now = performance.now();
  let row = $("raw").firstElementChild;
  if (!row || now - last > 400) {
    row = document.createElement("p");
    row.className = "raw";
    $("raw").prepend(row);
  }
  const key = document.createElement(event.key.length === 1 ? "span" : "kbd");
  key.textContent = event.key.length === 1 ? event.key : event.key;
  key.title = `${event.code || "no code"}, ${Math.round(now - last)} ms`;
  row.append(key);
  last = now;
}

export function showTested(code) {
  const row = document.createElement("p");
  row.className = "taken";
  row.textContent = `Taken as: ${code}`;
  $("raw").firstElementChild ? $("raw").firstElementChild.after(row) : $("raw").prepend(row);
  last = 0;
}
