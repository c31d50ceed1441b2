// Who is signed in, and what waits at the other address of this box.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import "./page.mjs";
import { noteWaiting, signedIn, waitingWithoutHttps } from "../../../web/static/handhelds/session.js";

const OTHER = "edge_who=old.7.9";
const OWN = "__Host-edge_who=new.8.9";

beforeEach(() => { Object.assign(location, { protocol: "https:", port: "8080" }); });

test("with HTTPS the person is the one who signed in with HTTPS, in any order of the cookies", () => {
  for (const cookie of [`${OTHER}; ${OWN}`, `${OWN}; ${OTHER}`, `x=1; ${OTHER}; ${OWN}`]) {
    document.cookie = cookie;
    assert.deepEqual(signedIn(), { session: "new", person: 8, organization: 9 });
  }
});

test("with HTTPS nobody is signed in by a cookie from before it", () => {
  document.cookie = OTHER;
  assert.equal(signedIn(), null);
});

test("without HTTPS the cookie has no prefix, and a name that only ends alike is another cookie", () => {
  location.protocol = "http:";
  document.cookie = `not_${OWN}; ${OTHER}`;
  assert.equal(signedIn().person, 7);
  document.cookie = "my-edge_who=old.7.9";
  assert.equal(signedIn(), null);
});

test("the page with HTTPS knows how many scans wait on the page without", () => {
  document.cookie = "";
  noteWaiting(3); // its own are in the storage of this page
  assert.equal(waitingWithoutHttps().count, 0);
  location.protocol = "http:";
  noteWaiting(3);
  assert.equal(waitingWithoutHttps().count, 0);
  location.protocol = "https:";
  assert.deepEqual(waitingWithoutHttps(), { count: 3, port: "8080" });
});
