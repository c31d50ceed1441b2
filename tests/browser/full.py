"""Fill the storage of a browser: its real quota, set before the page opens its database."""

from __future__ import annotations

from playwright.sync_api import Page

QUOTA = 3_000_000  # bytes

# Random bytes, since the database compresses, until not even ten bytes fit.
FILL = """async () => {
  const base = await new Promise((done, fail) => {
    const request = indexedDB.open("edge-scan");
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
  const put = (name, value) => new Promise((done) => {
    const transaction = base.transaction(["kept"], "readwrite", { durability: "strict" });
    transaction.objectStore("kept").put(value, name);
    transaction.oncomplete = () => done(true);
    transaction.onabort = () => done(false);
  });
  const noise = (size) => {
    const bytes = new Uint8Array(size);
    for (let at = 0; at < size; at += 65536) crypto.getRandomValues(bytes.subarray(at, Math.min(size, at + 65536)));
    return bytes;
  };
  let no = 0;
  for (let size = 500000; size >= 10; size /= 2) while (await put(`junk${no++}`, noise(Math.floor(size))));
  base.close();
}"""


def limit_storage(page: Page) -> None:
    """Give the site few bytes. Call it before the scan page is opened."""
    client = page.context.new_cdp_session(page)
    origin = page.evaluate("location.origin")
    client.send("Storage.overrideQuotaForOrigin", {"origin": origin, "quotaSize": QUOTA})


def fill_storage(page: Page) -> None:
    page.evaluate(FILL)
