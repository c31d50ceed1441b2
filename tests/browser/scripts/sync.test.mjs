// What is sent, when and how often, and what a dead or refusing server costs. The server is a function here.

import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";

import { empty } from "./database.mjs";
import "./page.mjs";

const handlers = {};
const listen = (name, task) => { handlers[name] = task; };
globalThis.document.addEventListener = globalThis.addEventListener = listen;
globalThis.setInterval = () => 0; // what is sent by timer is sent by `flush`

const queue = await import("../../../web/static/handhelds/queue.js");
const clock = await import("../../../web/static/handhelds/clock.js");
const { ask, flush, link, post, start } = await import("../../../web/static/handhelds/sync.js");

const DEADLINE = 15000;
let sent = []; // of each request: path, options and body
let server; // (path, body) => [status, answer], or a promise that may never be settled
let told;

const state = () => [200, { organization: 9, person: 1, csrf: "first", now: Date.now() }];
const recorded = (path, body) => (path === "/scan/state" ? state() : [200, { results: body.items.map(({ id }) => ({ id, result: "recorded" })) }]);
const batches = () => sent.filter(({ path }) => path === "/scan/batch").map(({ body }) => body.items.map(({ id }) => id));
const scan = (id, more = {}) => queue.add({ id, code: `code-${id}`, at: Date.now(), held: null, choice: "c", locationId: 1,
  person: 1, organization: 9, session: "s1", ...more });

globalThis.fetch = async (path, options) => {
  const body = options.body && JSON.parse(options.body);
  sent.push({ path, options, body });
  const aborted = new Promise((_, reject) => { options.signal.addEventListener("abort", () => reject(new Error("aborted"))); });
  const [status, answer] = await Promise.race([server(path, body), aborted]);
  const text = async () => Promise.race([answer, aborted]).then((content) => (typeof content === "string" ? content : JSON.stringify(content)));
  return { status, ok: status < 400, text, headers: { get: (name) => (name === "ETag" ? '"7"' : null) } };
};

/** A promise, and what settles it. */
function later() {
  const one = {};
  one.promise = new Promise((resolve) => { one.resolve = resolve; });
  return one;
}

async function until(condition) {
  const deadline = performance.now() + 5000;
  while (!condition()) {
    assert.ok(performance.now() < deadline, `in time: ${condition}`);
    await new Promise(setImmediate);
  }
}

beforeEach(async () => {
  server = recorded;
  await start(() => {}); // whatever the test before passed
  empty();
  [sent, told] = [[], []];
  Object.assign(link, { state: "unknown", me: null, waiting: 0, held: [] });
});

test("everything that waits is sent in order, a hundred at a time", async () => {
  const ids = Array.from({ length: 220 }, (_, n) => `scan-${n}`);
  for (const id of ids) await scan(id);
  await flush();
  assert.deepEqual(batches().map((one) => one.length), [100, 100, 20]);
  assert.deepEqual(batches().flat(), ids);
  assert.deepEqual([link.state, link.waiting, sent.length], ["ok", 0, 4]);
  await scan("later");
  await flush();
  assert.equal(sent.length, 5, "it is known who is signed in");
});

test("one batch is sent at a time; a scan that comes meanwhile is sent right after it", async () => {
  const answer = later();
  server = async (path, body) => {
    if (batches().length === 1 && path === "/scan/batch") await answer.promise;
    return recorded(path, body);
  };
  await scan("1");
  const first = flush();
  await until(() => batches().length);
  await scan("2");
  for (let n = 0; n < 3; n += 1) assert.equal(flush(), first, "it runs already");
  answer.resolve();
  await first;
  await flush();
  assert.deepEqual(batches(), [["1"], ["2"]]);
});

test("a request while the last batch is settled is not forgotten", async () => {
  await start(async () => {
    if (told.length) return;
    told.push(await scan("late"));
    flush(); // after the queue was read for the last time
  });
  await until(() => batches().length);
  await flush();
  assert.deepEqual([batches(), await queue.waiting()], [[["late"]], []]);
});

test("scans of another organization wait for its people, and hold up nobody", async () => {
  await scan("theirs", { organization: 8 });
  await scan("own");
  await scan("nobody's", { organization: null });
  await flush();
  assert.deepEqual([batches(), link.state, link.waiting], [[["own", "nobody's"]], "other-site", 1]);
  server = (path, body) => (path === "/scan/state" ? [200, { organization: 8, person: 5, csrf: "other" }] : recorded(path, body));
  await flush();
  assert.deepEqual([batches()[1], link.state, link.waiting], [["theirs"], "ok", 0]);
});

test("what waits for a location is not sent, and counted as such", async () => {
  await scan("held", { held: { label: "X" } });
  await scan("1");
  await flush();
  assert.deepEqual([batches(), link.state, link.waiting, link.held.map(({ id }) => id)], [[["1"]], "ok", 1, ["held"]]);
});

test("only what somebody else made is sent with the session it was made in", async () => {
  await scan("own");
  await scan("other", { person: 2, session: "s2" });
  await queue.add({ id: "undo", undo: "x", at: 1, person: 2, session: "s2", organization: 9 });
  await queue.add({ id: "act", act: "lost", asset: 4, at: 1, person: 2, session: "s2", organization: 9 });
  await flush();
  const [{ body }] = sent.filter(({ path }) => path === "/scan/batch");
  assert.deepEqual(body.items.map(({ id, session }) => [id, session]), [["own", undefined], ["other", "s2"], ["undo", "s2"], ["act", "s2"]]);
});

for (const [name, dead] of [["no answer", () => new Promise(() => {})], ["an answer without its end", () => [200, new Promise(() => {})]]]) {
  test(`after the deadline, ${name} is no connection, and the queue goes on`, async () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      await scan("1");
      server = dead;
      const flushed = flush();
      await until(() => sent.length);
      mock.timers.tick(DEADLINE - 1);
      await new Promise(setImmediate);
      assert.equal(link.state, "unknown", "it still waits");
      mock.timers.tick(1);
      await flushed;
      assert.deepEqual([link.state, link.waiting], ["offline", 1]);
      server = recorded;
      await flush();
      assert.deepEqual([batches(), link.state, link.waiting], [[["1"]], "ok", 0]);
      const [{ signal }] = sent.slice(-1).map(({ options }) => options);
      mock.timers.tick(DEADLINE);
      assert.equal(signal.aborted, false, "what was answered is never aborted");
    } finally {
      mock.timers.reset();
    }
  });
}

test("a form token that is out of date is replaced once, and the same items are sent again", async () => {
  let tokens = ["first", "second"];
  server = (path, body) => {
    if (path === "/scan/state") return [200, { organization: 9, person: 1, csrf: tokens.shift() }];
    const { headers } = sent[sent.length - 1].options;
    return headers["X-CSRF-Token"] === "second" ? recorded(path, body) : [403, { error: "Reload the page" }];
  };
  await scan("1");
  await flush();
  assert.deepEqual([batches(), link.state, link.waiting], [[["1"], ["1"]], "ok", 0]);
  server = (path) => (path === "/scan/state" ? state() : [403, { error: "Reload the page" }]);
  await assert.rejects(post("/scan/batch", { items: [] }), { state: "trouble", status: 403, message: "Reload the page" });
  assert.equal(sent.filter(({ path }) => path === "/scan/batch").length, 4, "not more than once");
});

test("a person who may no longer scan is told so at once, and everything waits", async () => {
  await scan("1");
  server = () => [403, { error: "You do not have permission" }];
  await flush();
  assert.deepEqual([link.state, link.waiting], ["forbidden", 1]);
});

for (const [status, answer, expected] of [[401, {}, "signed-out"], [503, { error: "Busy" }, "trouble"], [502, "<html>", "trouble"], [409, {}, "trouble"]]) {
  test(`after ${status} everything waits, and it begins with who is signed in`, async () => {
    await scan("1");
    server = (path) => (path === "/scan/state" ? state() : [status, answer]);
    await flush();
    assert.deepEqual([link.state, link.waiting, batches()], [expected, 1, [["1"]]]);
    [sent, server] = [[], recorded];
    await flush();
    assert.deepEqual([sent.map(({ path }) => path), link.state, link.waiting], [["/scan/state", "/scan/batch"], "ok", 0]);
  });
}

test("what is answered is passed on with what waits; nothing new is asked for what is unchanged", async () => {
  await start(async (results) => { told.push([results.map(({ id }) => id), link.waiting]); });
  await scan("1");
  await flush();
  assert.deepEqual(told, [[[], 0], [["1"], 0], [[], 0]]);
  server = () => [304, ""];
  assert.equal(await ask("/scan/assets", { headers: { "If-None-Match": "7" } }), null);
  assert.equal(sent[sent.length - 1].options.headers["If-None-Match"], "7");
  server = () => [200, { rows: 3 }];
  let tag = "";
  assert.deepEqual(await ask("/scan/assets", { etag: (value) => { tag = value; } }), { rows: 3 });
  assert.equal(tag, '"7"');
});

test("the page sends when the connection returns or somebody looks at it, and says that it is gone", async () => {
  await start(() => {});
  await scan("1");
  handlers.offline();
  assert.equal(link.state, "offline");
  document.hidden = true;
  handlers.visibilitychange();
  await until(() => link.waiting === 1);
  assert.deepEqual(batches(), []);
  document.hidden = false;
  handlers.visibilitychange();
  await until(() => link.waiting === 0);
  await scan("2");
  handlers.online();
  await until(() => batches().length === 2);
  assert.deepEqual(batches(), [["1"], ["2"]]);
});

test("an answer that breaks off is no connection, whoever asked", async () => {
  const broken = later();
  server = () => [200, broken.promise.then(() => { throw new Error("reset"); })];
  const asked = assert.rejects(ask("/scan/locations"), { state: "offline", message: "No connection" });
  await until(() => sent.length);
  broken.resolve();
  await asked;
});

test("who is signed in is kept for when there is no connection", async () => {
  await flush();
  const { now, ...me } = await queue.load("me");
  assert.deepEqual(me, { organization: 9, person: 1, csrf: "first" });
});

test("the undo of a sweep is sent in parts of five hundred scans, after what was queued before it", async () => {
  const numbers = Array.from({ length: 1200 }, (_, no) => no);
  await scan("before");
  await queue.addAll([{ id: "sweep-1-u", undo: "sweep-1", undone: numbers, sweep: "sweep-1", at: Date.now(), person: 1, organization: 9 }]);
  server = (path, body) => (path === "/scan/state" ? state() : [200, { results: body.items.flatMap(({ id, undone }) => (undone
    ? undone.map((no) => ({ id: `sweep-1-u${no}`, result: "undone" })) : [{ id, result: "recorded" }])) }]);
  await flush();
  const items = sent.filter(({ path }) => path === "/scan/batch").flatMap(({ body }) => body.items);
  assert.deepEqual(items.map(({ id, undone }) => (undone ? undone.length : id)), ["before", 500, 500, 200]);
  assert.deepEqual(items.flatMap(({ undone }) => undone || []), numbers);
  assert.equal(link.waiting, 0);
});

test("an undo that waits is counted among what its stock-take waits for", async () => {
  await scan("1", { take: "take-1" });
  await queue.add({ id: "undo", undo: "earlier", at: Date.now(), person: 1, organization: 9, take: "take-1" });
  await scan("elsewhere");
  await flush();
  const [{ body }] = sent.filter(({ path }) => path === "/scan/batch");
  assert.deepEqual(body.holds.map(({ stock_take, unsent }) => [stock_take, unsent]), [["take-1", 2]]);
  assert.deepEqual(body.items.map(({ stock_take }) => stock_take), ["take-1", "take-1", undefined]);
});

const times = () => sent.filter(({ path }) => path === "/scan/batch").flatMap(({ body }) => body.items.map(({ at }) => at));

test("what is queued after something was sent is later, even if the clock was set back meanwhile", async () => {
  await scan("1");
  await flush();
  await scan("2", { at: Date.now() - 60000 });
  await flush();
  assert.equal(times()[1], times()[0] + 1);
});

test("a device clock that was put right does not delay the scans after the next one", async (context) => {
  const real = Date.now;
  let ahead = -600000;
  context.mock.method(Date, "now", () => real() + ahead);
  const answers = (path, body) => { const [status, answer] = recorded(path, body); return [status, { ...answer, now: real() }]; };
  server = answers;
  await flush();
  ahead = 0;
  await scan("1", clock.stamp({}));
  server = (path, body) => (path === "/scan/batch" ? [500, {}] : answers(path, body)); // the answer that would say so is lost
  await flush();
  server = answers;
  await flush();
  await scan("2", clock.stamp({}));
  await flush();
  assert.ok(Math.abs(times().pop() - real()) < 300000, "it was made now");
});

test("scans are sent with the site's time, as the answers show it", async () => {
  const HOUR = 3600000;
  server = (path, body) => { const [status, answer] = recorded(path, body); return [status, { ...answer, now: Date.now() + HOUR }]; };
  await flush();
  await scan("1");
  await flush();
  assert.ok(Math.abs(times()[0] - Date.now() - HOUR) < HOUR / 2);
});
