// RFID sleds. The page knows a sled by five functions, its driver:
//   connect()       a promise; fails with an Error that says why the sled is not there
//   onRead(take)    from now on `take(read)` receives each read, see below
//   start(asset)    begin to read; `asset` ({ id, name, epcs }) is looked for, undefined if none is
//   stop()          end it
//   power(percent)  set the power, 1 to 100; returns what is set now, or null if only the sled itself can do it
// A read is { code, rssi }, rssi in dBm or null. The read of a driver that has recorded it itself has `asset`, its id, in place
// of `code`. A driver is loaded when it is used: see "Add a sled" in the manual.

import { take } from "./catch.js";
import { say } from "./show.js";
import * as sweep from "./sweep.js";

const drivers = [];
let connecting = null;
let seeks = () => false;

/** Whoever looks for an asset gets each read first; `task(read)` returns false if it is not for it. */
export const findWith = (task) => { seeks = task; };

/** Connect a sled; from then on its reads are scans, count in a sweep, or find an asset. */
export async function use(driver) {
  driver.onRead((read) => seeks(read) || (read.code && offer(read)));
  await driver.connect();
  drivers.push(driver);
}

/** A read that arrives as a call goes the same way as one that is typed. */
function offer({ code }) {
  take(code, { typed: code, byKey: code, isPart: false, moment: performance.now() });
}

/** Driver of sleds that type or insert text, such as a Zebra RFD40 with DataWedge: the trigger is on the sled. */
export function typed() {
  let taken = () => false;
  return {
    connect: async () => {},
    onRead(take) { taken = take; },
    start() {},
    stop() {},
    power: () => null,

    /** A code that the page caught, with how it was typed. */
    offer: (one, raw) => taken({ code: one.code, rssi: null, one, raw }),
  };
}

const keyboard = typed();
keyboard.onRead(({ one, raw, ...read }) => seeks(read) || sweep.takes(one, raw));

/** What the page does first with each code that a scanner typed; true if that was all. */
export const divert = (one, raw) => keyboard.offer(one, raw);

/** Connect the sled that publishes to the server. Called whenever the server says that this person or device has one. */
export function connectSled() {
  connecting = connecting || import("./sled-connector.js").then(({ connector }) => use(connector())).catch((error) => {
    connecting = null; // no connection: tried again
    throw error;
  });
  return connecting;
}

/** Begin to read with every connected sled, or to look for an asset. A sled that fails does not keep back the others. */
export const startAll = (asset) => each((driver) => driver.start(asset));
export const stopAll = () => each((driver) => driver.stop());

const each = (task) => drivers.forEach((driver) => {
  try {
    task(driver);
  } catch (error) {
    say(error.message);
  }
});

// For the demo and for tests: a sled without hardware.
if (location.hash === "#simulated-sled") {
  import("./sled-simulated.js").then(({ simulated }) => use(simulated())).catch(() => {});
}
