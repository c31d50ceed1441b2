// GS1 codes without a connection: recognizes different spellings of one identifier, and codes that were misread. The rules
// are those of `edge/records/gs1.py`; only the server reads EPCs in their binary form.

import { hasCheckDigit } from "./matching.js";

const GROUP = "\u001d"; // FNC1, which ends a value of variable length
const WRITTEN = /<GS>|\{GS\}|\^\]|[|~]/g; // what scanners write for it
const SYMBOLOGY = /^\](?:C1|e0|d2|Q3|J1)/; // identifiers that announce an element string
const PLAIN = /^(?:00\d{18}|01\d{14}21[!-z]{1,20}|80030\d{13}[!-z]{1,16}|8004[!-z]{4,30}|414\d{13}254[!-z]+)$/;
const KEYS = ["00", "01", "8003", "8004"];
const LOCATION = "414"; // GLN; it names a location only if it comes first
const GRAI_LENGTH = 14; // a zero, and the number with its check digit; then the serial number

// General Specifications: application identifiers of three and four digits by their first two, and elements of a fixed
// length, identifier included.
const LONGER = { 23: 3, 24: 3, 25: 3, 40: 3, 41: 3, 42: 3, 71: 3, 31: 4, 32: 4, 33: 4, 34: 4, 35: 4, 36: 4, 39: 4, 43: 4, 70: 4, 72: 4, 80: 4, 81: 4, 82: 4 };
const FIXED = { "00": 20, "01": 16, "02": 16, "03": 16, "04": 18, 11: 8, 12: 8, 13: 8, 14: 8, 15: 8, 16: 8, 17: 8, 18: 8, 19: 8, 20: 4, 31: 10, 32: 10, 33: 10, 34: 10, 35: 10, 36: 10, 41: 16 };

/** `(01)80614141123458(21)6789` and the like; "" for a code that identifies no single item by the GS1 standards. */
export function identity(code) {
  const values = elements(code.trim());
  if (!values) return "";
  const key = KEYS.find((one) => values.has(one));
  if (key === "01") return values.has("21") ? `(01)${values.get("01").padStart(14, "0")}(21)${values.get("21")}` : "";
  if (key === "8003") return values.get(key).length > GRAI_LENGTH ? `(8003)${values.get(key)}` : "";
  if (key) return `(${key})${values.get(key)}`;
  if (values.keys().next().value !== LOCATION) return "";
  return `(414)${values.get(LOCATION)}${values.has("254") ? `(254)${values.get("254")}` : ""}`;
}

/** The code with its separators, if it is a GS1 code whose scanner writes them as other characters. */
export function separated(code) {
  const written = code.replace(WRITTEN, GROUP);
  return written !== code && identity(written) ? written : code;
}

/** Whether a code claims to be GS1 and its check digit is wrong. */
export function hasWrongCheckDigit(code) {
  const text = code.trim();
  const values = PLAIN.test(text) ? null : elements(text);
  return Boolean(values) && isMisread(values);
}

function isMisread(values) {
  return [["00", 18], ["01", 14], ["8003", GRAI_LENGTH]].some(([key, length]) => {
    const digits = (values.get(key) || "").slice(0, length);
    return /^\d{8,}$/.test(digits) && !hasCheckDigit(digits.padStart(length, "0"));
  });
}

function elements(text) {
  if (/^urn:epc:/i.test(text)) return ofUri(text);
  if (/^https?:\/\//i.test(text)) return ofLink(text);
  if (text.startsWith("(")) return new Map(Array.from(text.matchAll(/\((\d{2,4})\)([^(]+)/g), ([, key, value]) => [key, value]));
  const message = text.replace(SYMBOLOGY, "");
  if (message === text && !text.includes(GROUP) && !PLAIN.test(text)) return null;
  return ofMessage(message);
}

function ofMessage(message) {
  const values = new Map();
  let rest = message;
  while (rest.startsWith(GROUP)) rest = rest.slice(1);
  while (rest) {
    const start = rest.slice(0, 2);
    const end = FIXED[start] || (rest.includes(GROUP) ? rest.indexOf(GROUP) : rest.length);
    const digits = LONGER[start] || 2;
    if (!/^\d\d$/.test(start) || end > rest.length || end <= digits) return null;
    values.set(rest.slice(0, digits), rest.slice(digits, end));
    rest = rest.slice(end);
    if (rest.startsWith(GROUP)) rest = rest.slice(1);
  }
  return values;
}

// Schemes of EPC URIs: the key they stand for, and how many digits company and number have together.
const SCHEMES = { sgtin: ["01", 13], sscc: ["00", 17], grai: ["8003", 12], giai: ["8004", 0], sgln: [LOCATION, 12] };
const URI = /^urn:epc:(?:id:(sgtin|sscc|grai|giai|sgln):|tag:(sgtin|sscc|grai|giai|sgln)-\d+:\d\.)/i;

function ofUri(text) {
  const start = URI.exec(text);
  if (!start) return null;
  const scheme = (start[1] || start[2]).toLowerCase();
  const [company, number = "", ...more] = text.slice(start[0].length).split(".");
  const [key, length] = SCHEMES[scheme];
  const serial = decoded(more.join("."));
  if (scheme === "giai") return new Map([[key, company + decoded([number, ...more].join("."))]]);
  const digits = ["grai", "sgln"].includes(scheme) ? company + number : number.slice(0, 1) + company + number.slice(1); // the indicator is first
  if (!/^\d+$/.test(digits) || digits.length !== length || (scheme !== "sscc" && !serial)) return null;
  const checked = withCheckDigit(digits);
  if (scheme === "sscc" || (scheme === "sgln" && serial === "0")) return new Map([[key, checked]]);
  if (scheme === "sgln") return new Map([[key, checked], ["254", serial]]);
  return scheme === "grai" ? new Map([[key, `0${checked}${serial}`]]) : new Map([[key, checked], ["21", serial]]);
}

const withCheckDigit = (digits) => Array.from("0123456789", (last) => digits + last).find(hasCheckDigit);

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // a percent sign that was misread
  }
}

function ofLink(text) {
  const segments = text.replace(/[?#].*$/, "").split("/").slice(3);
  const start = segments.findIndex((part, at) => [...KEYS, LOCATION].includes(part) && (segments.length - at) % 2 === 0);
  if (start < 0) return null;
  const values = new Map();
  try {
    for (let at = start; at < segments.length; at += 2) values.set(segments[at], decodeURIComponent(segments[at + 1]));
  } catch {
    return null; // a percent sign that was misread
  }
  return values;
}
