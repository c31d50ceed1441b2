// The camera as a scanner. It reads continuously where the browser gives the page a video stream (https), otherwise it
// takes single photos. Codes are handled like those of a hardware scanner. The browser's own code reader is used if any.

import { take } from "./catch.js";
import { cleaned } from "./codes.js";
import { button, part } from "./sheets.js";
import { $, say } from "./show.js";
import { t } from "./texts.js";

const EVERY = 100; // ms between frames
const SAME = 1500; // ms: a code seen again within this time is the same scan
const WIDEST = { video: 1280, photo: 2400 }; // pixels: more is slower without reading better

let read = null; // reads the codes in a picture, once loaded
let stream = null;
let panel = null;
const inView = new Map(); // code -> when it was seen last

/** Start or stop reading. Without a video stream, take a photo. */
export async function toggleCamera() {
  if (panel) return stop();
  if (!navigator.mediaDevices || !navigator.mediaDevices.getUserMedia) return askForPhoto();
  await begin();
}

async function begin() {
  showPanel();
  try {
    const video = { facingMode: "environment", width: { ideal: WIDEST.video }, height: { ideal: 720 } };
    const [given, reader] = await Promise.all([navigator.mediaDevices.getUserMedia({ video }), loadReader()]);
    if (!panel) return given.getTracks().forEach((track) => track.stop()); // closed meanwhile
    [stream, read] = [given, reader];
  } catch (error) {
    stop();
    return say(detail(error));
  }
  const video = panel.querySelector("video");
  video.srcObject = stream;
  await video.play();
  offerLight(stream.getVideoTracks()[0]);
  panel.dataset.ready = "1";
  document.addEventListener("visibilitychange", stop, { once: true });
  look(video);
}

function detail(error) {
  if (error.name === "NotAllowedError") return t("Camera access denied. Allow it for this site in the browser settings");
  if (["NotFoundError", "NotReadableError", "OverconstrainedError"].includes(error.name)) return t("No camera is available on this device");
  return t("This browser cannot read codes from photos");
}

function stop() {
  if (stream) stream.getTracks().forEach((track) => track.stop());
  if (panel) panel.remove();
  stream = panel = null;
  inView.clear();
  $("station").classList.remove("filming");
  $("camera").setAttribute("aria-pressed", "false");
}

function showPanel() {
  panel = part("camera", "", "section");
  panel.setAttribute("aria-label", t("Camera"));
  const video = document.createElement("video");
  video.muted = video.playsInline = true;
  const acts = part("camera-acts", "");
  acts.append(button(t("Stop camera"), stop, "button slim"));
  panel.append(video, part("camera-detail", t("Hold a code in front of the camera"), "p"), acts);
  $("result").before(panel);
  $("station").classList.add("filming");
  $("camera").setAttribute("aria-pressed", "true");
}

function offerLight(track) {
  const can = track.getCapabilities ? track.getCapabilities() : {};
  if (!can.torch) return;
  let isOn = false;
  const light = button(t("Light"), async () => {
    isOn = !isOn;
    await track.applyConstraints({ advanced: [{ torch: isOn }] });
    light.setAttribute("aria-pressed", String(isOn));
  }, "button slim");
  panel.querySelector(".camera-acts").prepend(light);
}

async function look(video) {
  const own = panel;
  while (panel === own) {
    const codes = video.readyState >= 2 ? await read(video, WIDEST.video) : [];
    if (panel === own) codes.forEach(see);
    await new Promise((done) => setTimeout(done, EVERY));
  }
}

/** A code that stays in view is one scan, however often it is read. */
function see(text) {
  const now = performance.now();
  const isNew = !(now - inView.get(text) < SAME);
  inView.set(text, now);
  if (isNew) give(text);
}

const give = (text) => take(cleaned(text), { typed: text, byKey: text });

function askForPhoto() {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = "image/*";
  input.capture = "environment";
  input.addEventListener("change", async () => {
    if (input.files.length) say(await readPhoto(input.files[0]) ? "" : t("No code in the photo. Hold the camera closer and keep it still"));
  });
  input.click();
}

async function readPhoto(file) {
  say(t("Loading …"));
  read = read || await loadReader();
  const codes = await read(await createImageBitmap(file), WIDEST.photo);
  codes.forEach(give);
  return codes.length;
}

async function loadReader() {
  const native = window.BarcodeDetector && await window.BarcodeDetector.getSupportedFormats();
  if (native && native.length) {
    const detector = new window.BarcodeDetector({ formats: native });
    return async (picture) => (await detector.detect(picture)).map((result) => result.rawValue);
  }
  const { prepareZXingModule, readBarcodes } = await import("../vendor/zxing-wasm/reader/index.js");
  const locateFile = (name) => new URL(`../vendor/zxing-wasm/${name}`, import.meta.url).href;
  await prepareZXingModule({ overrides: { locateFile }, fireImmediately: true });
  return async (picture, widest) =>
    (await readBarcodes(pixels(picture, widest), { maxNumberOfSymbols: 8 })).filter((result) => result.isValid).map((result) => result.text);
}

function pixels(picture, widest) {
  const [width, height] = [picture.videoWidth || picture.width, picture.videoHeight || picture.height];
  const scale = Math.min(1, widest / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const drawing = canvas.getContext("2d", { willReadFrequently: true });
  drawing.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return drawing.getImageData(0, 0, canvas.width, canvas.height);
}
