// Forms from schemas: a value to begin with, and no silent change of what was typed.
import assert from "node:assert/strict";
import { test } from "node:test";
import { choices, fields, hint, misfits, sample, written } from "../src/lib/schema.js";

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

test("typed text is sent unchanged", () => {
  assert.equal(written("12345678901234567890", "integer"), "12345678901234567890");
  assert.equal(written("1.50", "number"), "1.50");
  assert.equal(written("twelve", "integer"), '"twelve"');
  assert.equal(written("23", "string"), '"23"');
  assert.equal(written("[1, 2", "array"), '"[1, 2"');
});

test("misfits lists what a response lacks", () => {
  const schema = { type: "object", properties: { time: { type: "string", oneOf: [{ const: "20:15" }] }, name: { type: "string", title: "Name", minLength: 2, maxLength: 4 }, guests: { type: "integer", minimum: 1, maximum: 12 } }, required: ["time", "name"] };
  assert.deepEqual(misfits(schema, { time: "20:15", name: "Ada", guests: 3 }), []);
  assert.deepEqual(misfits(schema, { time: "19:00", name: "" }), ["time is not one of the choices.", "Name is shorter than 2 characters."]);
  assert.deepEqual(misfits(schema, { guests: 13 }), ["time is missing.", "Name is missing.", "guests is more than 12."]);
  assert.deepEqual(misfits(schema, { time: "20:15", name: "Adele", guests: 1.5 }), ["Name is longer than 4 characters.", "guests is not of type integer."]);
  assert.deepEqual(misfits(schema, null).length, 2);
});
