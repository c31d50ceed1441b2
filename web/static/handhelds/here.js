// Assets at a location, from the server or, without a connection, from the device's copy.

import { ago } from "../times.js";
import { siteNow } from "./clock.js";
import * as copy from "./copy.js";
import { asOf } from "./find.js";
import { choice, withBelow } from "./locations.js";
import { choice as choiceButton, fill, message, openSheet, part } from "./sheets.js";
import { link } from "./sync.js";
import { t, tn } from "./texts.js";

const MOST = 300; // lines shown; the number counts all

export async function openHere(onOpen) {
  const list = document.createElement("div");
  list.id = "here-list";
  const below = part("choice", "", "label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  below.append(box, t("including sub-locations"));
  const show = () => fill(list, lines(box.checked ? withBelow(choice.location.id) : new Set([choice.location.id]), onOpen));
  box.addEventListener("change", show);
  openSheet("here", t("Assets at {location}", { location: choice.location.name }), below, list);
  fill(list, [message(t("Searching …"))]);
  if (link.state === "ok") await copy.refresh(link.me).catch((error) => { if (!error.state) throw error; });
  show();
}

function lines(ids, onOpen) {
  const assets = copy.at(ids);
  const detail = (one) => [one.key, one.seen ? t("last seen {ago}", { ago: ago(one.seen * 1000, siteNow()) }) : ""].filter(Boolean).join(" · ");
  return [
    part("list-count", tn("{count} asset", "{count} assets", assets.length), "p"),
    ...assets.slice(0, MOST).map((one) => choiceButton(one.name, detail(one), () => onOpen(one))),
    ...(link.state === "ok" ? [] : [message(asOf())]),
  ];
}
