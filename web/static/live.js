// A live part of a page polls for its own content: `data-live` is its address, `data-every` the seconds between requests.
// The server answers 304 while nothing has changed, so polling costs next to nothing and holds no connection. New content
// is merged element by element: a row that stays keeps its focus, its selection and its position under the finger.

import { renderTimes } from "./times.js";

const HOLD = 2500;
const SHOWN_FRESH = 2500; // a colour that fades would be painted sixty times a second while things move

export function followLive() {
  for (const part of document.querySelectorAll("[data-live]")) follow(part);
}

function follow(part) {
  let version = null;
  const wait = Number(part.dataset.every || 3) * 1000;

  // Where the order itself changes, rows must not move away from under a finger that is about to tap one.
  let pointedAt = -Infinity;
  for (const kind of ["pointermove", "pointerdown"]) {
    part.addEventListener(kind, () => { pointedAt = performance.now(); }, { passive: true });
  }

  async function look() {
    if (!document.hidden) await refresh();
    setTimeout(look, wait);
  }

  async function refresh() {
    try {
      const answer = await fetch(part.dataset.live, {
        headers: version ? { "If-None-Match": version } : {},
        cache: "no-store",
        signal: AbortSignal.timeout?.(15000),
      });
      if (answer.status === 401 || answer.redirected) return location.reload();
      setOffline(false);
      if (answer.status !== 200) return;
      const fresh = document.createElement("template");
      fresh.innerHTML = await answer.text();
      const isHeld = performance.now() - pointedAt < HOLD;
      if (isHeld && order(part) !== order(fresh.content)) return; // the next request has the old version
      version = answer.headers.get("ETag");
      replace(part, fresh.content);
    } catch {
      setOffline(true);
    }
  }

  function setOffline(isOffline) {
    document.querySelector("[data-live-state]")?.toggleAttribute("data-offline", isOffline);
  }

  setTimeout(look, wait);
}

function order(root) {
  return [...root.querySelectorAll("[data-row]")].map((row) => row.dataset.row).join();
}

function replace(part, fresh) {
  const before = new Map([...part.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.dataset.state]));
  for (const row of part.querySelectorAll(".fresh")) row.classList.remove("fresh");
  fitChildren(part, fresh);
  renderTimes(part);
  for (const row of part.querySelectorAll("[data-row]")) {
    const was = before.get(row.dataset.row);
    if (was === undefined || was === row.dataset.state) continue;
    row.classList.add("fresh");
    setTimeout(() => row.classList.remove("fresh"), SHOWN_FRESH);
  }
}

// Turn the children of `here` into those of `wanted`, keeping every element that can stay. `data-row` identifies rows.
function fitChildren(here, wanted) {
  const stays = new Set([...wanted.children].map((child) => child.dataset.row));
  const rows = new Map();
  for (const child of [...here.children]) {
    if (!child.dataset.row) continue;
    if (stays.has(child.dataset.row)) rows.set(child.dataset.row, child);
    else child.remove();
  }
  let next = here.firstChild;
  for (const fresh of [...wanted.childNodes]) {
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
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.tagName !== "INPUT") fitChildren(old, fresh);
}

function isAlike(old, fresh) {
  return old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName;
}
