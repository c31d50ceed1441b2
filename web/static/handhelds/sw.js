
// The server puts VERSION and FILES above, so an upgrade changes this file and the browser installs it again.

const CACHE = `edge-${VERSION}`;
const PAGE = "/scan";
const PATIENCE = 2000; // ms

// The page is cached with the files it names, all of one version, or nothing is cached: if the person was signed out
// meanwhile, the page cannot be fetched, and the version before stays in use until the next visit.
self.addEventListener("install", (event) => {
  event.waitUntil(keepAll().then(() => self.skipWaiting()));
});

async function keepAll() {
  await caches.delete(CACHE); // after a rollback: the order of the caches is that of the installations
  const cache = await caches.open(CACHE);
  const page = await fetch(PAGE, { cache: "no-store" });
  if (!page.ok || page.redirected) throw new Error("Sign in to keep the scan page");
  await cache.addAll(FILES);
  await cache.put(PAGE, page);
}

// The files of the release before are kept, since a page of it may still be open.
self.addEventListener("activate", (event) => {
  event.waitUntil(caches.keys()
    .then((names) => Promise.all(names.slice(0, -2).map((name) => caches.delete(name))))
    .then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== location.origin) return;
  if (url.pathname === PAGE && request.mode === "navigate") event.respondWith(page(event));
  else if (url.pathname.startsWith("/static/")) event.respondWith(file(request));
});

// From the server if it answers within PATIENCE, otherwise from the cache: a radio that is connected but passes nothing would
// leave the screen empty for a minute.
async function page(event) {
  const cache = await caches.open(CACHE);
  const fresh = fetchPage(event.request, cache);
  event.waitUntil(fresh.catch(() => {}));
  const kept = await cache.match(PAGE);
  if (!kept) return fresh;
  return Promise.race([fresh.catch(() => kept), new Promise((resolve) => setTimeout(resolve, PATIENCE, kept))]);
}

// The whole page, since it may stop in the middle. It is cached because it may be in another language; but not the page of
// another version, whose files are not here.
async function fetchPage(request, cache) {
  const answer = await fetch(request);
  if (!answer.ok) return answer;
  const whole = new Response(await answer.blob(), { status: answer.status, headers: answer.headers });
  if (answer.headers.get("Edge-Version") === VERSION) await cache.put(PAGE, whole.clone());
  return whole;
}

async function file(request) {
  const kept = await caches.match(request);
  if (kept || !request.url.includes("/vendor/")) return kept || fetch(request);
  const answer = await fetch(request); // cached on first use: few devices need it, and it is large
  if (answer.ok && request.url.includes(`/${VERSION}/`)) (await caches.open(CACHE)).put(request, answer.clone());
  return answer;
}
