// Plays back the trail of an asset over a day in half a minute, with a slider to look at any moment.

import { LOCALES, t } from "../handhelds/texts.js";

const PLAY_SECONDS = 30;
const player = document.getElementById("player");
if (player) play();

function play() {
  const [since, until] = [Number(player.dataset.since), Number(player.dataset.until)];
  const steps = player.dataset.steps.split(";").filter(Boolean).map((step) => step.split(",").map(Number));
  const [button, slider, clock] = ["play", "moment", "clock"].map((id) => document.getElementById(id));
  const walker = document.getElementById("walker");
  const drawing = walker.ownerSVGElement;
  const frame = drawing.parentElement; // narrower than the drawing on a phone
  const time = new Intl.DateTimeFormat(LOCALES, {
    hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZone: document.body.dataset.zone || undefined,
  });
  let isPlaying = false;
  let last = 0;

  function show() {
    const moment = since + (until - since) * (slider.value / slider.max);
    const step = steps.filter(([at]) => at <= moment).pop();
    walker.toggleAttribute("hidden", !step);
    if (step) {
      walker.setAttribute("cx", step[1]);
      walker.setAttribute("cy", step[2]);
      frame.scrollLeft = (step[1] / drawing.viewBox.baseVal.width) * frame.scrollWidth - frame.clientWidth / 2;
    }
    clock.textContent = time.format(moment);
    slider.setAttribute("aria-valuetext", clock.textContent);
  }

  function tick(now) {
    if (!isPlaying) return;
    slider.value = Number(slider.value) + ((now - last) / 1000 / PLAY_SECONDS) * slider.max;
    last = now;
    show();
    if (Number(slider.value) >= Number(slider.max)) return stop();
    requestAnimationFrame(tick);
  }

  function stop() {
    isPlaying = false;
    button.textContent = t("Play");
  }

  button.addEventListener("click", () => {
    if (isPlaying) return stop();
    if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
    isPlaying = true;
    button.textContent = t("Pause");
    last = performance.now();
    requestAnimationFrame(tick);
  });
  slider.step = "any";
  slider.addEventListener("input", () => { stop(); show(); });
  player.hidden = false;
  show();
}

for (const form of document.querySelectorAll("[data-one-day]")) {
  form.addEventListener("submit", () => { form.elements.to.value = form.elements.from.value; });
}
