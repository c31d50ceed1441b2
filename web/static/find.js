// The search field of every page: "/" goes to it, results appear while typing, and arrow keys go through them.

import { t } from "./handhelds/texts.js";

const PAUSE = 150; // ms after the last key
const form = document.querySelector(".find");
if (form) followTyping(form, form.querySelector("input"), form.querySelector(".found"));

function followTyping(form, field, found) {
  let timer, asked;

  async function ask() {
    const q = field.value.trim();
    asked = q;
    const answer = q && (await fetch(`/find?part=1&q=${encodeURIComponent(q)}`).catch(() => null));
    if (asked !== q) return; // somebody typed on
    found.innerHTML = answer && answer.ok && !answer.redirected ? await answer.text() : "";
    show(Boolean(found.innerHTML.trim()));
  }

  function show(is) {
    found.hidden = !is;
  }

  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, PAUSE);
  });
  field.addEventListener("focus", () => show(Boolean(found.innerHTML.trim())));
  form.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && !form.contains(relatedTarget) && show(false));
  document.addEventListener("click", ({ target }) => form.contains(target) || show(false));
  form.addEventListener("keydown", (event) => {
    const places = [field, ...found.querySelectorAll("a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      field.focus();
      show(false);
    } else if (step && !found.hidden) {
      event.preventDefault();
      places[(places.indexOf(document.activeElement) + step + places.length) % places.length].focus();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.altKey || event.metaKey || document.querySelector("[data-scan]")) return;
    event.preventDefault();
    field.focus(); // select() does not do that in every browser
    field.select();
  });
  field.title = t("Press / to search");
}
