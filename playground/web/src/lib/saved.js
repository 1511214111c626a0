// Saved calls: their variables and checks.
import * as json from "./json.js";

const pattern = /\{\{([A-Za-z_][A-Za-z0-9_.-]*)\}\}/g;

// used are the names of the variables in a text, each once.
export const used = (text) => [...new Set([...text.matchAll(pattern)].map((m) => m[1]))];

// fill puts the values of variables [{name, value}] in their places, as they stand; what has no value stays. back leads from an
// offset in the filled text to the one in the text it was made of.
export function fill(text, variables) {
  const values = new Map(variables.map((v) => [v.name, v.value]));
  const moves = []; // [where a value ends in the filled text, by how much what follows has moved, where it begins]
  let out = "";
  let last = 0;
  for (const m of text.matchAll(pattern)) {
    if (!values.has(m[1])) continue;
    out += text.slice(last, m.index);
    const from = out.length;
    out += values.get(m[1]);
    last = m.index + m[0].length;
    moves.push({ from, to: out.length, source: m.index, end: last });
  }
  out += text.slice(last);
  const back = (at) => {
    let before;
    for (const x of moves) {
      if (at < x.from) break;
      if (at < x.to) return x.source;
      before = x;
    }
    return before ? at - before.to + before.end : at;
  };
  return { text: out, back };
}

// valueText is the value of a check as it is typed: a string without its quotes, unless that is ambiguous.
export function valueText(raw) {
  if (!raw) return "";
  try {
    const v = JSON.parse(raw);
    if (typeof v !== "string" || v.trim() !== v || v === "") return raw;
    try {
      JSON.parse(v);
      return raw;
    } catch {
      return v;
    }
  } catch {
    return raw;
  }
}

// valueRaw is the JSON text of what was typed: valid JSON unchanged, all else as a string.
export function valueRaw(text) {
  const t = text.trim();
  return json.parse(t).root ? t : JSON.stringify(text);
}

export const comparisons = ["exists", "missing", "equals", "differs", "matches", "contains", "less", "more", "count", "type"];
export const takesValue = (is) => is !== "exists" && is !== "missing";

// asserts are checks in the server's form. A check without a path is left out.
// With variables, those in paths and values are replaced.
export const asserts = (checks, variables = []) => {
  const put = (text) => fill(text, variables).text;
  return checks.filter((c) => c.path.trim()).map((c) => ({ path: put(c.path.trim()), is: c.is, ...(takesValue(c.is) ? { raw: valueRaw(put(c.value)) } : {}) }));
};

// replaced are variables [{name, value}] with the values of an environment {name: value} in place of their own, and its other ones.
export const replaced = (variables, environment = {}) => [...variables.filter((v) => !(v.name in environment)), ...Object.entries(environment).map(([name, value]) => ({ name, value }))];

// isSecret reports whether the value of a variable should not be read by people who look on.
export const isSecret = (name) => /token|secret|passw|credential|api[_.-]?key/i.test(name);

// paths are the places in an answer that a check may look at.
export function paths(text, most = 60) {
  const { root } = json.parse(text);
  const out = [];
  const go = (node, at) => {
    if (out.length >= most) return;
    if (at !== "$") out.push(at);
    if (node.type === "object") for (const m of node.members) if (m.key !== "jsonrpc" && m.key !== "id") go(m.value, at + (/^[A-Za-z0-9_$-]+$/.test(m.key) ? "." + m.key : '["' + m.key.replaceAll('"', '\\"') + '"]'));
    if (node.type === "array") node.items.slice(0, 3).forEach((v, i) => go(v, at + "[" + i + "]"));
  };
  if (root) go(root, "$");
  return out;
}
