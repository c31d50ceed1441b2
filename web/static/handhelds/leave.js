// Links that leave the page. Without a connection they would end on the browser's error page, with no way back on plain
// http, so the server is asked first.

import { $, say } from "./show.js";
import { greet, link } from "./sync.js";
import { t } from "./texts.js";

export function guardExits() {
  document.addEventListener("click", async (event) => {
    const anchor = event.target.closest("a[href]");
    if (!anchor || event.defaultPrevented) return;
    event.preventDefault();
    if (event.detail > 1) return; // the second tap of two was meant for what was there before
    if (await isReachable()) location.assign(anchor.href);
    else say(t("No connection: this page stays open"));
  });
  $("sign-out").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!(await isReachable())) return say(t("No connection: you stay signed in. Sign out when the connection is back"));
    if (link.state === "signed-out") return location.assign("/sign-in");
    const form = event.target;
    form.csrf.value = link.me ? link.me.csrf : "";
    form.submit();
  });
  $("sign-out").querySelector("button").disabled = false;
  addEventListener("beforeunload", (event) => {
    if (isSecureContext || link.state !== "offline") return;
    event.preventDefault(); // on plain http the page cannot be opened again without a connection
    event.returnValue = "";
  });
}

async function isReachable() {
  try {
    await greet();
  } catch (error) {
    link.state = error.state || "offline";
  }
  return link.state !== "offline"; // otherwise the server answers, and says what is wrong
}
