// Changes of the current scan location: by a known label, by choice, by an unknown label, or when the device passes to another
// person, who does not continue the location, carrier mode and stock-take of the one before.

import * as carrier from "./carrier.js";
import { signal } from "./feedback.js";
import * as locations from "./locations.js";
import { newId } from "./catch.js";
import * as queue from "./queue.js";
import { closeSheet } from "./sheets.js";
import { say, showLocation, showResult } from "./show.js";
import { flush, link } from "./sync.js";
import { inScope, setAside, take } from "./take.js";
import { t } from "./texts.js";
import { redraw, shown } from "./view.js";

/** `made`: when it was chosen, if not now. */
export async function chooseLocation(location, id = newId(), made = undefined) {
  if (take && !inScope(location.id)) {
    signal("refused");
    const detail = t("Not part of the stock-take at {location}. Sign it off or pause it first", { location: take.name });
    return showResult({ outcome: "refused", thing: location.name, detail, state: "" });
  }
  await locations.choose(location, id, made);
  closeSheet();
  showLocation(locations.choice);
  signal("location");
  shown.id = "";
  showResult({ outcome: "location", thing: location.name, detail: t("Now scan the assets here"), state: "" });
  await redraw();
}

/** An unknown label ends the previous location, since later scans would be saved at the wrong one. */
export async function loseLocation(code) {
  await locations.becomeUnclear(code, newId());
  showLocation(locations.choice);
  signal("unclear");
  shown.id = "";
  const detail = t("{code} is not a known location. Scans wait until you choose one", { code });
  showResult({ outcome: "unclear", thing: t("Location unclear"), detail, state: "" });
  await redraw();
}

/** If it may be a part of a location's label, later scans must not be saved at the location before. */
export async function refusePart(code) {
  if (locations.choice.location && locations.isPartOfLabel(code)) {
    await locations.becomeUnclear("", newId());
    showLocation(locations.choice);
  }
  signal("refused");
  showResult({ outcome: "refused", thing: code, detail: t("Incomplete code. Scan it again"), state: "" });
}

/**
 * A code names a location and an asset. Until somebody says which one is meant, it waits like a scan of the asset, and so does
 * what is scanned after it: `question` is { scan, code, location, asset, before }, `before` the location until now.
 */
export async function askWhich(scan, code, location, asset) {
  const { id, name } = locations.choice.location;
  const named = (one) => ({ id: one.id, name: one.name });
  const question = { scan, code, location: named(location), asset: named(asset), before: { id, name } };
  await locations.becomeUnclear("", newId(), question);
  showLocation(locations.choice);
}

/**
 * A code that was sent as a thing turned out to be a location's label: from now on it is scanned there. If the check does not
 * cover it, the location stays, under a new choice: what was scanned before this was shown waits for an answer.
 */
export async function followLabel(entries) {
  for (const entry of entries) {
    if (!entry || entry.choice !== locations.choice.id) continue;
    const { id, key, name } = entry.location;
    if (take && !inScope(id)) await locations.choose(locations.choice.location, newId());
    const { at, era, session, person, organization } = entry;
    await chooseLocation(locations.byId(id) || { id, key, name, area: null }, entry.id, { at, era, session, person, organization });
  }
}

/** Whether a label was scanned that the server may know by now. */
export function awaitsLabel() {
  return Boolean(locations.choice.label) || link.held.some(({ held }) => held.label && !held.location);
}

export async function refreshLocations() {
  if (!(await locations.refresh())) return;
  const { location, label, id } = locations.choice;
  if (location && !locations.byId(location.id)) {
    await locations.becomeUnclear(location.name, newId()); // it was retired
    showLocation(locations.choice);
  }
  const known = label && locations.find(label);
  if (known) await chooseLocation(known, id);
  await releaseKnown();
}

/** Assign scans to a label that has since become known: the page showed no other location. */
async function releaseKnown() {
  const labels = new Map(link.held.filter(({ held }) => held.label && !held.location).map((item) => [item.choice, item.held.label]));
  for (const [choice, label] of labels) {
    const location = locations.find(label);
    if (location) await place(choice, location);
  }
}

/** Somebody, or a label that became known, has said where the held scans of a choice were made. */
export async function place(choice, location, label = "") {
  if (label) await queue.drop(label); // the code meant the location, not the asset
  await queue.release(choice, location);
  if (choice === locations.choice.id && !locations.choice.location) await chooseLocation(location, choice);
  closeSheet();
  say(t("Saved at {location}", { location: location.name }));
  await redraw();
  flush();
}

export async function takeBackHeld(choice) {
  await queue.discard(choice);
  closeSheet();
  await redraw();
  flush();
}

let owner = null; // the person who chose them

export async function loadOwner() {
  owner = (await queue.load("owner")) || (link.me && link.me.person) || null;
}

/** Pass the device to `person`. */
export async function passTo({ person }) {
  if (person === owner) return;
  const isFirst = owner === null;
  owner = person;
  await queue.save("owner", owner);
  if (isFirst || !(locations.choice.location || locations.choice.label || carrier.loading || take)) return;
  await locations.choose(null, newId());
  await carrier.setLoading(null);
  if (take) await setAside();
  closeSheet();
  shown.id = "";
  showLocation(locations.choice);
  say(t("Another person is signed in: choose the location again"));
  await redraw();
}
