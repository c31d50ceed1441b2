// Hardware scanners type. Their keys are caught anywhere on the page while no field has the focus.
// A code ends with Enter, Tab, CR, LF, or with a pause; an AIM prefix (]C1) is taken off.

const PAUSE = 300; // ms without a key: a scanner that sends no Enter has ended; a slow handheld may hang that long
const LONG_PAUSE = 1500; // once it is known that the scanner does send one: a busy page must not cut a code in two
const REST = 200; // ms after a code: some scanners end it with two keys
const SHORTEST = 4; // of a code that only a pause ended: less is a person who hit a key

export function listen(onCode, onRaw = () => {}) {
  let typed = "";
  let timer = 0;
  let endedAt = -Infinity;
  let pause = PAUSE;

  function end(byPause) {
    clearTimeout(timer);
    const code = cleaned(typed);
    const length = typed.length;
    typed = "";
    endedAt = performance.now();
    if (code && (!byPause || length >= SHORTEST)) onCode(code);
  }

  document.addEventListener("keydown", (event) => {
    onRaw(event);
    if (isField(event.target) || event.metaKey || (event.ctrlKey && !event.altKey)) return;
    if (event.key === "Enter" || event.key === "Tab" || event.key === "\r" || event.key === "\n") {
      if (!typed) { // a person: Enter presses the focused button, Tab goes on; unless it is the LF after a CR
        if (performance.now() - endedAt < REST) event.preventDefault();
        return;
      }
      event.preventDefault();
      pause = LONG_PAUSE;
      end(false);
    } else if (event.key.length === 1) {
      if (event.key === " " && !typed) return; // a person: Space presses the focused button
      event.preventDefault();
      typed += event.key;
      clearTimeout(timer);
      timer = setTimeout(end, pause, true);
    }
  }, true);

  // The key that ended a code must not press the button that happens to have the focus.
  document.addEventListener("keyup", (event) => {
    if (typed && event.key === " " && !isField(event.target)) event.preventDefault();
  }, true);

  // Some scanners paste.
  document.addEventListener("paste", (event) => {
    if (isField(event.target)) return;
    for (const line of event.clipboardData.getData("text").split(/[\r\n\t]+/)) {
      const code = cleaned(line);
      if (code) onCode(code);
    }
  });
}

export function cleaned(text) {
  return text.replace(/^\][A-Za-z][0-9A-Za-z]/, "").replace(/[\u0000-\u001f\u007f]/g, "").trim();
}

function isField(target) {
  return target instanceof HTMLElement && Boolean(target.closest("input, textarea, select, [contenteditable]"));
}
