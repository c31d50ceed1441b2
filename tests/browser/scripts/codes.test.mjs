// What a code is before anything is looked up: cleaned, the link of a label, one identity for all spellings of GS1.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { cleaned, linkOf, looksLikeLocation } from "../../../web/static/handhelds/codes.js";
import { hasWrongCheckDigit, identity } from "../../../web/static/handhelds/gs1.js";
import { CodeIndex, matchKey, trimmed, TYPES } from "../../../web/static/handhelds/matching.js";

const read = (name) => JSON.parse(readFileSync(new URL(`../../records/${name}`, import.meta.url), "utf-8"));
const spellings = read("gs1-spellings.json");
const isBinary = (code) => /^(0x)?3[0-9a-f ]{20,}$/i.test(code); // only the server reads these

test("every spelling names the same thing as on the server, also after it was cleaned", () => {
  for (const [expected, code] of spellings.filter(([, one]) => !isBinary(one))) {
    if (!/^\]Q1|GS[>}]|\^\]|[|~]/.test(code)) assert.equal(identity(code), expected, code); // others are cleaned first
    assert.equal(identity(cleaned(code)), expected, code);
    assert.equal(hasWrongCheckDigit(code), false, code);
  }
});

test("what names no single thing has no identity", () => {
  for (const code of ["4006381333931", "(01)09506000134352", "https://id.gs1.org/01/09506000134352",
    "urn:epc:id:sgtin:0614141.81234.6789", "urn:epc:id:sgtin:0614141.812345", "urn:epc:tag:gid-96:1.2.3", "urn:epc:tag:", "ASSET-0001", "]C1", ""]) {
    assert.equal(identity(code), "", code);
  }
});

test("match keys and matches are those of the server", () => {
  for (const [type, code, key] of read("match-keys.json")) assert.equal(matchKey(type, code), key, `${type} ${code}`);
  const letters = Object.fromEntries(Object.entries(TYPES).map(([letter, type]) => [type, letter]));
  for (const [type, value, code, isMatch] of read("matching.json")) {
    const index = new CodeIndex();
    index.add(value, letters[type], "asset");
    if (identity(value)) index.add(identity(value), "g", "asset");
    assert.equal(index.find(trimmed(code), identity(trimmed(code))), isMatch ? "asset" : undefined, `${value} ${code}`);
  }
});

test("a code of several things is that of none", () => {
  const index = new CodeIndex();
  index.add("E2AA", "r", 1);
  index.add("00E2AA", "r", 2);
  assert.deepEqual([index.find("E2AA", ""), index.find("e2aa", ""), index.find("E2BB", "")], [1, undefined, undefined]);
  index.add("E2AA", "c", 2);
  assert.equal(index.find("E2AA", ""), undefined);
});

test("a wrong check digit is recognized", () => {
  for (const code of ["]C10180614141123459216789", "(00)106141412345678909", "HTTPS://ID.GS1.ORG/01/80614141123459/21/6789"]) {
    assert.equal(hasWrongCheckDigit(code), true, code);
  }
  for (const code of ["0180614141123459216789", "BC-0001", ""]) assert.equal(hasWrongCheckDigit(code), false, code);
});

test("what scanners add is removed", () => {
  for (const [arrived, code] of [["]C1BC-0001", "BC-0001"], [" BC-0001\u0000", "BC-0001"], ["]Q1http://box/l/A-1", "http://box/l/A-1"],
    ["]C10180614141123458216789", "0180614141123458216789"], ["[BC]", "[BC]"], ["AB|12~C", "AB|12~C"], ["{GS}", "{GS}"]]) {
    assert.equal(cleaned(arrived), code);
  }
});

test("the link of a label is read whatever the address and the case", () => {
  assert.deepEqual(linkOf("http://box.local:8080/l/RACK-A?x=1"), { kind: "location", key: "RACK-A" });
  assert.deepEqual(linkOf("HTTPS://BOX/A/P-1"), { kind: "asset", key: "P-1" });
  assert.equal(linkOf("https://id.gs1.org/01/80614141123458/21/6789"), null);
  assert.deepEqual(["http:/box/l/DOC", "http://box/l/%E0", "http://box/a/X", "L-1"].map(looksLikeLocation), [true, true, false, false]);
});
