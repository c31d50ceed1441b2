// How this device's scanner is set up: what it puts around a code, and whether it types for a US keyboard while the
// system is set to another one. Learned by scanning one code whose text is known, and kept on the device. Whether it ends a
// code with Enter is learned from each code.

export const TEST_CODE = document.getElementById("station").dataset.testCode;
const KEPT = "edge-scanner";
// `layout` is "us" or "own" (the system's) once it is known. `end` is "enter" once a code has ended with one, `slowest` the longest time between two keys in ms, 0 if unknown.
const NOTHING = { prefix: "", suffix: "", layout: "", end: "", slowest: 0 };

let profile = read();

function read() {
  try {
    return { ...NOTHING, ...JSON.parse(localStorage.getItem(KEPT)) };
  } catch {
    return NOTHING; // edited by hand: start again
  }
}

export const current = () => profile;

export function learn(changes) {
  profile = { ...profile, ...changes };
  try {
    localStorage.setItem(KEPT, JSON.stringify(profile));
  } catch {
    // No room: it is known until the page is closed.
  }
}

export function forget() {
  localStorage.removeItem(KEPT);
  profile = read();
}

/** From the test code as it arrived, by character and by key: the profile, or null if it is not the test code. */
export function fromTest(typed, byKey) {
  for (const [text, layout] of [[typed, "own"], [byKey, "us"]]) {
    const at = text.indexOf(TEST_CODE);
    if (at >= 0) return { prefix: text.slice(0, at), suffix: text.slice(at + TEST_CODE.length), layout };
  }
  return null;
}

/** Remove this scanner's prefix and suffix from a code. */
export function bare(typed, byKey) {
  let text = profile.layout === "us" && byKey ? byKey : typed;
  if (profile.prefix && text.startsWith(profile.prefix)) text = text.slice(profile.prefix.length);
  if (profile.suffix && text.endsWith(profile.suffix)) text = text.slice(0, -profile.suffix.length);
  return text;
}

// What each key means on a US keyboard, plain and with Shift: nearly all scanners type for one.
const KEYS = {
  Minus: "-_", Equal: "=+", BracketLeft: "[{", BracketRight: "]}", Backslash: "\\|", IntlBackslash: "\\|",
  Semicolon: ";:", Quote: "'\"", Backquote: "`~", Comma: ",<", Period: ".>", Slash: "/?", Space: "  ",
  NumpadAdd: "++", NumpadSubtract: "--", NumpadMultiply: "**", NumpadDivide: "//", NumpadDecimal: "..",
};
const SHIFTED_DIGITS = ")!@#$%^&*(";

/** Character of a key event on a US keyboard; "" if unknown. */
export function usCharacter(event) {
  const { code, shiftKey } = event;
  if (/^Key[A-Z]$/.test(code)) {
    return shiftKey ? code[3] : code[3].toLowerCase(); // what the scanner means, whether or not Caps Lock is on
  }
  if (/^Digit\d$/.test(code)) return shiftKey ? SHIFTED_DIGITS[code[5]] : code[5];
  if (/^Numpad\d$/.test(code)) return code[6];
  return KEYS[code] ? KEYS[code][shiftKey ? 1 : 0] : "";
}
