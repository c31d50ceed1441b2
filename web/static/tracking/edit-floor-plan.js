// Drawing locations on a floor plan, by mouse or finger. A shape is a list of corners in thousandths of the plan.

const plan = document.getElementById("plan");
const [spot, kind, save, undraw, detail] = ["spot", "kind", "save", "undraw", "detail"].map((id) => document.getElementById(id));
const SVG = "http://www.w3.org/2000/svg";
const { width, height } = plan.viewBox.baseVal;
const CLOSE = 24; // pixels from the first corner, about half a fingertip: the shape is complete
const SMALLEST = 8;

const shapes = new Map(Object.entries(JSON.parse(plan.dataset.shapes)));
const names = new Map([...spot.options].map((option) => [option.value, option.text.trim()]));
let start = null; // of the rectangle being dragged
let corners = []; // of the shape being drawn by taps

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
  shapes.set(spot.value, points);
  corners = [];
  changed(`${names.get(spot.value)} is drawn. Save when all are.`);
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
  start = at(event);
});

plan.addEventListener("pointermove", (event) => {
  if (start && event.isPrimary && kind.value === "rectangle") draw(between(start, at(event)));
});

plan.addEventListener("pointercancel", () => { start = null; draw(corners); });

plan.addEventListener("pointerup", (event) => {
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
  detail.textContent = corners.length < 3 ? "Tap the next corner." : "Tap the next corner, or the first one to end.";
  draw(corners);
});

for (const field of [spot, kind]) field.addEventListener("change", () => { corners = []; draw(); });

undraw.addEventListener("click", () => {
  corners = [];
  if (shapes.delete(spot.value)) changed(`${names.get(spot.value)} is off the plan.`);
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
    detail.textContent = "Saved.";
  } else {
    save.disabled = false;
    detail.textContent = body?.error ?? "Not saved: no connection. Try again.";
  }
});

addEventListener("beforeunload", (event) => { if (!save.disabled) event.preventDefault(); });
draw();
