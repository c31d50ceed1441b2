// Who is signed in on this device: { session, person, organization }, or null. The server says so in a cookie for scripts, so
// it is known at every moment, also without a connection and after the session has expired.

export function signedIn() {
  const [, text] = /edge_who=([^;]+)/.exec(document.cookie) || [];
  if (!text) return null;
  const [session, person, organization] = text.split(".");
  return { session, person: Number(person), organization: Number(organization) };
}
