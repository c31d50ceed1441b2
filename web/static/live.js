// A live region of a page polls for its own content: `data-live` is its address, `data-every` the seconds between requests.
// The server answers 304 while nothing has changed, so polling costs next to nothing and holds no connection. New content
// is merged element by element: a row that stays keeps its focus, its selection and its position under the finger.

import { holdTimes, renderTimes, siteNow } from "./times.js";

const HOLD = 2500;
const SHOWN_FRESH = 2500; // a color that fades would be painted sixty times a second while things move
const OWN = new Set(["open", "data-sent", "aria-busy"]); // attributes that a person's actions set
const OLD_AFTER = 10000; // ms without an answer until the page says that its data is old

export function followLive() {
  const byAddress = new Map();
  for (const region of document.querySelectorAll("[data-live]")) {
    const [address] = region.dataset.live.split("#");
    byAddress.set(address, [...(byAddress.get(address) || []), region]);
  }
  if (byAddress.size) watch([...byAddress].map(([address, regions]) => follow(address, regions)));
}

/** Say since when the data is old, and stop the clocks, while one of the regions gets no answer. */
function watch(followers) {
  const notice = document.querySelector("[data-live-state]");
  let shownAt = performance.now(); // nothing is asked for while the page is not shown

  function judge() {
    const oldest = followers.reduce((one, other) => (one.answered < other.answered ? one : other));
    const isOld = performance.now() - Math.max(oldest.answered, shownAt) > OLD_AFTER;
    if (isOld !== notice.hidden) return;
    notice.hidden = !isOld;
    notice.querySelector("time").dateTime = new Date(oldest.dataOf).toISOString();
    holdTimes(isOld ? oldest.dataOf : null);
  }

  for (const follower of followers) follower.onAnswer = judge;
  setInterval(() => document.hidden || judge(), 1000);
  document.addEventListener("visibilitychange", () => {
    shownAt = performance.now();
    if (!document.hidden) for (const follower of followers) follower.ask();
  });
}

/** The address is that of the content of one region, or of a page that has all the regions, each by its id. */
function follow(address, regions) {
  const wait = Number(regions[0].dataset.every || 3) * 1000;
  const follower = { answered: performance.now(), dataOf: siteNow(), onAnswer() {}, ask };
  let version = null;
  let timer = setTimeout(look, wait);
  let isAsking = false;

  // Where the order itself changes, rows must not move away from under a finger that is about to tap one.
  let pointedAt = -Infinity;
  for (const kind of ["pointermove", "pointerdown"]) {
    for (const region of regions) region.addEventListener(kind, () => { pointedAt = performance.now(); }, { passive: true });
  }

  function ask() {
    if (isAsking) return;
    clearTimeout(timer);
    look();
  }

  async function look() {
    isAsking = true;
    if (!document.hidden) await refresh();
    isAsking = false;
    timer = setTimeout(look, wait);
  }

  async function refresh() {
    const giveUp = new AbortController();
    const deadline = setTimeout(() => giveUp.abort(), OLD_AFTER);
    try {
      const answer = await fetch(address, {
        headers: { "X-Edge-Polled": "1", ...(version ? { "If-None-Match": version } : {}) },
        cache: "no-store",
        signal: giveUp.signal,
      });
      if ([401, 403, 404].includes(answer.status) || answer.redirected) return location.reload();
      if (answer.status === 200) take(answer.headers.get("ETag"), await answer.text());
      else if (answer.status !== 304) return; // busy, or a proxy whose server is away
      follower.answered = performance.now();
      follower.dataOf = siteNow();
      follower.onAnswer();
    } catch {
      // no connection: asked again, and `watch` says so after a while
    } finally {
      clearTimeout(deadline);
    }
  }

  function take(newVersion, text) {
    const template = document.createElement("template");
    template.innerHTML = text;
    const fresh = regions.map((region) => (region.dataset.live.includes("#") ? template.content.getElementById(region.id) : template.content));
    const isHeld = performance.now() - pointedAt < HOLD;
    if (isHeld && regions.some((region, number) => order(region) !== order(fresh[number]))) return; // the next request has the old version
    version = newVersion;
    regions.forEach((region, number) => fresh[number] && replace(region, fresh[number]));
  }

  return follower;
}

function order(root) {
  return [...(root?.querySelectorAll("[data-row]") || [])].map((row) => row.dataset.row).join();
}

function replace(region, fresh) {
  const before = new Map([...region.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.dataset.state]));
  for (const row of region.querySelectorAll(".fresh")) row.classList.remove("fresh");
  fitChildren(region, fresh);
  renderTimes(region);
  for (const row of region.querySelectorAll("[data-row]")) {
    const was = before.get(row.dataset.row);
    if (was === undefined || was === row.dataset.state) continue;
    row.classList.add("fresh");
    setTimeout(() => row.classList.remove("fresh"), SHOWN_FRESH);
  }
}

// Turn the children of `here` into those of `target`, keeping every element that can stay. `data-row` identifies rows.
function fitChildren(here, target) {
  const stays = new Set([...target.children].map((child) => child.dataset.row));
  const rows = new Map();
  for (const child of [...here.children]) {
    if (!child.dataset.row) continue;
    if (stays.has(child.dataset.row)) rows.set(child.dataset.row, child);
    else child.remove();
  }
  let next = here.firstChild;
  for (const fresh of [...target.childNodes]) {
    while (next && isText(next) && !isText(fresh)) next = removed(next);
    const known = fresh.nodeType === Node.ELEMENT_NODE && fresh.dataset.row ? rows.get(fresh.dataset.row) : null;
    const old = known || (next && !next.dataset?.row && isAlike(next, fresh) ? next : null);
    if (!old) {
      here.insertBefore(fresh, next);
      continue;
    }
    if (old === next) next = next.nextSibling;
    else here.insertBefore(old, next);
    fit(old, fresh);
  }
  while (next) next = removed(next);
}

function removed(node) {
  const following = node.nextSibling;
  node.remove();
  return following;
}

function isText(node) {
  return node.nodeType === Node.TEXT_NODE;
}

function fit(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  if (old.tagName === "TIME" && old.dateTime === fresh.dateTime) return; // its text is updated by times.js
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !OWN.has(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.tagName !== "INPUT") fitChildren(old, fresh);
}

function isAlike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName;
}
