// To whom a question belongs, and what cannot be seen.
import assert from "node:assert/strict";
import { test } from "node:test";
import { coded, plain } from "../src/lib/json.js";
import { QUIET, ofOthers } from "../src/lib/question.js";

test("a question of another tab belongs to that tab; one without an owner belongs to all", () => {
  assert.equal(ofOthers({ page: "a" }, "a"), false);
  assert.equal(ofOthers({ page: "a" }, "b"), true);
  assert.equal(ofOthers({}, "b"), false);
  assert.equal(ofOthers({ page: "" }, "b"), false);
  assert.equal(QUIET, 500);
});

test("characters that hide, turn or steer are shown", () => {
  for (const [text, want] of [["a\u202eb", "a‹U+202E›b"], ["\u{e0041}", "‹U+E0041›"], ["\u200b\u200d\u2060\ufeff", "‹U+200B›‹U+200D›‹U+2060›‹U+FEFF›"], ["\u3164\u115f\u034f", "‹U+3164›‹U+115F›‹U+034F›"], ["\u001b[31m\u009b", "‹U+001B›[31m‹U+009B›"], ["a\tb\nü😀", "a\tb\nü😀"]]) assert.equal(plain(text), want);
});

test("JSON with escapes is the same value", () => {
  const value = "a\u202e\u{e0041}\u200b\n\"ü";
  assert.equal(coded(JSON.stringify(value)), '"a\\u202e\\udb40\\udc41\\u200b\\n\\"ü"');
  assert.equal(JSON.parse(coded(JSON.stringify(value))), value);
});
