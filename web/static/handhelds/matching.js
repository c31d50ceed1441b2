// How codes match tags: the rules of `edge/records/tags.py`, tested with the same vectors.

const ENDS = /^[\s\x1c-\x1f\x85\p{Cf}]+|[\s\x1c-\x1f\x85\p{Cf}]+$/gu; // whitespace, and characters that nobody sees
const SYMBOLOGY = /^\][A-Za-z][0-9A-Za-z]/;
const UUID = "([0-9a-f]{8}[-_]?(?:[0-9a-f]{4}[-_]?){3}[0-9a-f]{12})";
const BEACON = new RegExp(`^(?:ibeacon:)?${UUID}[-:_/., ]([0-9]{1,5})[-:_/., ]([0-9]{1,5})$`, "i");
const EDDYSTONE = /^(?:eddy:)?([0-9a-f]{20})[-:_/., ]([0-9a-f]{12})$/i;
const GTIN = /^(?:[0-9]{8}|[0-9]{12,14})$/; // GTIN-8, UPC-A, EAN-13 and GTIN-14 of one product

/** The kinds of codes in the copy of the assets, by their letters; "g" is a GS1 identity. */
export const TYPES = { r: "rfid", b: "ble", c: "barcode" };

const SEVERAL = Symbol("several"); // things have the code

export const trimmed = (code) => code.replace(ENDS, "");

/** The key by which tags that are not equal are compared, for a type of tag; "" never matches. */
export function matchKey(type, code) {
  const value = trimmed(code);
  if (type === "ble") return ofBle(value);
  if (type === "rfid") return ofRfid(value.toUpperCase());
  const bare = value.replace(SYMBOLOGY, "");
  return GTIN.test(bare) && hasCheckDigit(bare) ? bare.padStart(14, "0") : bare;
}

/** Whether the last digit is the check digit of GS1. */
export function hasCheckDigit(digits) {
  const sum = Array.from(digits).reverse().reduce((total, digit, at) => total + digit * (at % 2 ? 3 : 1), 0);
  return sum % 10 === 0;
}

function ofBle(value) {
  const beacon = BEACON.exec(value);
  if (beacon) return `${beacon[1].replace(/[-_]/g, "").toLowerCase()}:${Number(beacon[2])}:${Number(beacon[3])}`;
  const frame = EDDYSTONE.exec(value);
  return (frame ? frame[1] + frame[2] : trimmed(value.replace(/[-: _/.]/g, ""))).toUpperCase();
}

function ofRfid(upper) {
  const bare = upper.replace(/[ -]/g, "").replace(/^0X/, "");
  return /^[0-9A-F]+$/.test(bare) ? bare.replace(/^0+/, "") : upper;
}

/** An index of things with codes of known kinds. */
export class CodeIndex {
  constructor() {
    this.exact = new Map();
    this.byKey = new Map(); // `type:key`
    this.byIdentity = new Map();
  }

  /** `letter`: of the kind; a code of unknown kind, as of an earlier release, is only compared exactly. */
  add(code, letter, thing) {
    if (letter === "g") return enter(this.byIdentity, code, thing);
    enter(this.exact, code, thing);
    const type = TYPES[letter];
    const key = type && matchKey(type, code);
    if (key) enter(this.byKey, `${type}:${key}`, thing);
  }

  /** The thing of a code: by the exact value, else by the match keys, else by the GS1 identity; undefined if several have it. */
  find(code, identity) {
    const matching = () => Object.values(TYPES).map((type) => this.byKey.get(`${type}:${matchKey(type, code)}`));
    for (const found of [() => [this.exact.get(code)], matching, () => [this.byIdentity.get(identity)]]) {
      const things = found().filter((one) => one !== undefined);
      if (things.length) return things.every((one) => one === things[0]) && things[0] !== SEVERAL ? things[0] : undefined;
    }
    return undefined;
  }
}

/** Note the thing of a key, without a collection for each of many thousand keys. */
function enter(map, key, thing) {
  map.set(key, [undefined, thing].includes(map.get(key)) ? thing : SEVERAL);
}
