// Driver of a sled with Zebra's IoT Connector. Its reads go to the server by MQTT and are recorded there, at the location that
// is chosen here: so the server is told each choice. While an asset is looked for, the server is asked for the signal.

import { newId } from "./catch.js";
import * as locations from "./locations.js";
import * as queue from "./queue.js";
import { ask, flush } from "./sync.js";

const EVERY = 700; // ms

/** `exchange` and `timers` are replaced in tests. */
export function connector({ exchange = ask, timers = window } = {}) {
  let taken = () => {};
  let [sought, newest] = [null, 0];

  /** Queue a choice, so that the server gets it with its time, also after a lost connection. */
  async function tell({ id, location, made }) {
    if (!id || !made) return;
    await queue.addAll([{ id: newId(), act: "location", choice: id, locationId: location && location.id, ...made }]);
    flush();
  }

  async function poll(asset) {
    try {
      const near = await exchange(`/scan/near/${asset.id}`);
      if (near && near.at > newest && sought === asset) {
        newest = near.at;
        taken({ asset: asset.id, rssi: near.rssi });
      }
    } catch (error) {
      if (!error.state) throw error; // no connection: asked again
    } finally {
      if (sought === asset) timers.setTimeout(poll, EVERY, asset);
    }
  }

  return {
    async connect() {
      locations.follow((choice) => tell(choice).catch(() => {}));
      await tell(locations.choice);
    },
    onRead(take) { taken = take; },
    start(asset) {
      [sought, newest] = [asset, 0];
      if (asset) poll(asset);
    },
    stop() { sought = null; },
    power: () => null,
  };
}
