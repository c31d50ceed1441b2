// What the modules of the scan page need of a browser: as little as they need when they are loaded. `stored` is what
// localStorage holds.

export const stored = new Map();

const field = { addEventListener() {}, focus() {}, dataset: {}, value: "" };
const elements = { station: { dataset: { testCode: "EDGE-TEST:azqwymAZQWYM/0123456789?_=&%+#(;)" } }, catcher: field, said: {} };
globalThis.document = {
  getElementById: (id) => elements[id] || null, documentElement: { lang: "en" },
  cookie: "", hidden: false, body: field, activeElement: field, addEventListener() {},
};
Object.assign(globalThis, { window: globalThis, addEventListener() {} });
globalThis.location = { protocol: "http:" };
globalThis.localStorage = {
  getItem: (name) => (stored.has(name) ? stored.get(name) : null),
  setItem: (name, value) => stored.set(name, String(value)),
  removeItem: (name) => stored.delete(name),
};

/** Another copy of a module, as after a reload of the page. */
let loads = 0;
export const reload = (name) => import(`../../../web/static/handhelds/${name}?load=${loads += 1}`);
