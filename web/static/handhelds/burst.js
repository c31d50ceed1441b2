// Distinguish a scanner's typing in a field from a person's by its speed. A few slow keys do not matter.

import { LONG_PAUSE, SHORTEST } from "./assembly.js";

const FAST = 50; // ms between two keys; nobody types 20 characters a second
const FEWEST = SHORTEST - 1; // fast pairs of keys
const SHARE = 3; // fast pairs for each slow one

/** `before`: the content of the field before the first key; `text` and `usual` as typed, and as on a US keyboard. */
export function burst() {
  const none = { field: null, before: "", text: "", usual: "", fast: 0, slow: 0, at: -Infinity, isInserted: false };
  let one = none;

  return {
    key(field, character, usual, moment) {
      const gap = moment - one.at;
      const slow = one.slow + (gap > FAST);
      const goesOn = field === one.field && !one.isInserted && gap < LONG_PAUSE && slow * SHARE <= one.fast;
      one = goesOn
        ? { ...one, text: one.text + character, usual: one.usual + usual, fast: one.fast + (gap <= FAST), slow, at: moment }
        : { ...none, field, before: field.value, text: character, usual, at: moment };
    },

    /** Note a text inserted by an input method. */
    insert(field, text, moment) {
      one = { ...none, field, before: field.value, text, usual: text, at: moment, isInserted: text.length >= SHORTEST };
    },

    /** Return what a scanner typed into the field, or null; `moment` is the time of the Enter after it. */
    ofScanner(field, moment) {
      const burst = one;
      one = none;
      if (field !== burst.field || moment - burst.at > LONG_PAUSE) return null;
      return (burst.isInserted ? moment - burst.at <= FAST : burst.fast >= FEWEST) ? burst : null;
    },

    isGoingOn: (field) => field === one.field && one.fast >= FEWEST,
    soFar: () => one,
  };
}
