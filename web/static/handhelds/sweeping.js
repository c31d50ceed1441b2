// What makes a sweep: EPCs that arrive faster than a person can scan. Several of them begin one; a single one is a scan.

const EPC = /^(?:[0-9A-F]{4}){6,16}$/i; // 96 bits and more, in whole words of 16 bits
const FAST = 150; // ms between two tags
const FEWEST = 3; // tags in a row

const OF_SWEEP = /^(.+)-([su])(\d+)$/; // ids of the scans and the undos of a sweep

export const MOST = 5000; // tags in a sweep

export const isEpc = (code) => EPC.test(code);
export const scanId = (sweep, no) => `${sweep}-s${no}`;
export const undoId = (sweep, no) => `${sweep}-u${no}`;

export const isUndoId = (id) => OF_SWEEP.test(id) && OF_SWEEP.exec(id)[2] === "u";
export const numberOf = (id) => Number(OF_SWEEP.exec(id)[3]);

/** The sweep to which the id of a scan or an undo belongs; "" for any other. */
export function sweepOf(id) {
  const match = OF_SWEEP.exec(id);
  return match ? match[1] : "";
}

/**
 * Hold back each EPC for a moment, until it is known whether others follow. `mayBegin()`: whether a sweep is possible now.
 * `onSingle(one)` receives a scan, `onSweep(held)` the first tags of a sweep, `onRepeat(one)` one that is held already.
 */
export function watcher({ mayBegin, onSingle, onSweep, onRepeat, timers = window }) {
  let held = [];
  let [at, timer] = [-Infinity, 0];

  function release() {
    timers.clearTimeout(timer);
    const ones = held;
    held = [];
    ones.forEach(onSingle);
  }

  /** `moment`: when its last key was pressed or its text inserted, in ms. Undefined: by the camera. */
  return function offer(one, moment) {
    if (moment === undefined || !isEpc(one.code) || !mayBegin()) {
      release();
      return onSingle(one);
    }
    if (moment - at > FAST) release();
    at = moment;
    if (held.some(({ code }) => code === one.code)) return onRepeat(one);
    held.push(one);
    timers.clearTimeout(timer);
    if (held.length < FEWEST) timer = timers.setTimeout(release, FAST);
    else {
      const ones = held;
      held = [];
      onSweep(ones);
    }
  };
}
