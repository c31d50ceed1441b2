// A live part of a page asks for itself again and again: `data-live` is its address, `data-every` the seconds between.
// The server answers 304 while nothing changed, so following costs next to nothing and holds no connection.

import { renderTimes } from "./times.js";

const HOLD = 2500;

export function followLive() {
  for (const part of document.querySelectorAll("[data-live]")) follow(part);
}

function follow(part) {
  let version = part.dataset.version ? `"${part.dataset.version}"` : null;
  const wait = Number(part.dataset.every || 3) * 1000;

  // Rows must not move away from under a mouse that is about to click one.
  let pointedAt = -Infinity;
  part.addEventListener("mousemove", () => { pointedAt = performance.now(); });

  async function look() {
    const isBusy = performance.now() - pointedAt < HOLD || part.contains(document.activeElement?.closest("form"));
    if (!document.hidden && !isBusy) await refresh();
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
      version = answer.headers.get("ETag");
      replace(part, await answer.text());
    } catch {
      setOffline(true);
    }
  }

  function setOffline(isOffline) {
    document.querySelector("[data-live-state]")?.toggleAttribute("data-offline", isOffline);
  }

  setTimeout(look, wait);
}

function replace(part, html) {
  const before = new Map([...part.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.dataset.state]));
  const focused = document.activeElement?.closest?.("[data-row]")?.dataset.row;
  const focusedHref = document.activeElement?.getAttribute?.("href");
  part.innerHTML = html;
  renderTimes(part);
  for (const row of part.querySelectorAll("[data-row]")) {
    if (before.has(row.dataset.row) && before.get(row.dataset.row) !== row.dataset.state) row.classList.add("fresh");
  }
  if (focused) part.querySelector(`[data-row="${CSS.escape(focused)}"] [href="${CSS.escape(focusedHref || "")}"]`)?.focus();
}
