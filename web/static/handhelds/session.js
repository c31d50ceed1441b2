// Who and when. Who is signed in on this device: { session, person, organization }, or null. The server says so in a cookie for
// scripts, so it is known at every moment, also without a connection and after the session has expired. With HTTPS its name has
// a prefix: a cookie without it may name another person. What waits on the page without HTTPS is in a storage of its own.

const WAITING = "edge_waiting"; // number of scans that wait in the storage of the page without HTTPS
const valueOf = (name) => (new RegExp(`(?:^|; )${name}=([^;]+)`).exec(document.cookie) || [])[1];

export function signedIn() {
  const text = valueOf(location.protocol === "https:" ? "__Host-edge_who" : "edge_who");
  if (!text) return null;
  const [session, person, organization] = text.split(".");
  return { session, person: Number(person), organization: Number(organization) };
}

/** Note for the page with HTTPS how many scans wait here. */
export function noteWaiting(count) {
  const value = `${count}:${location.port}`;
  if (location.protocol !== "http:" || (valueOf(WAITING) || `0:${location.port}`) === value) return;
  document.cookie = `${WAITING}=${value}; path=/; SameSite=Lax; max-age=${count ? 34560000 : 0}`;
}

/** What waits on this device in the storage of the page without HTTPS: { count, port } of that page. */
export function waitingWithoutHttps() {
  const [count, port = ""] = ((location.protocol === "https:" && valueOf(WAITING)) || "").split(":");
  return { count: Number(count) || 0, port };
}

export function newId() {
  if (crypto.randomUUID) return crypto.randomUUID(); // only on https, and not in old browsers
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The count of ms since this page was loaded, which no clock changes; `load` names the page. */
export const moment = () => ({ load: performance.timeOrigin || performance.timing.navigationStart, tick: performance.now() });
