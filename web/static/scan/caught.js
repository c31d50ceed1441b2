// Codes that were caught and are not kept in the queue yet: for the moments in which a busy device is behind with its
// work. Noted at once, so that a reload in such a moment loses none; each has its id already, so none is kept twice.

const KEPT = "edge-caught";
let pending = read();

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEPT)) || [];
  } catch {
    return []; // spoilt by hand
  }
}

const write = () => localStorage.setItem(KEPT, JSON.stringify(pending));

/** What a page that was closed too early left behind, in the order of the scans. */
export const left = () => [...pending];

export function note(one) {
  pending.push(one);
  write();
}

export function forget(id) {
  pending = pending.filter((one) => one.id !== id);
  write();
}
