// What is on the wire, as a tree: calls with all that belongs to them below. It is plain data, so that 100,000 rows stay cheap.

// place is where a ref stands on the wire, as a number: the member of a batch is its fraction.
export function place(ref) {
  const dot = ref.indexOf(".");
  return dot < 0 ? +ref : +ref.slice(0, dot) + ref.slice(dot + 1) / 1_048_576;
}

export const compare = (a, b) => place(a) - place(b);

// A Log holds the rows of one recording.
export class Log {
  constructor(name) {
    this.name = name;
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.roots = [];
    this.folds = new Map(); // what a person chose, by ref
    this.orphans = new Map(); // children whose parent is still to come, by its ref
    this.exchanges = new Map(); // rows of kind http, by their number
    this.findings = new Set();
    this.unanswered = new Set();
    this.next = 0;
    this.memory = 0;
    this.lost = 0;
    this.messages = 0;
    this.bytes = 0;
    this.flat = []; // what list has made of the first roots
    this.flatRoots = 0;
    this.stale = false; // flat is to be made anew
  }

  // merge takes rows that are new or changed.
  merge(rows) {
    for (const row of rows) {
      const old = this.nodes.get(row.ref);
      if (old) {
        const parent = old.row.parent;
        old.row = row;
        if (parent !== row.parent) {
          this.#unhang(old, parent);
          this.#hang(old);
        }
      } else {
        const node = { row, at: place(row.ref), kids: none, up: undefined, asks: false };
        if (this.orphans.size && this.orphans.has(row.ref)) {
          node.kids = this.orphans.get(row.ref);
          for (const kid of node.kids) {
            kid.up = node;
            node.asks ||= asksBack(node, kid);
          }
          this.orphans.delete(row.ref);
        }
        this.nodes.set(row.ref, node);
        this.#hang(node);
        if (isMessage(row)) {
          this.messages++;
          this.bytes += row.bytes ?? 0;
        }
      }
      if (row.kind === "http" && row.http) this.exchanges.set(row.http, row);
      if (row.findings?.some((f) => !f.doubt)) this.findings.add(row.ref);
      else if (this.findings.size) this.findings.delete(row.ref);
      if (row.state === "unanswered") this.unanswered.add(row.ref);
      else if (this.unanswered.size) this.unanswered.delete(row.ref);
    }
  }

  #hang(node) {
    const parent = node.row.parent;
    if (!parent) {
      if (!insert(this.roots, node)) this.stale = true;
      return;
    }
    const up = this.nodes.get(parent);
    if (up) {
      node.up = up;
      up.asks ||= asksBack(up, node);
      if (up.kids === none) up.kids = [node];
      else insert(up.kids, node);
      let top = up;
      while (top.up && top.up !== node) top = top.up; // two that change places come one after the other
      if (!this.stale && this.isOpen(top)) this.stale = true;
    } else if (this.orphans.has(parent)) insert(this.orphans.get(parent), node);
    else this.orphans.set(parent, [node]);
  }

  #unhang(node, parent) {
    const list = parent ? (this.nodes.get(parent)?.kids ?? this.orphans.get(parent)) : this.roots;
    const i = list?.indexOf(node) ?? -1;
    if (i >= 0) list.splice(i, 1);
    node.up = undefined;
    this.stale = true;
  }

  row(ref) {
    return this.nodes.get(ref)?.row;
  }

  // folds reports whether there is anything to fold out below a row.
  foldable(node) {
    if (node.kids.length === 0) return false;
    const k = node.row.kind;
    if (node.row.ref.includes(".") && node.kids.every((n) => n.row.kind === "result" || n.row.kind === "error" || n.row.kind === "http")) return false;
    return k === "request" || k === "batch" || node.kids.some((n) => n.row.kind !== "http");
  }

  isOpen(node) {
    const chosen = this.folds.get(node.row.ref);
    if (chosen !== undefined) return chosen;
    return node.row.kind === "batch" || node.asks;
  }

  fold(ref, open) {
    this.folds.set(ref, open);
    this.stale = true;
  }

  // reveal folds out all that is above a row.
  reveal(ref) {
    for (let n = this.nodes.get(ref)?.up; n; n = n.up) this.folds.set(n.row.ref, true);
    this.stale = true;
  }

  // list is what is to be shown, in order: {node, level, last}. hits are the refs a filter has left, or null. Without a filter, and while rows only
  // come at the end, it goes on where it stopped: a long log is not walked again for each new row.
  list(hits, extra) {
    if (hits) return this.#walk([], 0, hits, extra);
    if (this.stale) {
      this.flat = [];
      this.flatRoots = 0;
      this.stale = false;
    }
    this.#walk(this.flat, this.flatRoots, null);
    this.flatRoots = this.roots.length;
    return this.flat.slice();
  }

  #walk(out, first, hits, extra) {
    const go = (node, level, last, shown) => {
      if (node.row.kind === "open") return;
      const hit = !hits || hits.has(node.row.ref) || extra?.has(node.row.ref);
      if (!hit && !shown && !below(node, hits)) return;
      out.push({ node, level, last, ref: node.row.ref });
      if (node.kids === none || !this.foldable(node) || !this.isOpen(node)) return;
      for (let i = 0; i < node.kids.length; i++) go(node.kids[i], level + 1, i === node.kids.length - 1, shown || hit);
    };
    for (let i = first; i < this.roots.length; i++) go(this.roots[i], 0, false, false);
    return out;
  }
}

// asksBack reports whether the other side asks something inside a call.
const asksBack = (node, kid) => kid.row.kind === "request" && kid.row.dir !== node.row.dir;

function below(node, hits) {
  return node.kids.some((k) => hits.has(k.row.ref) || below(k, hits));
}

const none = Object.freeze([]); // most have no kids

// insert puts a node in its place, and reports whether that is the end.
function insert(list, node) {
  let i = list.length;
  while (i > 0 && list[i - 1].at > node.at && list.length - i < 8) i--;
  if (i === list.length) {
    list.push(node);
    return true;
  }
  if (i > 0 && list[i - 1].at > node.at) {
    let low = 0;
    let high = i;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (list[mid].at > node.at) high = mid;
      else low = mid + 1;
    }
    i = low;
  }
  list.splice(i, 0, node);
  return false;
}

export const isMessage = (row) => row.kind !== "http" && row.kind !== "open" && row.kind !== "close" && row.kind !== "lost" && row.kind !== "stderr" && !row.ref.includes(".");

// glyph names the step of the sequence diagram that a row is.
export function glyph(row, answer) {
  const out = row.dir === "out";
  switch (row.kind) {
    case "request":
    case "batch": {
      if (row.kind === "batch" && !row.state && !row.answer) return out ? "out" : "in";
      const bad = row.state === "error" || answer?.kind === "error";
      if (row.state === "waiting") return out ? "pairwait" : "askwait";
      if (row.state === "unanswered" || row.state === "cancelled") return out ? "pairnone" : "asknone";
      if (!row.answer) return out ? "out" : "in";
      if (out) return bad ? "pairbad" : "pair";
      return bad ? "askbad" : "ask";
    }
    case "notification":
      return out ? "nout" : "nin";
    case "result":
      return out ? "out" : "in";
    case "error":
      return out ? "outbad" : "inbad";
    case "junk":
      if (row.answer) return "pairbad";
      if (!row.findings?.length) return out ? "out" : "in"; // a document beside the messages: nothing is wrong with it
      return out ? "junkout" : "junk";
    case "stderr":
      return "err";
    case "http":
      return "http";
  }
  return "";
}

export const say = {
  pair: "request and result", pairbad: "request and error", pairwait: "request, no response yet", pairnone: "request without a response",
  ask: "incoming request and response", askbad: "incoming request and error", askwait: "incoming request, no response yet", asknone: "incoming request without a response",
  out: "sent", in: "received", outbad: "error sent", inbad: "error received", nout: "notification sent", nin: "notification received",
  junk: "received, broken", junkout: "sent, broken", err: "standard error", http: "HTTP exchange", "": "",
};

// took is a duration for people.
export function took(ms) {
  if (ms === undefined) return "";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60_000) return (ms / 1000).toFixed(1) + " s";
  return Math.floor(ms / 60_000) + " min " + Math.round((ms % 60_000) / 1000) + " s";
}

// ago is how long ago something was, in one unit.
export function ago(ms) {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  if (minutes < 1) return "now";
  if (minutes < 60) return minutes + " min";
  if (minutes < 48 * 60) return Math.floor(minutes / 60) + " h";
  return Math.floor(minutes / 1440) + " d";
}

export function bytes(n) {
  if (n === undefined) return "";
  if (n < 10_000) return n + " B";
  if (n < 1_000_000) return Math.round(n / 1000) + " KB";
  return (n / 1_000_000).toFixed(1) + " MB";
}

export function clock(time) {
  const d = new Date(time);
  if (Number.isNaN(d.getTime())) return "";
  const two = (n) => String(n).padStart(2, "0");
  return two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds()) + "." + String(d.getMilliseconds()).padStart(3, "0");
}
