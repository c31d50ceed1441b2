// Puts keys and inserted texts together to codes, in their order and by the times at which they were made: a page that
// hangs divides no code and joins no two. A code ends with Enter, Tab, CR or LF. Of a scanner that is known to send one,
// silence ends only what the device knows as a whole; anything else is a part of a code and is never taken for one.

export const SHORTEST = 4; // of a code that only silence ended: less is a person who hit a key
export const LONG_PAUSE = 1500; // ms without a key: the scanner has ended, however slow the handheld
const PAUSE = 300; // ms, after a code that the device knows; no scanner is slower between two keys
const SHORTEST_PAUSE = 150; // ms
const LATE = 50; // ms: a timer that is later than this says that the page hung; keys may wait to be delivered
const MOST_DELAYS = 20;
const REST = 200; // ms after a code: some scanners end it with two keys
const REST_WITHIN = 30000; // ms: the rest of a code that hung may still come

/**
 * `onCode(text, usual)`: a code as typed, and as on a US keyboard. `onPart(text, usual)`: it did not arrive whole.
 * `onEmpty()`: nothing is begun. `isWhole(text, usual)`: whether the device knows it, and nothing longer that begins with
 * it. `sendsEnter()` and `learnEnter(is)`, `slowest()` and `learnSlowest(gap)`: what is known of this scanner; the longest time
 * between two of its keys in ms, 0 if unknown. A code that begins too soon after `since`, when the page began to listen, may
 * be the rest of one: its first keys would have gone to the page before.
 */
export function assembly({
  onCode, onPart, onEmpty, isWhole, sendsEnter, learnEnter, slowest, learnSlowest, clock = performance, timers = window, since = clock.now(),
}) {
  let [isFirst, isTail, gap] = [true, false, 0];
  let [text, usual, inserted] = ["", "", ""]; // `inserted` may still be changed by an input method
  let part = { text: "", at: -Infinity };
  let ended = { at: -Infinity, bySilence: false };
  let [at, timer, delays] = [0, 0, 0];

  const isEmpty = () => !text && !inserted;
  const whole = () => [text + inserted, usual + inserted];

  function clear() {
    timers.clearTimeout(timer);
    [text, usual, inserted] = ["", "", ""];
    onEmpty();
  }

  function wait(until) {
    timers.clearTimeout(timer);
    timer = timers.setTimeout(onTimer, Math.max(0, until - clock.now()), until);
  }

  function onTimer(due) {
    const now = clock.now();
    if (now - due > LATE && delays < MOST_DELAYS) {
      delays += 1;
      return wait(now + LATE);
    }
    if (!endIfSilent(now)) wait(at + LONG_PAUSE);
  }

  /** End what was begun if nothing came for long enough before `now`. */
  function endIfSilent(now) {
    if (isEmpty()) return true;
    const silence = now - at + 1; // timers are rounded
    const isLong = silence >= LONG_PAUSE;
    if (!isLong && (silence < PAUSE || sendsEnter())) return false;
    const [code, isRest] = [whole(), isTail];
    const isKnown = code[0].length >= SHORTEST && isWhole(...code);
    if (!isLong && !isKnown) return false;
    clear();
    if (code[0].length < SHORTEST) return true;
    if (isRest) {
      onPart(...code);
      return true;
    }
    if (!sendsEnter() || isKnown || code[0] === part.text) {
      if (ended.bySilence || code[0] === part.text) learnEnter(false); // twice in a row
      part = { text: "", at: -Infinity };
      ended = { at: now, bySilence: true };
      onCode(...code);
    } else {
      part = { text: code[0], at: now };
      onPart(...code);
    }
    return true;
  }

  function began(moment) {
    endIfSilent(moment);
    if (!isEmpty()) gap = Math.max(gap, moment - at);
    else [isTail, isFirst, gap] = [isFirst && moment - since < pauseAfterLoad(), false, 0];
    [at, delays] = [moment, 0];
    wait(moment + (sendsEnter() ? LONG_PAUSE : PAUSE));
  }

  const pauseAfterLoad = () => (slowest() ? Math.max(SHORTEST_PAUSE, 2 * slowest()) : PAUSE);

  return {
    isEmpty,

    key(character, onUsKeyboard, moment) {
      began(moment);
      [text, usual, inserted] = [text + inserted + character, usual + inserted + onUsKeyboard, ""];
    },

    /** The text that was inserted since the last key, as far as it has come. */
    insert(content, moment) {
      began(moment);
      inserted = content;
    },

    /** Enter or the like came; false if it ends nothing and is a person's. */
    end(moment) {
      endIfSilent(moment);
      if (isEmpty()) {
        if (part.text && moment - part.at < REST_WITHIN) return true;
        const isOfCode = moment - ended.at < (ended.bySilence ? LONG_PAUSE : REST);
        if (isOfCode) learnEnter(true);
        return isOfCode;
      }
      const code = whole();
      const isRest = isTail || (part.text && moment - part.at < REST_WITHIN && !code[0].startsWith(part.text));
      if (code[0].length >= SHORTEST && gap > slowest() && gap < PAUSE) learnSlowest(Math.ceil(gap));
      clear();
      part = { text: "", at: -Infinity };
      ended = { at: moment, bySilence: false };
      learnEnter(true);
      (isRest ? onPart : onCode)(...code);
      return true;
    },
  };
}
