// Driver of a sled that does not exist, for the demo and for tests: it reads the tags that this device knows, each once, or
// comes nearer to the asset that is looked for and passes it.

import * as copy from "./copy.js";
import { isEpc } from "./sweeping.js";

const EVERY = 20; // ms between two reads at full power
const [FARTHEST, NEAREST, STEP] = [-78, -32, 2]; // dBm

/** `codes()`: what is in front of the antenna. */
export function simulated({ codes = known, timers = window } = {}) {
  let taken = () => {};
  let [timer, percent] = [0, 100];

  function each(reads) {
    const next = () => {
      const read = reads.shift();
      if (!read) return;
      timer = timers.setTimeout(next, (EVERY * 100) / percent);
      taken(read);
    };
    next();
  }

  return {
    connect: async () => {},
    onRead(take) { taken = take; },
    start(asset) {
      this.stop();
      if (!asset) return each(codes().map((code) => ({ code, rssi: -50 })));
      const steps = Math.ceil((NEAREST - FARTHEST) / STEP) + 1;
      each(Array.from({ length: steps * 10 }, (_, no) => ({ code: asset.epcs[0], rssi: FARTHEST + STEP * Math.floor(no / 10) })));
    },
    stop() { timers.clearTimeout(timer); },
    power(wanted) {
      percent = Math.min(100, Math.max(1, wanted));
      return percent;
    },
  };
}

const known = () => [...copy.all()].flatMap(({ codes }) => codes).filter(isEpc);
