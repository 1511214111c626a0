// JSON as text with positions. The text is the truth: numbers stay digits, edits touch only what they name.

const maxDepth = 400;

// parse returns {root} or {error: {at, text}}. A node has type, from and to; an object has members {key, from, to, value},
// an array has items, a string has its value. {{name}} of one of the variables is a value too.
export function parse(text, variables = []) {
  let at = 0;
  const fail = (what) => {
    throw { at: Math.min(at, text.length), text: what };
  };
  const space = () => {
    while (at < text.length && " \t\n\r".includes(text[at])) at++;
  };
  const string = () => {
    const from = at++;
    for (;;) {
      if (at >= text.length) fail("The string is not closed.");
      const c = text.charCodeAt(at);
      if (c === 34) break;
      if (c < 32) fail("A string contains an unescaped control character.");
      at += c === 92 ? 2 : 1;
    }
    at++;
    try {
      return { type: "string", from, to: at, value: JSON.parse(text.slice(from, at)) };
    } catch {
      at = from;
      fail("The string has an invalid escape.");
    }
  };
  const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
  const value = (depth) => {
    if (depth > maxDepth) fail("The JSON is nested too deeply.");
    space();
    const from = at;
    const c = text[at];
    if (c === undefined) fail(from === 0 ? "The message is empty." : "The JSON ends too early.");
    if (c === '"') return string();
    const variable = c === "{" && variables.find((name) => text.startsWith("{{" + name + "}}", at));
    if (variable) {
      at += variable.length + 4;
      return { type: "variable", from, to: at };
    }
    if (c === "{" || c === "[") {
      const close = c === "{" ? "}" : "]";
      const node = { type: c === "{" ? "object" : "array", from, to: 0, members: [], items: [] };
      at++;
      space();
      if (text[at] === close) {
        node.to = ++at;
        return node;
      }
      for (;;) {
        space();
        if (c === "{") {
          if (text[at] !== '"') fail(at >= text.length ? "The JSON ends too early." : "Expected a name in quotes.");
          const key = string();
          space();
          if (text[at] !== ":") fail(at >= text.length ? "The JSON ends too early." : "Expected a colon.");
          at++;
          node.members.push({ key: key.value, from: key.from, to: key.to, value: value(depth + 1) });
        } else node.items.push(value(depth + 1));
        space();
        if (text[at] === ",") at++;
        else if (text[at] === close) break;
        else fail(at >= text.length ? "The JSON ends too early." : "Expected a comma or " + close + ".");
      }
      node.to = ++at;
      return node;
    }
    for (const word of ["true", "false", "null"]) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return { type: word, from, to: at };
      }
    }
    number.lastIndex = at;
    const digits = number.exec(text);
    if (!digits) fail("This is not a JSON value.");
    at += digits[0].length;
    return { type: "number", from, to: at };
  };
  try {
    const root = value(0);
    space();
    if (at < text.length) fail("There is text after the end.");
    return { root };
  } catch (error) {
    if (error instanceof Error) throw error;
    return { error };
  }
}

// get follows names and indexes; undefined if there is no such value. Of doubled names the last counts.
export function get(node, path) {
  for (const step of path) {
    if (!node) return undefined;
    if (typeof step === "number") node = node.items?.[step];
    else node = node.type === "object" ? node.members.findLast((m) => m.key === step)?.value : undefined;
  }
  return node;
}

export const raw = (text, node) => (node ? text.slice(node.from, node.to) : undefined);

// pathAt is the path of the innermost value at an offset.
export function pathAt(root, offset) {
  const path = [];
  let node = root;
  for (;;) {
    let next;
    if (node.type === "object") {
      const m = node.members.find((x) => x.from <= offset && offset <= x.value.to);
      if (m) (path.push(m.key), (next = m.value));
    } else if (node.type === "array") {
      const i = node.items.findIndex((x) => x.from <= offset && offset <= x.to);
      if (i >= 0) (path.push(i), (next = node.items[i]));
    }
    if (!next) return path;
    node = next;
  }
}

// set returns the change {from, to, insert} that puts a value (JSON text) at a path. What is missing on the way is made.
export function set(text, root, path, value) {
  const there = get(root, path);
  if (there) return { from: there.from, to: there.to, insert: value };
  let n = path.length - 1;
  while (n > 0 && !get(root, path.slice(0, n))) n--;
  const parent = get(root, path.slice(0, n));
  for (let i = path.length - 1; i > n; i--) value = typeof path[i] === "number" ? "[" + value + "]" : "{" + JSON.stringify(path[i]) + ": " + value + "}";
  if (parent.type !== "object" && parent.type !== "array") {
    return { from: parent.from, to: parent.to, insert: typeof path[n] === "number" ? "[" + value + "]" : "{" + JSON.stringify(path[n]) + ": " + value + "}" };
  }
  const inner = typeof path[n] === "number" ? value : JSON.stringify(path[n]) + ": " + value;
  const list = parent.type === "object" ? parent.members : parent.items;
  if (list.length === 0) return { from: parent.from + 1, to: parent.to - 1, insert: inner };
  const last = list[list.length - 1];
  const end = parent.type === "object" ? last.value.to : last.to;
  const indent = /\n([ \t]*)$/.exec(text.slice(0, last.from));
  return { from: end, to: end, insert: "," + (indent ? "\n" + indent[1] : text.includes('": ') ? " " : "") + inner };
}

// remove returns the change that takes a member out, or undefined if it is not there.
export function remove(text, root, path) {
  const parent = get(root, path.slice(0, -1));
  const name = path[path.length - 1];
  if (!parent || (parent.type !== "object" && parent.type !== "array")) return undefined;
  const list = parent.type === "object" ? parent.members.map((m) => ({ key: m.key, from: m.from, to: m.value.to })) : parent.items.map((v, i) => ({ key: i, from: v.from, to: v.to }));
  const i = list.findLastIndex((m) => m.key === name);
  if (i < 0) return undefined;
  if (list.length === 1) return { from: parent.from + 1, to: parent.to - 1, insert: "" };
  if (i === list.length - 1) return { from: list[i - 1].to, to: list[i].to, insert: "" };
  return { from: list[i].from, to: list[i + 1].from, insert: "" };
}

export const apply = (text, change) => (change ? text.slice(0, change.from) + change.insert + text.slice(change.to) : text);

// oneLine takes out the blanks between the tokens, and nothing else.
export function oneLine(text, node) {
  if (node.type === "object") return "{" + node.members.map((m) => text.slice(m.from, m.to) + ":" + oneLine(text, m.value)).join(",") + "}";
  if (node.type === "array") return "[" + node.items.map((v) => oneLine(text, v)).join(",") + "]";
  return text.slice(node.from, node.to);
}

// spread lays a document out in lines for people; what fits into width stays on its line.
export function spread(text, root, width = 44) {
  const flat = (node) => {
    if (node.type === "object") return "{" + node.members.map((m) => text.slice(m.from, m.to) + ": " + flat(m.value)).join(", ") + "}";
    if (node.type === "array") return "[" + node.items.map(flat).join(", ") + "]";
    return text.slice(node.from, node.to);
  };
  const out = [];
  const batch = root.type === "array" && root.items.length > 0 && root.items.every((v) => v.type === "object" || v.type === "array");
  const go = (node, indent, before, after, top) => {
    const list = node.type === "object" ? node.members : node.type === "array" ? node.items : [];
    if (list.length === 0 || !top) {
      const whole = flat(node);
      if (list.length === 0 || indent.length + before.length + whole.length <= width || (batch && indent !== "")) return void out.push(indent + before + whole + after);
    }
    out.push(indent + before + (node.type === "object" ? "{" : "["));
    list.forEach((x, i) => {
      const comma = i < list.length - 1 ? "," : "";
      if (node.type === "object") go(x.value, indent + "  ", text.slice(x.from, x.to) + ": ", comma);
      else go(x, indent + "  ", "", comma);
    });
    out.push(indent + (node.type === "object" ? "}" : "]") + after);
  };
  go(root, "", "", "", true);
  return out.join("\n");
}

// pointer is a JSON Pointer of a path.
export const pointer = (path) => path.map((p) => "/" + String(p).replaceAll("~", "~0").replaceAll("/", "~1")).join("");

// tokens divides a line for showing: k names, p marks, s strings, n all else; "" is what is no JSON.
export function tokens(line) {
  const out = [];
  const find = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b)|([{}[\],]+)/g;
  let last = 0;
  for (let m; (m = find.exec(line)); ) {
    if (m.index > last) out.push(["", line.slice(last, m.index)]);
    if (m[1]) out.push([m[2] ? "k" : "s", m[1]]), m[2] && out.push(["p", m[2]]);
    else if (m[3]) out.push(["n", m[3]]);
    else out.push(["p", m[4]]);
    last = m.index + m[0].length;
  }
  if (last < line.length) out.push(["", line.slice(last)]);
  return out;
}

// hidden are the characters that move, turn or hide other text, or cannot be seen: the list of internal/x/harmless, which a test compares.
export const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u070f\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe-\uffff\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{1fffe}-\u{1ffff}\u{2fffe}-\u{2ffff}\u{3fffe}-\u{3ffff}\u{4fffe}-\u{4ffff}\u{5fffe}-\u{5ffff}\u{6fffe}-\u{6ffff}\u{7fffe}-\u{7ffff}\u{8fffe}-\u{8ffff}\u{9fffe}-\u{9ffff}\u{afffe}-\u{affff}\u{bfffe}-\u{bffff}\u{cfffe}-\u{cffff}\u{dfffe}-\u{e0fff}\u{efffe}-\u{10ffff}]/gu;

// plain makes characters visible that would hide or turn other text.
export const plain = (text) => String(text).replace(hidden, (c) => "\u2039U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + "\u203a");

// coded returns JSON with these characters escaped: the same value.
export const coded = (text) => String(text).replace(hidden, (c) => (c < " " ? c : [...Array(c.length).keys()].map((i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join("")));

const encoder = new TextEncoder();
export const size = (text) => encoder.encode(text).length;
