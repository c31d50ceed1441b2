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
  if (location.protocol !== "http:" || Number(valueOf(WAITING) || 0) === count) return;
  document.cookie = `${WAITING}=${count}; path=/; SameSite=Lax; max-age=${count ? 34560000 : 0}`;
}

/** Number of scans that wait on this device in the storage of the page without HTTPS. */
export const waitingWithoutHttps = () => (location.protocol === "https:" && Number(valueOf(WAITING))) || 0;

/** The count of ms since this page was loaded, which no clock changes; `load` names the page. */
export const moment = () => ({ load: performance.timeOrigin || performance.timing.navigationStart, tick: performance.now() });
