// What the device keeps: scans not yet answered, what was answered last, and the places. All in IndexedDB, written
// before anything else happens, so that a reload, a crash or an empty battery loses no scan.

const NAME = "edge-scan";
let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, 1);
    request.onupgradeneeded = () => {
      const base = request.result;
      base.createObjectStore("queue", { keyPath: "no", autoIncrement: true }).createIndex("id", "id", { unique: true });
      base.createObjectStore("log", { keyPath: "id" }).createIndex("at", "at");
      base.createObjectStore("kept");
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return opened;
}

async function work(stores, mode, task) {
  const base = await open();
  return new Promise((resolve, reject) => {
    const transaction = base.transaction(stores, mode, mode === "readwrite" ? { durability: "strict" } : {});
    const result = task(transaction);
    transaction.oncomplete = () => resolve(result?.result);
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });
}

/** Keep a scan or an undo until it is answered. Only when this has returned, it is safe to tell anybody. */
export const add = (item) => work(["queue", "log"], "readwrite", (t) => {
  t.objectStore("queue").add(item);
  if (!item.undo) t.objectStore("log").put({ ...item, state: "queued" });
});

/** The oldest first. */
export const waiting = () => work(["queue"], "readonly", (t) => t.objectStore("queue").getAll());

export const countWaiting = () => work(["queue"], "readonly", (t) => t.objectStore("queue").count());

/** The server has answered: out of the queue, into the log, in one step. */
export const settle = (answers) => work(["queue", "log"], "readwrite", (t) => {
  const log = t.objectStore("log");
  for (const answer of answers) {
    const found = t.objectStore("queue").index("id").get(answer.id);
    found.onsuccess = () => {
      const item = found.result;
      if (!item) return;
      t.objectStore("queue").delete(item.no);
      const entry = log.get(item.undo || item.id);
      entry.onsuccess = () => {
        const state = item.undo && answer.result === "refused" ? entry.result?.state : answer.result;
        if (entry.result) log.put({ ...entry.result, ...answer, id: entry.result.id, state });
      };
    };
  }
});

/** The scans made last, newest first. */
export async function recent(count = 30) {
  const all = await work(["log"], "readonly", (t) => t.objectStore("log").index("at").getAll());
  return all.reverse().slice(0, count);
}

export const update = (entry) => work(["log"], "readwrite", (t) => t.objectStore("log").put(entry));

/** Keeps the log short; what still waits in the queue is never dropped. */
export async function tidy(keep = 100) {
  const old = (await recent(Infinity)).slice(keep).filter((entry) => entry.state !== "queued");
  if (old.length) await work(["log"], "readwrite", (t) => old.forEach((entry) => t.objectStore("log").delete(entry.id)));
}

export const load = (name) => work(["kept"], "readonly", (t) => t.objectStore("kept").get(name));
export const save = (name, value) => work(["kept"], "readwrite", (t) => t.objectStore("kept").put(value, name));
