// Open alerts of rules, shown above the result. Without a connection the last ones are shown with their time, so nobody
// takes them for the present state. Starts when it is loaded, which is tried again until it succeeds.

import { siteNow } from "./clock.js";
import * as queue from "./queue.js";
import { signedIn } from "./session.js";
import { fill } from "./sheets.js";
import { $ } from "./show.js";
import { ask } from "./sync.js";
import { t } from "./texts.js";
import { clockTime } from "../times.js";

const EVERY = 10000; // ms

let isOld = true; // no answer since the page was loaded, or to the last question
let [asked, answered] = [0, 0];
let kept = null; // { organization, at, total, newest: [[sentence, ms]] }

async function start() {
  kept = await queue.load("alerts").catch(() => null); // a database that fails now may work at the next answer
  draw();
  setInterval(() => document.hidden || refresh(), EVERY);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  addEventListener("online", refresh);
  addEventListener("offline", refresh);
  await refresh();
}

async function refresh() {
  const [by, no] = [signedIn(), asked += 1];
  if (!navigator.onLine) isOld = true;
  else if (by) {
    const answer = await ask("/scan/alerts").catch(() => null); // offline or signed out: the last ones stay, marked as old
    if (no < answered) return; // a later question was answered before
    isOld = !answer;
    if (answer) {
      answered = no;
      kept = { organization: by.organization, at: siteNow(), total: answer.total, newest: answer.newest };
      queue.save("alerts", kept).catch(() => {}); // without room for it they are shown all the same
    }
  }
  draw();
}

function draw() {
  const by = signedIn();
  const isShown = Boolean(by && kept && kept.organization === by.organization && kept.total);
  $("alerts").hidden = !isShown;
  if (!isShown) return;
  fill($("alert-list"), kept.newest.map(([sentence, at]) => {
    const line = document.createElement("li");
    line.textContent = `${clockTime(at)} ${sentence}`;
    return line;
  }));
  $("alerts-all").textContent = t("All alerts: {number}", { number: kept.total });
  $("alerts-old").hidden = !isOld;
  if (isOld) $("alerts-old").textContent = t("No connection. As of {time}", { time: clockTime(kept.at) });
}

start();
