// Codes that may be a badge. The device knows ten bits of each badge of the site, no badge: enough to ask the server
// before it stores such a code.

const KEPT = "edge-badges";

/** From the server: `{ salt, marks }`. */
export function keepMarks(badges) {
  localStorage.setItem(KEPT, JSON.stringify(badges));
}

export function mayBeBadge(code) {
  const { salt, marks } = read();
  return marks.length > 0 && marks.includes(markOf(salt + code.trim()));
}

function read() {
  try {
    return { salt: "", marks: [], ...JSON.parse(localStorage.getItem(KEPT)) };
  } catch {
    return { salt: "", marks: [] }; // edited by hand
  }
}

/** As on the server: `mark` in `edge/people/passwords.py`. */
export function markOf(text) {
  let state = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) state = Math.imul(state ^ byte, 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 22;
}
