// The sign-in page says how many scans this device keeps, so that nobody takes them for lost or for saved.

import { parcels, sizeOf, waiting } from "./handhelds/queue.js";
import { tn } from "./handhelds/texts.js";

/** True if scans were made on this device. To look must not create the database of the scan page. */
function isScanner() {
  return new Promise((resolve) => {
    const request = indexedDB.open("edge-scan");
    request.onupgradeneeded = () => request.transaction.abort();
    request.onsuccess = () => {
      request.result.close();
      resolve(true);
    };
    request.onerror = () => resolve(false);
  });
}

async function show(notice) {
  if (!(await isScanner())) return;
  const scans = (await waiting()).reduce((sum, item) => sum + sizeOf(item), 0);
  const count = scans + (await parcels()).length;
  if (!count) return;
  notice.querySelector("p").textContent = tn(
    "{count} scan on this device is not sent yet. Sign in to send it.",
    "{count} scans on this device are not sent yet. Sign in to send them.", count,
  );
  notice.hidden = false;
}

show(document.querySelector("[data-kept-scans]")).catch(() => {}); // a private window has no database
