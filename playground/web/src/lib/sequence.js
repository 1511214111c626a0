// What the timeline draws: calls for the waterfall, and the steps of the sequence diagram. Plain functions over the rows of a log.

const drawn = new Set(["request", "notification", "result", "error", "batch", "junk"]);

export const start = (row) => Date.parse(row.time);
export const end = (row, now) => start(row) + (row.state === "waiting" ? Math.max(0, now - start(row)) : (row.ms ?? 0));

// calls are the last calls with what is asked inside them, oldest first: {node, level}. hits are the refs a filter has left, or null; what ended
// before from or begins after to is left out.
export function calls(log, { hits = null, most = 400, from = -Infinity, to = Infinity, now = Date.now() } = {}) {
  const found = [];
  const take = (node, level, part) => {
    const r = node.row;
    if (part.length >= most || !(r.kind === "request" || r.kind === "batch" || (level === 0 && r.kind === "junk"))) return;
    if (level === 0 && hits && !hits.has(r.ref) && !node.kids.some((k) => hits.has(k.row.ref))) return;
    if (level === 0 && (start(r) > to || end(r, now) < from)) return;
    part.push({ node, level });
    if (r.kind === "request") for (const k of node.kids) take(k, level + 1, part);
  };
  let n = 0;
  for (let i = log.roots.length - 1; i >= 0 && n < most; i--) {
    const part = [];
    take(log.roots[i], 0, part);
    n += part.length;
    if (part.length) found.push(part);
  }
  return found.reverse().flat();
}

// extent is from when to when items go.
export function extent(items, now) {
  let first = Infinity;
  let last = -Infinity;
  for (const { node } of items) {
    first = Math.min(first, start(node.row));
    last = Math.max(last, end(node.row, now));
  }
  return items.length ? [first, Math.max(first + 1, last)] : [0, 1];
}

// scale is a round step that divides a span into seven or so.
export function scale(span) {
  const raw = span / 7;
  const p = 10 ** Math.floor(Math.log10(Math.max(raw, 0.1)));
  return [1, 2, 5, 10].map((m) => m * p).find((s) => s >= raw) ?? 10 * p;
}

// steps are the messages of some calls, in the order of the wire: {row, n}. What is notified again and again is one step that counts.
export function steps(nodes, most = 60) {
  const rows = [];
  const take = (node) => {
    const r = node.row;
    if (drawn.has(r.kind)) rows.push(r);
    for (const k of node.kids) if (r.kind !== "batch" || !k.row.ref.includes(".")) take(k);
  };
  for (const n of nodes) take(n);
  rows.sort((a, b) => a.ref.split(".")[0] - b.ref.split(".")[0]);
  const out = [];
  for (let i = 0; i < rows.length; ) {
    let n = 1;
    if (rows[i].kind === "notification") while (i + n < rows.length && alike(rows[i], rows[i + n])) n++;
    if (n < 3) for (const row of rows.slice(i, i + n)) out.push({ row, n: 1 });
    else out.push({ row: rows[i + n - 1], n });
    i += n;
  }
  return { steps: out.slice(-most), before: Math.max(0, out.length - most) };
}

const alike = (a, b) => b.kind === "notification" && a.method === b.method && a.dir === b.dir && a.conn === b.conn && a.parent === b.parent;

// lanes names the two ends of each step: us on the left, or the client of a recording, and what it speaks to. A target with several connections
// has a lane for each.
export function lanes(list, mine) {
  const conns = new Map();
  for (const { row } of list) conns.set(row.target, (conns.get(row.target) ?? new Set()).add(row.conn));
  const left = new Set();
  const right = new Set();
  const ends = list.map(({ row }) => {
    const l = mine(row) ? "you" : "client";
    const many = conns.get(row.target).size > 1;
    const r = (row.target || "server") + (many ? " (" + row.conn + ")" : "");
    left.add(l);
    right.add(r);
    return row.dir === "out" ? [l, r] : [r, l];
  });
  return { names: [...left, ...right], ends };
}

// label is what a step says: its message, and a few quiet words.
export function label({ row, n }) {
  const times = n > 1 ? " \u00d7" + n : "";
  switch (row.kind) {
    case "result":
      return [row.kind, row.brief ?? ""];
    case "error":
      return [row.kind + (row.code !== undefined ? " " + row.code : ""), row.brief ?? ""];
    case "batch":
      return ["batch", row.members !== undefined ? row.members + (row.members === 1 ? " member" : " members") : ""];
    case "junk":
      return ["not a message", ""];
  }
  const progress = row.progress !== undefined && row.total ? row.progress + "/" + row.total + " " : "";
  return [(row.method ?? row.kind) + (row.name ? " " + row.name : "") + times, progress + (row.kind === "notification" ? (row.brief ?? "") : "")];
}

// short is text that fits into so many letters; whole characters, never half of one.
export function short(text, most) {
  const all = [...text];
  return all.length <= most ? text : all.slice(0, Math.max(1, most - 1)).join("") + "\u2026";
}

// mermaid is the same as text for a document. Nothing in it can end its line or begin a statement.
export function mermaid(list, names, ends, plain) {
  const safe = (s) => plain(s).replace(/[;:#<>{}%\n\r]/g, " ").replace(/\s+/g, " ").trim() || " ";
  const out = ["sequenceDiagram"];
  names.forEach((l, i) => out.push("  participant p" + i + " as " + safe(l)));
  list.forEach((s, i) => {
    const [from, to] = ends[i].map((e) => "p" + names.indexOf(e));
    const arrow = s.row.kind === "result" ? "-->>" : s.row.kind === "error" || s.row.kind === "junk" ? "--x" : s.row.kind === "notification" ? "-)" : "->>";
    out.push("  " + from + arrow + to + ": " + safe(label(s).filter(Boolean).join(" ")));
  });
  return out.join("\n");
}

// host is a short name of a target. Of an address it has the end, which differs most.
export function host(name, most = 10) {
  if (!name || name.length <= most) return name ?? "";
  const bare = /^[a-z+]+:\/\//.test(name) ? name.replace(/^[a-z+]+:\/\//, "").replace(/\/.*$/, "") : name.replace(/\s.*$/, "").replace(/^.*\//, "");
  return bare.length <= most ? bare : "\u2026" + [...bare].slice(1 - most).join("");
}
