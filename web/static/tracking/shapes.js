// Shapes on a floor plan: lists of corners in thousandths of its width and height. Every result stays inside the plan.

const SIZE = 1000;
const SMALLEST = 8;
const MOST_STEPS = 200;

export function bounds(points) {
  const [across, down] = [0, 1].map((axis) => points.map((point) => point[axis]));
  return { left: Math.min(...across), right: Math.max(...across), top: Math.min(...down), bottom: Math.max(...down) };
}

export function moved(points, dx, dy) {
  const { left, right, top, bottom } = bounds(points);
  const x = Math.round(Math.min(Math.max(dx, -left), SIZE - right));
  const y = Math.round(Math.min(Math.max(dy, -top), SIZE - bottom));
  return points.map((point) => [point[0] + x, point[1] + y]);
}

/** The four corners of the box around a shape, in the order of `resized`. */
export function handles(points) {
  const { left, right, top, bottom } = bounds(points);
  return [[left, top], [right, top], [right, bottom], [left, bottom]];
}

/** The shape with one corner of its box dragged to a point; the opposite corner stays. */
export function resized(points, handle, to) {
  const box = handles(points);
  const [from, fixed] = [box[handle], box[(handle + 2) % 4]];
  const factors = [0, 1].map((axis) => {
    const before = from[axis] - fixed[axis];
    const wanted = Math.min(Math.max(to[axis], 0), SIZE) - fixed[axis];
    if (!before) return 1;
    return Math.max(wanted / before, SMALLEST / Math.abs(before));
  });
  const scaled = points.map((point) => point.map((value, axis) => Math.round(fixed[axis] + (value - fixed[axis]) * factors[axis])));
  return isInside(scaled) ? scaled : points;
}

/** The shape turned around its center, on a plan that is `ratio` times as wide as high. As it was if it does not fit. */
export function rotated(points, degrees, ratio) {
  const { left, right, top, bottom } = bounds(points);
  const [x, y] = [(left + right) / 2, (top + bottom) / 2];
  const [sin, cos] = [Math.sin((degrees * Math.PI) / 180), Math.cos((degrees * Math.PI) / 180)];
  const turned = points.map((point) => {
    const [across, down] = [(point[0] - x) * ratio, point[1] - y];
    return [Math.round(x + (across * cos - down * sin) / ratio), Math.round(y + across * sin + down * cos)];
  });
  const box = bounds(turned);
  if (box.right - box.left > SIZE || box.bottom - box.top > SIZE) return points;
  return moved(turned, 0, 0);
}

export function isWithin(points, [x, y]) {
  let inside = false;
  for (let here = 0, before = points.length - 1; here < points.length; before = here++) {
    const [[x1, y1], [x2, y2]] = [points[here], points[before]];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) inside = !inside;
  }
  return inside;
}

function isInside(points) {
  return points.every((point) => point.every((value) => value >= 0 && value <= SIZE));
}

/** States to return to. `keep` is called before a change, with the state until then. */
export function history() {
  let [past, future] = [[], []];
  return {
    keep(state) {
      past = [...past, state].slice(-MOST_STEPS);
      future = [];
    },
    undo(present) {
      if (!past.length) return null;
      future.push(present);
      return past.pop();
    },
    redo(present) {
      if (!future.length) return null;
      past.push(present);
      return future.pop();
    },
    get hasPast() { return past.length > 0; },
    get hasFuture() { return future.length > 0; },
  };
}
