// The document under the form: edits touch only what they name, and numbers stay as they were typed.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as json from "../src/lib/json.js";

const at = (text, path) => json.raw(text, json.get(json.parse(text).root, path));

test("parse says where a text stops being JSON", () => {
  const cases = [
    ["", 0, "The message is empty."],
    ["{", 1, "The JSON ends too early."],
    ['{"a" 1}', 5, "Expected a colon."],
    ['{"a":1,}', 7, "Expected a name in quotes."],
    ["[1 2]", 3, "Expected a comma or ]."],
    ["[01]", 2, "Expected a comma or ]."],
    ['"a\nb"', 2, "A string contains an unescaped control character."],
    ['"\\x"', 0, "The string has an invalid escape."],
    ["1 2", 2, "There is text after the end."],
    ["nul", 0, "This is not a JSON value."],
    ["[".repeat(1000), 401, "The JSON is nested too deeply."],
  ];
  for (const [text, where, what] of cases) assert.deepEqual(json.parse(text).error, { at: where, text: what }, text.slice(0, 20));
});

test("parse agrees with the engine's parser", () => {
  const texts = ['{"a":[1,-0.5e+3,true,null,"\\u00e9"],"b":{}}', "[]", " 7 ", '"x"', "{}", "-", "[1,]", '{"a":}', "1e", "tru", '{"a":1 "b":2}'];
  for (const text of texts) {
    let valid = true;
    try {
      JSON.parse(text);
    } catch {
      valid = false;
    }
    assert.equal(Boolean(json.parse(text).root), valid, text);
  }
});

test("set changes one value and no other byte", () => {
  const text = '{\n  "id": 12345678901234567890,\n  "params": {"a": 1.10}\n}';
  const { root } = json.parse(text);
  const out = json.apply(text, json.set(text, root, ["params", "a"], "2"));
  assert.equal(out, text.replace("1.10", "2"));
  assert.equal(at(out, ["id"]), "12345678901234567890");
});

test("set makes what is missing, in the layout that is there", () => {
  const wide = '{\n  "a": 1\n}';
  assert.equal(json.apply(wide, json.set(wide, json.parse(wide).root, ["b", "c"], "2")), '{\n  "a": 1,\n  "b": {"c": 2}\n}');
  const flat = "{}";
  assert.equal(json.apply(flat, json.set(flat, json.parse(flat).root, ["x"], '"y"')), '{"x": "y"}');
  const list = "[1]";
  assert.equal(json.apply(list, json.set(list, json.parse(list).root, [1], "2")), "[1,2]");
});

test("remove takes a member with its comma", () => {
  for (const [text, path, want] of [
    ['{"a":1,"b":2,"c":3}', ["b"], '{"a":1,"c":3}'],
    ['{"a":1,"b":2}', ["b"], '{"a":1}'],
    ['{"a":1}', ["a"], "{}"],
    ["[1,2,3]", [0], "[2,3]"],
  ]) assert.equal(json.apply(text, json.remove(text, json.parse(text).root, path)), want);
  assert.equal(json.remove("{}", json.parse("{}").root, ["a"]), undefined);
});

test("one line and many lines are the same document", () => {
  const text = ' { "id" : 1.0 , "params" : [ "a b" , { "x" : [ ] } ], "id":2 } ';
  const { root } = json.parse(text);
  const line = json.oneLine(text, root);
  assert.equal(line, '{"id":1.0,"params":["a b",{"x":[]}],"id":2}');
  const spread = json.spread(text, root, 20);
  assert.equal(json.oneLine(spread, json.parse(spread).root), line);
  assert.ok(spread.includes("\n"));
});

test("pathAt finds the innermost value, pointer writes it", () => {
  const text = '{"params":{"a/b":[1,{"c~":2}]}}';
  const { root } = json.parse(text);
  assert.equal(json.pointer(json.pathAt(root, text.indexOf("2}"))), "/params/a~1b/1/c~0");
});

test("tokens lose nothing", () => {
  for (const line of ['  "a": [1, "x\\"y", true], junk {', "roots: cache miss", '"open', ""]) assert.equal(json.tokens(line).map(([, t]) => t).join(""), line);
});

test("plain shows what hides or turns text", () => {
  assert.equal(json.plain("a\u202eb\u0000\ufeff"), "a\u2039U+202E\u203ab\u2039U+0000\u203a\u2039U+FEFF\u203a");
  assert.equal(json.plain("a\u{e0041}b"), "a\u2039U+E0041\u203ab");
  assert.equal(json.plain("<script>\u00e9 \u4e2d"), "<script>\u00e9 \u4e2d");
});
