// As much of IndexedDB as the queue of the scan page needs, in memory: requests are answered in order, a transaction is
// complete when none is left, and the next one begins after it.

globalThis.IDBKeyRange = { lowerBound: (low, isOpen) => (key) => (isOpen ? key > low : key >= low) };

class Store {
  constructor({ keyPath = null, autoIncrement = false } = {}) {
    Object.assign(this, { keyPath, autoIncrement, rows: new Map(), indexes: new Map(), last: 0 });
  }

  keys = () => [...this.rows.keys()].sort((a, b) => (a < b ? -1 : 1));
  createIndex = (name, path) => this.indexes.set(name, path);

  write(value, key = value[this.keyPath]) {
    const copy = structuredClone(value);
    const own = key === undefined && this.autoIncrement ? this.last += 1 : key;
    if (this.keyPath) copy[this.keyPath] = own;
    this.rows.set(own, copy);
    return own;
  }
}

/** A store within a transaction; `ask` makes a request of a function. */
function inTransaction(store, ask) {
  const read = (key) => structuredClone(store.rows.get(key));
  const sorted = (path) => store.keys().map(read).filter((row) => row[path] !== undefined).sort((a, b) => (a[path] < b[path] ? -1 : 1));
  return {
    indexNames: { contains: (name) => store.indexes.has(name) },
    createIndex: store.createIndex,
    add: (value) => ask(() => store.write(value)),
    put: (value, key) => ask(() => store.write(value, key)),
    get: (key) => ask(() => read(key)),
    getAll: () => ask(() => store.keys().map(read)),
    delete: (key) => ask(() => { store.rows.delete(key); }),
    clear: () => ask(() => store.rows.clear()),
    index: (name) => ({
      get: (key) => ask(() => sorted(store.indexes.get(name)).find((row) => row[store.indexes.get(name)] === key)),
      getAll: () => ask(() => sorted(store.indexes.get(name))),
    }),
    openCursor: (fits = () => true) => {
      let at;
      const next = () => {
        const key = store.keys().find((one) => fits(one) && (at === undefined || one > at));
        at = key;
        return key === undefined ? null : {
          value: read(key),
          update: (value) => ask(() => store.write(value, store.keyPath ? undefined : key)),
          delete: () => ask(() => { store.rows.delete(key); }),
          continue: () => ask(next, request),
        };
      };
      const request = ask(next);
      return request;
    },
  };
}

let running = Promise.resolve();

/** A transaction of the stores, which runs after those before it. */
function transaction(stores) {
  const requests = [];
  const own = { objectStore: (name) => inTransaction(stores.get(name), ask) };
  function ask(task, request = {}) {
    requests.push([task, request]);
    return request;
  }
  running = running.then(async () => {
    await null; // the caller sets its handlers first
    while (requests.length) {
      const [task, request] = requests.shift();
      request.result = task();
      if (request.onsuccess) request.onsuccess({ target: request });
    }
    own.oncomplete();
  });
  return own;
}

const stores = new Map();

globalThis.indexedDB = {
  open() {
    const request = {
      result: {
        objectStoreNames: { contains: (name) => stores.has(name) },
        createObjectStore: (name, options) => stores.set(name, new Store(options)).get(name),
        transaction: () => transaction(stores),
      },
    };
    queueMicrotask(() => {
      request.onupgradeneeded();
      request.onsuccess();
    });
    return request;
  },
};

export function empty() {
  for (const store of stores.values()) store.rows.clear();
}

/** The storage of the other address of the box; called again, this one. */
export function swap() {
  for (const store of stores.values()) {
    const { rows, last, other = { rows: new Map(), last: 0 } } = store;
    Object.assign(store, other, { other: { rows, last } });
  }
}
