// The tree of rows: what belongs together stays together, whatever the order of arrival.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ago, Log, compare, glyph, took } from "../src/lib/rows.js";

const row = (ref, fields) => ({ ref, kind: "request", dir: "out", time: "2026-11-20T12:00:00Z", ...fields });
const refs = (log, hits = null) => log.list(hits).map((x) => x.ref + "@" + x.level);

test("refs are ordered by number and member", () => {
  assert.deepEqual(["10", "3.10", "3", "3.2", "9"].sort(compare), ["3", "3.2", "3.10", "9", "10"]);
});

test("a child that comes before its parent is hung under it", () => {
  const log = new Log("t");
  log.merge([row("2", { kind: "request", dir: "in", parent: "1" }), row("4", { kind: "result", dir: "in", parent: "1" })]);
  assert.deepEqual(refs(log), []);
  log.merge([row("1", { state: "done", answer: "4" })]);
  assert.deepEqual(refs(log), ["1@0", "2@1", "4@1"]);
});

test("a row that gets a parent later moves", () => {
  const log = new Log("t");
  log.merge([row("1"), row("2", { kind: "notification", dir: "in" })]);
  assert.deepEqual(refs(log), ["1@0", "2@0"]);
  log.merge([row("2", { kind: "notification", dir: "in", parent: "1" })]);
  assert.deepEqual(refs(log), ["1@0"]);
  log.fold("1", true);
  assert.deepEqual(refs(log), ["1@0", "2@1"]);
});

test("a fold survives new rows and changes", () => {
  const log = new Log("t");
  log.merge([row("1", { kind: "batch" }), row("1.1", { parent: "1" })]);
  assert.deepEqual(refs(log), ["1@0", "1.1@1"]);
  log.fold("1", false);
  log.merge([row("1", { kind: "batch", state: "done" }), row("2")]);
  assert.deepEqual(refs(log), ["1@0", "2@0"]);
});

test("a filter keeps what it hits, what is above and what is below", () => {
  const log = new Log("t");
  log.merge([row("1"), row("2", { dir: "in", parent: "1" }), row("3", { kind: "result", parent: "2" }), row("4")]);
  log.fold("2", true);
  assert.deepEqual(refs(log, new Set(["2"])), ["1@0", "2@1", "3@2"]);
  assert.deepEqual(refs(log, new Set(["4"])), ["4@0"]);
  assert.deepEqual(refs(log, new Set()), []);
});

test("rows that come late are put into their place", () => {
  const log = new Log("t");
  log.merge(["5", "1", "40", "12", "3"].map((r) => row(r)));
  assert.deepEqual(log.roots.map((n) => n.row.ref), ["1", "3", "5", "12", "40"]);
});

test("counts follow changes", () => {
  const log = new Log("t");
  log.merge([row("1", { findings: [{ rule: "parse", text: "x" }], state: "unanswered" }), row("2", { kind: "http" })]);
  assert.deepEqual([log.messages, log.findings.size, log.unanswered.size], [1, 1, 1]);
  log.merge([row("1", { state: "done" })]);
  assert.deepEqual([log.messages, log.findings.size, log.unanswered.size], [1, 0, 0]);
});

test("a hundred thousand rows are listed quickly", () => {
  const log = new Log("t");
  const rows = [];
  for (let i = 1; i <= 50_000; i++) rows.push(row(String(2 * i), { state: "done", answer: String(2 * i + 1) }), row(String(2 * i + 1), { kind: "result", dir: "in", parent: String(2 * i) }));
  log.merge(rows);
  const begin = performance.now();
  assert.equal(log.list(null).length, 50_000);
  assert.ok(performance.now() - begin < 500);
});

test("the gutter says which way and how it ended", () => {
  assert.equal(glyph(row("1", { state: "waiting" })), "pairwait");
  assert.equal(glyph(row("1", { state: "done", answer: "2" }), { kind: "result" }), "pair");
  assert.equal(glyph(row("1", { state: "error", answer: "2" }), { kind: "error" }), "pairbad");
  assert.equal(glyph(row("1", { dir: "in", state: "waiting" })), "askwait");
  assert.equal(glyph(row("1", { kind: "notification", dir: "in" })), "nin");
  assert.equal(glyph(row("1", { kind: "junk", dir: "in", findings: [{ rule: "parse", text: "x" }] })), "junk");
  assert.equal(glyph(row("1", { kind: "junk", dir: "in" })), "in");
});

test("durations are short", () => {
  assert.deepEqual([undefined, 0.4, 18.4, 12_400, 125_000].map(took), ["", "<1 ms", "18 ms", "12.4 s", "2 min 5 s"]);
});

test("a list that goes on where it stopped is what a new one would be", () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const log = new Log("t");
  const rows = new Map();
  for (let i = 1; i < 600; i++) {
    const fields = { kind: ["request", "notification", "result", "batch", "http", "open"][random(6)], dir: random(2) ? "in" : "out" };
    if (random(3) === 0) fields.parent = String(1 + random(620)); // above, below, or never there
    if (fields.parent === String(i)) delete fields.parent;
    const ref = random(5) ? String(i) : String(1 + random(i));
    const next = row(ref, rows.has(ref) ? { ...rows.get(ref), state: "done", ...(random(4) ? {} : { parent: undefined }) } : fields);
    if (!hangs(next, rows)) continue;
    rows.set(ref, next);
    log.merge([next]);
    if (random(10) === 0) log.fold(ref, Boolean(random(2)));
    if (random(3)) continue;
    const fresh = new Log("t");
    fresh.merge([...rows.values()]);
    fresh.folds = log.folds;
    assert.deepEqual(refs(log), refs(fresh), "after row " + i);
  }
});

// hangs keeps the test from making rows that are their own ancestors.
function hangs(next, rows) {
  for (let up = next.parent, n = 0; up; up = rows.get(up)?.parent) if (up === next.ref || ++n > 50) return false;
  return true;
}

test("two rows that change places do not hang the page", () => {
  const l = new Log("live");
  const row = (ref, parent) => ({ ref, kind: "request", dir: "in", time: "2026-11-20T12:00:00Z", ...(parent ? { parent } : {}) });
  l.merge([row("1"), row("2", "1")]);
  l.merge([row("1", "2"), row("2")]);
  assert.equal(l.nodes.get("1").up, l.nodes.get("2"));
  assert.deepEqual(l.roots.map((n) => n.row.ref), ["2"]);
});

test("how long ago is one number and a unit", () => {
  assert.deepEqual([-5, 59_999, 60_000, 3_599_999, 3_600_000, 47 * 3_600_000, 49 * 3_600_000].map(ago), ["now", "now", "1 min", "59 min", "1 h", "47 h", "2 d"]);
});
