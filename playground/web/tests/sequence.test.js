// The timeline: what is drawn, and in which words.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Log } from "../src/lib/rows.js";
import * as S from "../src/lib/sequence.js";
import { plain } from "../src/lib/json.js";

const at = (ms) => new Date(Date.UTC(2026, 10, 20) + ms).toISOString();
const row = (ref, fields) => ({ ref, kind: "request", dir: "out", conn: 1, target: "@table", time: at(Number(ref) * 10), ...fields });
function make(...rows) {
  const log = new Log("t");
  log.merge(rows);
  return log;
}
const talk = () =>
  make(
    row("1", { method: "tools/call", name: "book", id: "7", state: "done", answer: "6", ms: 50 }),
    row("2", { kind: "notification", dir: "in", method: "notifications/progress", parent: "1", progress: 1, total: 3, brief: "looking" }),
    row("3", { dir: "in", method: "elicitation/create", id: '"s"', parent: "1", state: "done", answer: "4", ms: 10 }),
    row("4", { kind: "result", call: "3", parent: "3", id: '"s"' }),
    row("6", { kind: "result", dir: "in", call: "1", parent: "1", id: "7", brief: "20:15" }),
    row("8", { kind: "batch", members: 2, state: "done", answer: "9", ms: 4, target: "@demo", conn: 2 }),
    row("8.1", { parent: "8", method: "sum", target: "@demo", conn: 2, time: at(80) }),
    row("9", { kind: "batch", dir: "in", members: 1, parent: "8", call: "8", target: "@demo", conn: 2 }),
  );

test("the waterfall has calls, what is asked inside them, and batches as one", () => {
  const log = talk();
  assert.deepEqual(S.calls(log).map((x) => x.node.row.ref + "@" + x.level), ["1@0", "3@1", "8@0"]);
  assert.deepEqual(S.calls(log, { most: 1 }).map((x) => x.node.row.ref), ["8"], "the last ones");
  assert.deepEqual(S.calls(log, { hits: new Set(["3"]) }).map((x) => x.node.row.ref), ["1", "3"]);
  assert.deepEqual(S.calls(log, { from: Date.parse(at(70)) }).map((x) => x.node.row.ref), ["8"]);
  assert.deepEqual(S.extent(S.calls(log), 0), [Date.parse(at(10)), Date.parse(at(84))]);
});

test("a call with very many inside does not break the stack", () => {
  const log = new Log("t");
  log.merge([row("1", {})].concat(Array.from({ length: 200_000 }, (_, i) => row(String(i + 2), { dir: "in", parent: "1", ms: 1 }))));
  const items = S.calls(log);
  assert.equal(items.length, 400);
  assert.ok(S.extent(items, 0)[1] > S.extent(items, 0)[0]);
});

test("a scale is round", () => {
  assert.deepEqual([1, 12, 70, 690, 7000, 90_000].map(S.scale), [0.2, 2, 10, 100, 1000, 20_000]);
});

test("the sequence has every message of a call, in the order of the wire", () => {
  const log = talk();
  const { steps } = S.steps(log.roots);
  assert.deepEqual(steps.map((s) => s.row.ref), ["1", "2", "3", "4", "6", "8", "9"]);
  assert.deepEqual(steps.map((s) => S.label(s).join("|")), ["tools/call book|", "notifications/progress|1/3 looking", "elicitation/create|", "result|", "result|20:15", "batch|2 members", "batch|1 member"]);
  const { names, ends } = S.lanes(steps, () => true);
  assert.deepEqual(names, ["you", "@table", "@demo"]);
  assert.deepEqual(ends[2], ["@table", "you"]);
});

test("what comes again and again is one step", () => {
  const log = make(row("1", {}), ...Array.from({ length: 7 }, (_, i) => row(String(i + 2), { kind: "notification", dir: "in", method: "session/update", parent: "1", brief: "n" + i })));
  assert.deepEqual(S.steps(log.roots).steps.map((s) => S.label(s).join("|")), ["request|", "session/update \u00d77|n6"]);
});

test("only the last steps are drawn, with the number of earlier ones", () => {
  const log = make(...Array.from({ length: 100 }, (_, i) => row(String(i + 1), { method: "m" })));
  const { steps, before } = S.steps(log.roots, 60);
  assert.deepEqual([steps.length, before, steps[0].row.ref], [60, 40, "41"]);
});

test("connections to one target have a lane each, and a recording has a client", () => {
  const { steps } = S.steps(make(row("1", { method: "a" }), row("2", { method: "b", conn: 2 })).roots);
  assert.deepEqual(S.lanes(steps, () => false).names, ["client", "@table (1)", "@table (2)"]);
});

test("nothing a server says gets out of its place in a diagram", () => {
  const bad = "x\n  participant evil; A->>B: #quot;<script>%%{init}\u202e\u2028";
  const log = make(row("1", { method: bad, target: bad, name: bad }), row("2", { kind: "error", dir: "in", parent: "1", call: "1", target: bad, code: -1, brief: bad }));
  const { steps } = S.steps(log.roots);
  const { names, ends } = S.lanes(steps, () => true);
  const text = S.mermaid(steps, names, ends, plain);
  assert.equal(text.split("\n").length, 5, text);
  assert.doesNotMatch(text, /[;#<{%\u202e\u2028]|participant.*participant evil:/);
  assert.equal(S.short("a\u{1f600}\u{1f600}b", 3), "a\u{1f600}\u2026");
});

test("an address is cut at its start, since its end differs most", () => {
  assert.deepEqual(["@table", "tcp://127.0.0.1:43215", "http://127.0.0.1:80/rpc", "/usr/bin/node server.js", undefined].map((n) => S.host(n)), ["@table", "\u20260.1:43215", "\u2026.0.0.1:80", "node", ""]);
});
