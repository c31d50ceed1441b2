// Choose a location from the list, or assign one to scans whose location is unclear.

import { all, find, recentFirst } from "./locations.js";
import { logItem } from "./show.js";
import { askFor, button, choice, fill, message, openSheet, part, sheet } from "./sheets.js";
import { t, tn } from "./texts.js";

export function openLocations(title, onChoose) {
  const list = document.createElement("div");
  const show = (text) => {
    const query = text.toLowerCase();
    const { last, others } = recentFirst();
    const fits = (one) => `${one.name} ${one.area || ""} ${one.key}`.toLowerCase().includes(query);
    const [recent, rest] = [last.filter(fits), others.filter(fits).slice(0, 200)];
    const button = (one) => choice(one.name, one.area || one.key, () => onChoose(one));
    fill(list, [
      ...(recent.length ? [part("choices-head", t("Recently used"), "h3"), ...recent.map(button), part("choices-head", t("All locations"), "h3")] : []),
      ...rest.map(button),
    ]);
    if (!recent.length && !rest.length) fill(list, [message(all().length ? t("No location matches.") : t("Locations are not loaded yet."))]);
    return [...recent, ...rest];
  };
  const form = askFor(t("Search for a location"), "", t("Choose"), (text) => {
    const [first] = show(text);
    if (first) onChoose(first);
  });
  form.querySelector("input").addEventListener("input", (event) => show(event.target.value));
  show("");
  openSheet("locations", title, form, list);
  sheet.onCode = (code) => {
    const match = find(code);
    if (match) onChoose(match);
    return Boolean(match);
  };
}

/**
 * The scans that wait for a location, by the label they were made under. `onPlaced(choice, location)` is called when somebody
 * assigns a location, with the id of a scan if that was the location's label, `onDiscard(choice)` when the scans are not
 * needed.
 */
export function openHeld(held, onPlaced, onDiscard, title = t("Where were these scanned?")) {
  const groups = new Map();
  for (const item of held) groups.set(item.choice, [...(groups.get(item.choice) || []), item]);
  openSheet("held", title, ...[...groups].map(([id, items]) => group(id, items, onPlaced, onDiscard)));
}

/** Scans without a proven person; `onClaimed(isMine)` is called with the answer. */
export function openWhose(items, onClaimed) {
  const list = part("log-list", "", "ol");
  list.append(...items.filter(({ code }) => code !== undefined).slice(0, 50).map((item) => logItem({ ...item, state: "unclear" })));
  openSheet("whose", t("Who made these scans?"),
    message(t("Someone else was signed in before, and that session has expired. If these are not your scans, ask that person to sign in here.")), list,
    button(t("I made them"), () => onClaimed(true), "button wide"),
    button(tn("Undo {count} scan", "Undo {count} scans", items.length), () => onClaimed(false), "button plain wide"));
}

function group(id, items, onPlaced, onDiscard) {
  const { label, shown, location, retired, question } = items[0].held;
  const section = part("held-group", "", "section");
  const why = question ? t("{code} is the label of both a location and an asset. Choose one", { code: question.code }) : retired ? t("{location} was retired before these scans arrived.", { location: shown }) : location
    ? t("{label} is the label of {location}, but {shown} was shown.", { label, shown, location: location.name })
    : t("Scanned after the label {label}, which belongs to no known location.", { label });
  const list = part("log-list", "", "ol");
  list.append(...items.slice(0, 50).map((item) => logItem({ ...item, state: "unclear" })));
  const before = all().find((one) => one.name === shown);
  const candidates = [location, location && before].filter(Boolean); // the label's may be newer than the list
  section.append(
    part("", tn("{count} scan", "{count} scans", items.length), "h3"), message(why), list,
    ...(question ? answers(question, (...given) => onPlaced(id, ...given)) : []),
    ...candidates.map((one) => button(t("At {location}", { location: one.name }), () => onPlaced(id, one), "button wide")),
    ...(question ? [] : [button(t("Choose the location …"), () => openLocations(t("Where were these scanned?"), (one) => onPlaced(id, one)), "button wide")]),
    button(tn("Undo {count} scan", "Undo {count} scans", items.length), () => onDiscard(id), "button plain wide"),
  );
  return section;
}

/** If the asset is meant, nothing has changed the location. */
function answers({ scan, location, asset, before }, onPlaced) {
  return [
    choice(location.name, t("The location"), () => onPlaced(location, scan)),
    choice(asset.name, t("The asset"), () => onPlaced(before)),
  ];
}
