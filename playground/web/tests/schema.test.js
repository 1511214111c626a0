// Forms from schemas: a value to begin with, and no silent change of what was typed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { choices, fields, hint, sample, written } from "../src/lib/schema.js";

test("a sample has what is required and no more", () => {
  const schema = { type: "object", properties: { name: { type: "string" }, guests: { type: "integer", minimum: 2 }, time: { type: "string" }, where: { $ref: "#/$defs/place" } }, required: ["name", "guests", "where"], $defs: { place: { enum: ["in", "out"] } } };
  assert.deepEqual(sample(schema), { name: "", guests: 2, where: "in" });
});

test("a schema that holds itself ends", () => {
  const schema = { $ref: "#/$defs/n", $defs: { n: { type: "object", properties: { n: { $ref: "#/$defs/n" } }, required: ["n"] } } };
  assert.ok(JSON.stringify(sample(schema)).length < 100);
  assert.deepEqual(sample({ $ref: "#" }), {});
});

test("fields keep the order of positions", () => {
  assert.deepEqual(fields({ properties: { b: {}, a: {} }, "x-order": ["a", "b"], required: ["b"] }).map((f) => [f.name, f.required]), [["a", false], ["b", true]]);
});

test("choices have titles", () => {
  assert.deepEqual(choices({ oneOf: [{ const: "x", title: "X" }, { const: 2 }] }), [{ value: "x", title: "X" }, { value: 2, title: "2" }]);
  assert.equal(choices({ type: "string" }), undefined);
});

test("hints are a few words", () => {
  assert.equal(hint({ type: "integer", minimum: 1, maximum: 12 }), "integer, 1 to 12");
  assert.equal(hint({ type: "string", minLength: 2, maxLength: 40 }), "2 to 40 characters");
});

test("what is typed goes out as typed", () => {
  assert.equal(written("12345678901234567890", "integer"), "12345678901234567890");
  assert.equal(written("1.50", "number"), "1.50");
  assert.equal(written("twelve", "integer"), '"twelve"');
  assert.equal(written("23", "string"), '"23"');
  assert.equal(written("[1, 2", "array"), '"[1, 2"');
});
