import assert from "node:assert/strict";
import { test } from "node:test";
import * as json from "../src/lib/json.js";
import { asserts, fill, isSecret, paths, replaced, used, valueRaw, valueText } from "../src/lib/saved.js";

test("variables are filled in as they stand, and places lead back", () => {
  const text = '{"a":{{much}},"b":"{{name}} {{none}}","c":1}';
  const { text: filled, back } = fill(text, [{ name: "much", value: "42" }, { name: "name", value: "{{much}}" }, { name: "", value: "x" }]);
  assert.equal(filled, '{"a":42,"b":"{{much}} {{none}}","c":1}');
  for (const [there, here] of [[0, 0], [5, 5], [6, 5], [7, 13], [12, 18], [14, 19], [15, 19], [20, 19], [21, 27], [filled.length, text.length]]) assert.equal(back(there), here, "offset " + there);
  assert.deepEqual(used(text + "{{much}}"), ["much", "name", "none"]);
  assert.equal(fill("{{a}}{{a}}", [{ name: "a", value: "" }]).text, "");
});

test("a variable is a value where one belongs, if it is known", () => {
  const text = '[{{a}}, {"b": {{a.b}}}]';
  const { root } = json.parse(text, ["a", "a.b"]);
  assert.equal(json.raw(text, json.get(root, [1, "b"])), "{{a.b}}");
  assert.equal(json.oneLine(text, root), '[{{a}},{"b":{{a.b}}}]');
  assert.ok(json.parse(text, ["a"]).error);
  assert.ok(json.parse(text).error);
  assert.equal(json.parse("{}", ["a"]).root.type, "object");
});

test("the value of a check is typed as it is meant", () => {
  for (const [raw, shown] of [["19", "19"], ["9007199254740993", "9007199254740993"], ['"ab"', "ab"], ['"19"', '"19"'], ['"true"', '"true"'], ['""', '""'], ['" a"', '" a"'], ["null", "null"], ['{"a": 1e2}', '{"a": 1e2}'], ["", ""]]) {
    assert.equal(valueText(raw), shown);
    if (raw) assert.equal(valueRaw(shown), raw);
  }
  assert.equal(valueRaw("^a$"), '"^a$"');
  assert.deepEqual(asserts([{ path: " $.a ", is: "exists", value: "x" }, { path: "", is: "equals", value: "" }, { path: "$", is: "less", value: "3" }]), [{ path: "$.a", is: "exists" }, { path: "$", is: "less", raw: "3" }]);
});

test("the paths of an answer are those that a check can have", () => {
  assert.deepEqual(paths('{"jsonrpc":"2.0","id":1,"result":{"a":[1,{"b c":2}]}}'), ["$.result", "$.result.a", "$.result.a[0]", "$.result.a[1]", '$.result.a[1]["b c"]']);
  assert.equal(paths("[" + "[1],".repeat(500) + "1]", 10).length <= 10, true);
  assert.deepEqual(paths("no JSON"), []);
});

test("the variables of an environment replace those of a call", () => {
  const own = [{ name: "a", value: "1" }, { name: "b", value: "2" }];
  assert.deepEqual(replaced(own, { b: "3", c: "4" }), [own[0], { name: "b", value: "3" }, { name: "c", value: "4" }]);
  assert.deepEqual(replaced(own), own);
  assert.deepEqual(asserts([{ path: "$.{{a}}", is: "equals", value: "{{b}}" }], replaced(own, { b: "3" })), [{ path: "$.1", is: "equals", raw: "3" }]);
  assert.deepEqual(["api_key", "accessToken", "guests"].map(isSecret), [true, true, false]);
});
