// The question before a stock-take or an expected list is signed off: what other devices may still hold.

import { ago } from "../times.js";
import { siteNow } from "./clock.js";
import { button, message, openSheet, part, sheet } from "./sheets.js";
import { link, mayHold } from "./sync.js";
import { t, tn } from "./texts.js";
import { redraw } from "./view.js";

export const CALM = 1000; // ms: a tap so soon after the button changed was not meant for it
export const ASK_AGAIN = 3000; // ms
const PATIENCE = 4000; // ms

/** Fetch the state of other devices, which `asks` them to stop. Returns false without a connection or after a timeout. */
export async function isCaughtUp(catchUp, asks = false) {
  if (link.state !== "ok") return false;
  const late = new Promise((resolve) => { setTimeout(resolve, PATIENCE, false); });
  const asked = catchUp(asks).then(() => true, (error) => {
    if (!error.state) throw error;
    return false;
  });
  return Promise.race([asked, late]);
}

let asking = 0;
let shown = {}; // what the question was drawn from

/**
 * Ask before signing off, and again as long as the question is open: the other devices stop only as long as they are asked.
 * `job`: { title, catchUp, isOpen(), devices(), content() }. The content of the sheet is { parts, key, isPartial, sign(devices) }; its
 * `key` changes with the result. `on`: the sheet that is open until then. Returns whether the question is still the one on the screen.
 */
export async function askToSignOff(job, on) {
  clearTimeout(asking);
  const isCurrent = await isCaughtUp(job.catchUp, true);
  if (on !== "sign-off") await redraw();
  if (!job.isOpen() || sheet.name !== on) return false;
  clearTimeout(asking);
  asking = setTimeout(askToSignOff, ASK_AGAIN, job, "sign-off");
  const devices = await job.devices();
  const { parts, key, isPartial, sign } = await job.content();
  const now = { isSafe: isCurrent && !devices.some(mayHold), key };
  if (sheet.name !== on) return false;
  if (on === "sign-off" && shown.isSafe === now.isSafe && (!now.isSafe || shown.key === key)) return true;
  shown = now;
  const values = { person: link.me ? link.me.name : "" };
  const text = now.isSafe && !isPartial ? t("Sign off as {person}", values) : t("Sign off anyway as {person}", values);
  const press = async () => (!now.isSafe || (await askToSignOff(job, "sign-off"))) && sign(devices);
  openSheet("sign-off", job.title, ...parts, ...devicesPart(devices, isCurrent), button(text, press, "button wide", CALM / 2));
  return false;
}

function devicesPart(devices, isCurrent) {
  const stale = isCurrent ? [] : [message(t("No connection. Other devices may have unsent scans."))];
  if (!devices.length) return stale;
  const list = part("moves", "", "ul");
  list.id = "other-devices";
  list.append(...devices.map((one) => part("", deviceText(one), "li")));
  const warning = message(`${t("They are asked to stop scanning, and answer within 15 seconds.")} ${t("Unsent scans of other devices are missing here. First check that those devices show “All saved”.")}`);
  return [part("choices-head", t("Other devices"), "h3"), list, ...stale, ...(devices.some(mayHold) ? [warning] : [])];
}

function deviceText(one) {
  const values = { device: one.name, ago: ago(one.reported, siteNow()) };
  if (one.unsent) return tn("{device}: {count} unsent scan, last contact: {ago}", "{device}: {count} unsent scans, last contact: {ago}", one.unsent, values);
  if (mayHold(one)) return t("{device}: may have unsent scans, last contact: {ago}", values);
  return t("{device}: everything sent", values);
}
