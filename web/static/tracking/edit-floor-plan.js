// Drawing locations on a floor plan, by mouse, finger or keys. A shape is a list of corners in thousandths of the plan.

import { t } from "../handhelds/texts.js";
import { bounds, handles, history, isWithin, moved, resized, rotated } from "./shapes.js";

const plan = document.getElementById("plan");
const [spot, kind, save, undraw, detail] = ["spot", "kind", "save", "undraw", "detail"].map((id) => document.getElementById(id));
const [undo, redo, turn, copy, paste] = ["undo", "redo", "turn", "copy", "paste"].map((id) => document.getElementById(id));
const SVG = "http://www.w3.org/2000/svg";
const { width, height } = plan.viewBox.baseVal;
const CLOSE = 24; // pixels from the first corner, about half a fingertip: the shape is complete
const SMALLEST = 8;
const TURN = 15; // degrees
const STEP = 5; // thousandths that an arrow key moves
const HANDLE = 20; // pixels around a handle

const shapes = new Map(Object.entries(JSON.parse(plan.dataset.shapes)));
const names = new Map([...spot.options].map((option) => [option.value, option.text.trim()]));
let start = null; // of the rectangle being dragged
let corners = []; // of the shape being drawn by taps
let grip = null; // what is being dragged: the shape as it was, where it was taken, and the number of the handle
let copied = null;
const steps = history();
if (shapes.size) kind.value = "move";

function at(event) {
  const box = plan.getBoundingClientRect();
  const within = (value) => Math.round(Math.min(Math.max(value, 0), 1) * 1000);
  return [within((event.clientX - box.left) / box.width), within((event.clientY - box.top) / box.height)];
}

function pixels([x1, y1], [x2, y2]) {
  const box = plan.getBoundingClientRect();
  return Math.hypot(((x2 - x1) * box.width) / 1000, ((y2 - y1) * box.height) / 1000);
}

function between([x1, y1], [x2, y2]) {
  return [[x1, y1], [x2, y1], [x2, y2], [x1, y2]];
}

function draw(pending = null) {
  for (const old of plan.querySelectorAll("g")) old.remove();
  for (const [id, points] of shapes) plan.append(shape(points, names.get(id) ?? "", id === spot.value ? "found" : ""));
  if (pending?.length) plan.append(shape(pending, "", "pending"));
  const chosen = kind.value === "move" && shapes.get(spot.value);
  if (chosen) plan.append(dots(handles(chosen)));
  plan.classList.toggle("moving", kind.value === "move");
  for (const button of [undraw, turn, copy]) button.disabled = !shapes.has(spot.value);
  [undo.disabled, redo.disabled, paste.disabled] = [!steps.hasPast, !steps.hasFuture, !copied];
}

function dots(points) {
  const group = document.createElementNS(SVG, "g");
  group.setAttribute("class", "spot handles");
  for (const [x, y] of points) {
    const dot = document.createElementNS(SVG, "circle");
    dot.setAttribute("cx", (x * width) / 1000);
    dot.setAttribute("cy", (y * height) / 1000);
    dot.setAttribute("r", Math.max(width / 100, (8 * width) / plan.getBoundingClientRect().width));
    group.append(dot);
  }
  return group;
}

/** The name of the chosen location, for a message. */
function named() {
  return { name: names.get(spot.value) };
}

function state() {
  return [...shapes];
}

function restore(old, text) {
  if (!old) return;
  shapes.clear();
  for (const [id, points] of old) shapes.set(id, points);
  corners = [];
  changed(text);
}

/** Change the shape of the chosen location. Keys that are held down are one step. */
function change(points, text, isRepeat = false) {
  if (!isRepeat) steps.keep(state());
  shapes.set(spot.value, points);
  changed(text);
}

function shape(points, name, state) {
  const group = document.createElementNS(SVG, "g");
  group.setAttribute("class", `spot ${state}`);
  group.setAttribute("font-size", width / 64);
  const outline = document.createElementNS(SVG, "polygon");
  outline.setAttribute("points", points.map(([x, y]) => `${(x * width) / 1000},${(y * height) / 1000}`).join(" "));
  const label = document.createElementNS(SVG, "text");
  const middle = (index) => (Math.min(...points.map((one) => one[index])) + Math.max(...points.map((one) => one[index]))) / 2000;
  label.setAttribute("x", middle(0) * width);
  label.setAttribute("y", middle(1) * height);
  label.textContent = name;
  group.append(outline, label);
  for (const [x, y] of state === "pending" ? points : []) {
    const corner = document.createElementNS(SVG, "circle");
    corner.setAttribute("cx", (x * width) / 1000);
    corner.setAttribute("cy", (y * height) / 1000);
    corner.setAttribute("r", width / 120);
    group.append(corner);
  }
  return group;
}

function keep(points) {
  corners = [];
  change(points, t("{name} is drawn. Save when all are.", named()));
}

/** What lies under a point: a handle of the chosen shape, else the smallest shape. */
function take(point) {
  const chosen = shapes.get(spot.value);
  const handle = chosen ? handles(chosen).findIndex((one) => pixels(one, point) < HANDLE) : -1;
  if (handle >= 0) return { before: chosen, from: point, handle };
  const area = (points) => { const box = bounds(points); return (box.right - box.left) * (box.bottom - box.top); };
  const under = [...shapes].filter(([, points]) => isWithin(points, point)).sort((one, other) => area(one[1]) - area(other[1]));
  const [id, before] = under.find(([one]) => one === spot.value) ?? under[0] ?? [];
  if (!id) return null;
  spot.value = id;
  return { before, from: point, handle: -1 };
}

function dragged({ before, from, handle }, to) {
  return handle >= 0 ? resized(before, handle, to) : moved(before, to[0] - from[0], to[1] - from[1]);
}

function changed(text) {
  save.disabled = false;
  detail.textContent = text;
  draw();
}

plan.addEventListener("pointerdown", (event) => {
  if (event.button || !event.isPrimary) return; // other fingers draw nothing
  event.preventDefault();
  plan.setPointerCapture(event.pointerId);
  plan.focus({ preventScroll: true });
  if (kind.value === "move") {
    grip = take(at(event));
    draw();
  } else {
    start = at(event);
  }
});

plan.addEventListener("pointermove", (event) => {
  if (grip && event.isPrimary) {
    shapes.set(spot.value, dragged(grip, at(event)));
    draw();
  }
  if (start && event.isPrimary && kind.value === "rectangle") draw(between(start, at(event)));
});

plan.addEventListener("pointercancel", () => {
  if (grip) shapes.set(spot.value, grip.before);
  [start, grip] = [null, null];
  draw(corners);
});

plan.addEventListener("pointerup", (event) => {
  if (grip && event.isPrimary) {
    const after = dragged(grip, at(event));
    const isSame = String(after) === String(grip.before);
    shapes.set(spot.value, grip.before);
    grip = null;
    if (isSame) draw();
    else change(after, t("{name} is changed.", named()));
    return;
  }
  if (!start || !event.isPrimary) return;
  const [from, to] = [start, at(event)];
  start = null;
  if (kind.value === "rectangle") {
    const isLarge = Math.abs(to[0] - from[0]) >= SMALLEST && Math.abs(to[1] - from[1]) >= SMALLEST;
    if (isLarge) keep(between(from, to));
    else draw();
    return;
  }
  const isClosed = corners.length > 2 && pixels(corners[0], to) < CLOSE;
  if (isClosed) return keep(corners);
  corners.push(to);
  detail.textContent = corners.length < 3 ? t("Tap the next corner.") : t("Tap the next corner, or the first one to end.");
  draw(corners);
});

for (const field of [spot, kind]) field.addEventListener("change", () => { corners = []; draw(); });

function takeOff() {
  corners = [];
  if (!shapes.has(spot.value)) return;
  steps.keep(state());
  shapes.delete(spot.value);
  changed(t("{name} is off the plan.", named()));
}

function rotate(degrees, isRepeat) {
  const present = shapes.get(spot.value);
  if (present) change(rotated(present, degrees, width / height), t("{name} is turned.", named()), isRepeat);
}

function copyShape() {
  copied = shapes.get(spot.value) ?? copied;
  if (copied) detail.textContent = t("Copied. Choose another location, then Paste.");
  draw();
}

function pasteShape() {
  if (!copied) return;
  kind.value = "move";
  change(shapes.has(spot.value) ? copied : moved(copied, 4 * STEP, 4 * STEP), t("{name} is drawn. Move it to its place.", named()));
}

const undoStep = () => restore(steps.undo(state()), t("Undone."));
const redoStep = () => restore(steps.redo(state()), t("Redone."));

undraw.addEventListener("click", takeOff);
turn.addEventListener("click", () => rotate(TURN));
copy.addEventListener("click", copyShape);
paste.addEventListener("click", pasteShape);
undo.addEventListener("click", undoStep);
redo.addEventListener("click", redoStep);

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

plan.addEventListener("keydown", (event) => {
  const present = shapes.get(spot.value);
  const arrow = ARROWS[event.key];
  if (event.ctrlKey || event.metaKey) {
    const act = { z: event.shiftKey ? redoStep : undoStep, y: redoStep, c: copyShape, v: pasteShape }[event.key.toLowerCase()];
    if (!act) return;
    act();
  } else if (arrow && present) {
    const [dx, dy] = arrow.map((one) => one * STEP);
    const [, , [right, bottom]] = handles(present);
    const after = event.shiftKey ? resized(present, 2, [right + dx, bottom + dy]) : moved(present, dx, dy);
    change(after, event.shiftKey ? t("{name} is resized.", named()) : t("{name} is moved.", named()), event.repeat);
  } else if (event.key === "r" || event.key === "R") {
    rotate(event.shiftKey ? -TURN : TURN, event.repeat);
  } else if (event.key === "Delete") {
    takeOff();
  } else {
    return;
  }
  event.preventDefault();
});

save.addEventListener("click", async () => {
  save.disabled = true;
  const drawn = [...shapes].map(([id, points]) => ({ location_id: id, points }));
  const answer = await fetch(plan.dataset.save, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRF-Token": plan.dataset.csrf },
    body: JSON.stringify({ shapes: drawn, updated_at: plan.dataset.updated }),
  }).catch(() => null);
  const body = await answer?.json().catch(() => null);
  if (answer?.ok) {
    plan.dataset.updated = body.updated_at;
    detail.textContent = t("Saved.");
  } else {
    save.disabled = false;
    detail.textContent = body?.error ?? t("Not saved: no connection. Try again.");
  }
});

addEventListener("beforeunload", (event) => { if (!save.disabled) event.preventDefault(); });
draw();
