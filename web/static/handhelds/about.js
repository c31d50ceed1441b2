// A note, a photo or a label of one asset. All of it is stored on the device first and sent later.

import { newId } from "./catch.js";
import { stamp } from "./clock.js";
import { signal } from "./feedback.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { button, closeSheet, message, openSheet, part } from "./sheets.js";
import { say } from "./show.js";
import { flush, recount } from "./sync.js";
import { signedIn } from "./session.js";
import { t } from "./texts.js";
import { redraw } from "./view.js";

const LONGEST = 1280; // pixels of a photo, as on the server
const QUALITY = 0.8;
const MOST = 30; // photos and labels that wait; scans must find room beside them
const MOST_LETTERS = 1000;

export function openAbout({ id, name }) {
  const field = document.createElement("textarea");
  [field.id, field.rows, field.maxLength] = ["note-text", 3, MOST_LETTERS];
  const label = part("", t("Note"), "label");
  label.htmlFor = field.id;
  const camera = document.createElement("input");
  [camera.type, camera.accept, camera.id, camera.hidden] = ["file", "image/*", "photo-file", true];
  camera.setAttribute("capture", "environment");
  camera.addEventListener("change", () => addPhoto(id, name, camera).catch(fails));
  openSheet("about", name,
    button(t("Take a photo"), () => camera.click(), "button wide"), camera,
    button(t("Print its label"), () => addLabel(id, name).catch(fails), "button wide"),
    label, field,
    button(t("Save the note"), () => addNote(id, field).catch(fails), "button wide"),
    message(t("They are kept on this device until they are sent.")));
}

/** Show and sound at once that nothing was saved. */
function fails(error) {
  signal("refused");
  const before = document.getElementById("not-saved");
  if (before) before.remove();
  const text = message(t("Not saved. This device cannot store it: {reason}", { reason: error.message }));
  text.id = "not-saved";
  text.setAttribute("role", "alert");
  document.getElementById("sheet-body").prepend(text);
}

async function addNote(asset, field) {
  const text = field.value.trim();
  if (!text || !signedIn()) return;
  await queue.add({ id: newId(), act: "note", asset, text, ...stamp() });
  field.value = "";
  closeSheet();
  say(t("Note saved"));
  flush();
}

async function addLabel(asset, name) {
  const { location } = locations.choice;
  await keep({ kind: "label", asset, name, locationId: location ? location.id : null });
  closeSheet();
  say(t("The label is printed on the nearest printer"));
}

async function addPhoto(asset, name, camera) {
  const [file] = camera.files;
  if (!file) return;
  camera.value = ""; // the same file again is another photo
  let photo;
  try {
    photo = await reduced(file);
  } catch {
    return say(t("This is not a photo"));
  }
  await keep({ kind: "photo", asset, name, photo });
  closeSheet();
  say(t("Photo saved"));
}

async function keep(parcel) {
  if (!signedIn()) throw new Error(t("Sign in again"));
  if ((await queue.parcels()).length >= MOST) throw new Error(t("{count} are waiting. Connect first", { count: MOST }));
  await queue.addParcel({ id: newId(), ...stamp(), ...parcel });
  await recount();
  flush();
}

/** A JPEG of the picture, at most LONGEST pixels long. Drawing it drops where and with what it was taken. */
async function reduced(file) {
  const image = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST / Math.max(image.width, image.height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)));
  const pen = canvas.getContext("2d");
  pen.fillStyle = "white";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0, canvas.width, canvas.height);
  image.close();
  const blob = await new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", QUALITY); });
  return new Response(blob).arrayBuffer(); // as bytes: not every browser stores a blob, and one that is full may wait
}

/** The server refused it: the person hears it now and finds it in the list later. */
export async function onRefused(parcel) {
  const { kind, name = "", reason } = parcel;
  const known = kind === "photo" ? t("Photo of {asset}", { asset: name }) : t("Label of {asset}", { asset: name });
  await queue.refuseParcel(parcel, known, reason);
  signal("refused");
  await redraw();
  say(kind === "photo" ? t("Photo of {asset} refused: {reason}", { asset: name, reason }) : t("Label not printed: {reason}", { reason }));
}
