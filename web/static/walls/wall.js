// A wall: its content is live; the page loads itself again after an upgrade and once a day, but only while the server answers.

import { keepTimesCurrent } from "../times.js";
import { followLive } from "../live.js";

const LOOK_EVERY = 10000; // ms
const RELOAD_AFTER = 24 * 3600 * 1000; // ms; a browser that runs for months forgets nothing of its own accord
const loadedAt = performance.now();
let nextTry = 0;

keepTimesCurrent();
followLive();
keepAwake();
setInterval(reloadIfOutdated, LOOK_EVERY);
document.addEventListener("click", fillScreen);

async function reloadIfOutdated() {
  const build = document.querySelector("#wall [data-build]")?.dataset.build;
  const isOutdated = build && build !== document.body.dataset.build;
  if ((!isOutdated && performance.now() - loadedAt < RELOAD_AFTER) || performance.now() < nextTry) return;
  nextTry = performance.now() + 6 * LOOK_EVERY;
  const answer = await fetch(location.href, { cache: "no-store" }).catch(() => null);
  if (answer?.ok) location.reload();
}

// Only offered on https. It ends when the page is hidden.
async function keepAwake() {
  if (!navigator.wakeLock) return;
  const ask = () => document.hidden || navigator.wakeLock.request("screen").catch(() => null);
  document.addEventListener("visibilitychange", ask);
  ask();
}

function fillScreen() {
  if (!document.fullscreenElement) document.documentElement.requestFullscreen?.().catch(() => null);
}
