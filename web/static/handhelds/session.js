// Who is signed in on this device: { session, person, organization }, or null. The server says so in a cookie for scripts, so
// it is known at every moment, also without a connection and after the session has expired. With HTTPS the name has a prefix:
// a cookie of the page without HTTPS may name another person. What waits there is in a storage that this page cannot read.

const WAITING = "edge_waiting"; // number of scans that wait in the storage of the page without HTTPS
const valueOf = (name) => (new RegExp(`(?:^|; )${name}=([^;]+)`).exec(document.cookie) || [])[1];

export function signedIn() {
  const text = valueOf("__Host-edge_who") || valueOf("edge_who");
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
