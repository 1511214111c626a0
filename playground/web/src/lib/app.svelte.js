// The state of the page, and what can be done with it. Everything that is shown comes from here.
import { call, Fault, hasToken, namePage, page, post, recallToken, takeToken } from "./rpc.js";
import { QUIET, ofOthers } from "./question.js";
import { Log } from "./rows.js";
import { spell } from "./short.js";
import * as json from "./json.js";
import { sample } from "./schema.js";
import * as calls from "./saved.js";

export const logs = { live: new Log("live") };

export const app = $state({
  trouble: "", // why nothing works, for the whole page
  ready: false,
  connected: false,
  version: "",
  targets: [],
  questions: [],
  lessons: [],
  saved: [],
  config: { entries: [], problems: [], found: [], file: "" },
  keys: [],
  folder: "",
  described: {}, // by target
  opened: [], // recordings: {log, name, total, session, live}
  sessions: { folder: "", sessions: [], older: 0, problem: "" }, // what taps have recorded
  suites: [], // of parley test: {file, name, calls}
  environments: [], // the names of all of them
  environment: "", // the one that is chosen, "" for none
  compare: null, // two recordings that are compared: {old, new, ignore, found}

  start: true, // the first page is in the composer's place
  drafts: [],
  draft: 0, // the id of the one that is shown
  target: "@demo",

  log: "live",
  filter: "",
  hits: null, // Set of refs, or null for all
  total: 0,
  badFilter: "",
  view: "rows",
  sel: "",
  bring: "", // a row that a link leads to, until it is there
  atEnd: true,
  fresh: 0, // rows that came while the view stood elsewhere
  paused: false,
  pins: [],
  tick: 0, // grows when rows change
  now: Date.now(),

  lesson: null,
  palette: false,
  ask: "", // what the palette begins with
  keysHelp: false,
  menu: "", // which menu is open
  drawer: false, // side list, when narrow
  sheet: false, // composer, on a phone
  wire: false, // the wire instead of the first page, on a phone
  drop: false,
  announced: "", // text for screen readers
  notice: "", // a line in the status bar
  pasted: null, // a config that was dropped: {name, text}
  run: null, // an agent's run
  oauth: null,
  tap: null, // what this page stands beside: {server, at, file}
});

export const log = () => logs[app.log] ?? logs.live;
export const target = (name) => app.targets.find((t) => t.name === name);
export const draft = () => app.drafts.find((d) => d.id === app.draft);
export const question = (ref) => app.questions.find((q) => q.ref === ref);

export function tell(text) {
  app.notice = text;
  app.announced = text;
}

// doings counts what the person does: keys and clicks.
let doings = 0;
export const did = () => doings++;

// attempt runs an action, and shows its error.
export async function attempt(work) {
  const before = doings;
  try {
    return await work();
  } catch (err) {
    if (err?.name === "AbortError") return undefined;
    if (err?.code === 401) app.trouble = err.message;
    if (err?.data?.signIn && doings === before) askSignIn(err.data.signIn); // it never takes the place of what is being written
    tell(err?.message ?? String(err));
    return undefined;
  }
}

// ---- the beginning

export async function begin() {
  const place = hidden();
  recallToken();
  await namePage();
  if (!hasToken()) {
    app.trouble = "Open the URL that parley printed in the terminal, or paste it here.";
    return;
  }
  try {
    const hello = await call("hello");
    Object.assign(app, { trouble: "", ready: true, version: hello.version ?? "", targets: hello.targets ?? [], questions: hello.questions ?? [], lessons: hello.lessons ?? [], keys: hello.keys ?? [], folder: hello.folder ?? "", tap: hello.tap ?? null });
    app.sessions = { folder: "", older: 0, problem: "", ...hello.sessions, sessions: hello.sessions?.sessions ?? [] };
    app.config = { entries: [], problems: [], found: [], file: "", ...hello.config };
    if (hello.found) app.config.found = hello.found;
    app.opened = (hello.logs ?? []).filter((o) => o.log !== "live"); // what was opened before the page was loaded again
  } catch (err) {
    app.trouble = err.message;
    return;
  }
  visit(place);
  addEventListener("hashchange", moved);
  follow();
  void loadSaved();
  if (!app.target || !target(app.target)) app.target = app.targets[0]?.name ?? "";
  if (app.target) void describe(app.target);
}

export function enter(text) {
  if (!takeToken(text)) {
    tell("This text contains no token.");
    return;
  }
  void begin();
}

// hidden takes the token out of this page's address, where the browser's history and people who look on would keep it. It returns the rest.
function hidden() {
  const place = new URLSearchParams(location.hash.slice(1));
  takeToken(location.hash);
  if (place.has("token")) {
    place.delete("token");
    history.replaceState(null, "", location.pathname + location.search + ([...place].length ? "#" + place : ""));
  }
  return place;
}

// moved goes to a link that somebody put into this page's address.
function moved() {
  const place = hidden();
  if ([...place].length) visit(place);
}

// visit restores the state that a link describes. It uses only what is loaded, and connects to no target.
function visit(place) {
  const name = place.get("log") ?? "live";
  if (name !== "live" && !app.opened.some((o) => o.log === name)) tell("The recording of this link is no longer open.");
  else if (name !== app.log) showLog(name);
  if (place.get("target")) app.target = place.get("target");
  setFilter(place.get("filter") ?? "");
  app.view = place.get("view") === "timeline" ? "timeline" : "rows";
  app.sel = app.bring = place.get("row") ?? "";
  app.pins = place.get("pins")?.split(",") ?? [];
  if (app.sel && log().nodes.has(app.sel)) log().reveal(app.sel);
  if (place.get("draft")) {
    try {
      newDraft({ text: new TextDecoder().decode(Uint8Array.from(atob(place.get("draft").replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0))), more: { fixed: true } });
    } catch {
      tell("The draft in this link is not valid.");
    }
  } else if (app.sel || app.view === "timeline") app.start = false;
  if (place.get("lesson")) void openLesson(place.get("lesson"));
}

// link is the address of what is shown now, without the token and without anything secret.
export function link(withDraft = true) {
  const p = new URLSearchParams();
  const d = draft();
  if (app.target) p.set("target", app.target);
  if (app.filter) p.set("filter", app.filter);
  if (app.view !== "rows") p.set("view", app.view);
  if (app.log !== "live") p.set("log", app.log);
  if (app.sel) p.set("row", app.sel);
  if (app.pins.length) p.set("pins", app.pins.join(","));
  if (app.lesson) p.set("lesson", app.lesson.id);
  if (withDraft && !app.start && d && d.text.length < 8000) p.set("draft", btoa(String.fromCharCode(...new TextEncoder().encode(d.text))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
  return location.origin + location.pathname + "#" + p;
}

// ---- the one stream

async function follow() {
  for (let wait = 250; ; wait = Math.min(wait * 2, 5000)) {
    try {
      app.connected = true;
      await call("follow", { since: logs.live.next, log: "live", short: true }, { note: (m, p) => ((wait = 250), noted(m, p)) });
    } catch (err) {
      if (err?.code === 401) {
        app.trouble = err.message;
        app.connected = false;
        return;
      }
    }
    app.connected = false;
    await new Promise((done) => setTimeout(done, wait));
  }
}

function noted(method, p) {
  app.connected = true;
  if (method === "rows") takeRows(p);
  else if (method === "targets") {
    app.targets = p.targets ?? [];
    if (!target(app.target)) app.target = app.targets[0]?.name ?? "";
  } else if (method === "questions") takeQuestions(p.questions ?? []);
  else if (method === "lesson") {
    if (app.lesson && p.lesson === app.lesson.id) app.lesson.passed = { ...app.lesson.passed, ...p.passed };
    keepPassed(p.lesson, p.passed);
  } else if (method === "config") app.config = { ...app.config, ...p };
  else if (method === "sessions") app.sessions = { problem: "", ...p, sessions: p.sessions ?? [] };
}

export function takeRows(p) {
  const l = logs[p.log ?? "live"];
  if (!l) return;
  if (p.reset) l.clear();
  if (p.all) spell(p.rows ?? [], p.all);
  const before = l.nodes.size;
  l.merge(p.rows ?? []);
  l.next = p.next ?? l.next;
  l.memory = p.memory ?? l.memory;
  l.lost = p.lost ?? l.lost;
  if (l !== log()) return;
  if (app.bring && l.nodes.has(app.bring)) {
    l.reveal(app.bring);
    app.bring = "";
  }
  if (!app.atEnd || app.paused) app.fresh += l.nodes.size - before;
  for (const r of p.rows ?? []) {
    if (r.dir === "out" && r.kind === "request" && /^\d{1,15}$/.test(r.id ?? "") && l === logs.live) taken(r.target, Number(r.id));
    if ((r.kind === "result" || r.kind === "error") && r.dir === "in" && mine.delete(r.call ?? r.parent)) app.announced = (r.kind === "error" ? "Error " + (r.code ?? "") + " " : "Result ") + "for " + (r.method ?? "call " + r.id);
  }
  stir();
  if (app.filter) refilter();
}

// taken notes that an id is in use; drafts whose id counts on by itself go past it.
function taken(name, id) {
  if (id < (used[name] ?? 0)) return;
  used[name] = id + 1;
  for (const d of app.drafts) if (counts(d) && d.target === name) setAuto(d);
}

const mine = new Set(); // calls of this page that wait

let stirring = false;
let stirred = 0;
let cost = 0; // of the last drawing: three quarters of the time are for all else
function stir() {
  if (stirring) return;
  stirring = true;
  const go = () => {
    stirring = false;
    const begun = (stirred = performance.now());
    setTimeout(() => (cost = performance.now() - begun));
    app.now = Date.now();
    app.tick++;
  };
  // A fast wire is drawn eight times a second, so that keys are not kept waiting.
  const wait = Math.min(1000, Math.max(log().nodes.size > 1000 ? 125 : 40, 4 * cost)) - (performance.now() - stirred);
  if (wait > 0) setTimeout(go, wait);
  else requestAnimationFrame(go);
}
export const redraw = stir;

// ---- the filter

export function setFilter(text) {
  app.filter = text.trim();
  if (!app.filter) {
    app.hits = null;
    app.badFilter = "";
    stir();
  } else void select();
}

// refilter asks again soon; rows that come without a break do not put it off. A long log is asked less often.
let due = 0;
let asks = 0; // how long the answer took last
function refilter() {
  due ||= setTimeout(() => {
    due = 0;
    if (app.filter) void select();
  }, Math.min(3000, Math.max(150, 4 * asks)));
}

async function select() {
  const asked = app.filter;
  const from = app.log;
  const begun = performance.now();
  try {
    const { refs } = await call("wire/select", { log: from, filter: asked });
    asks = performance.now() - begun;
    if (asked !== app.filter || from !== app.log) return;
    app.hits = new Set(refs);
    app.badFilter = "";
    stir();
  } catch (err) {
    if (asked === app.filter) app.badFilter = err.data?.reason ?? err.message;
  }
}

// ---- targets

const asking = new Map(); // what is being asked already, by target

// describe requests what a target offers. Without refresh it uses only open targets: a link must not connect to one.
export function describe(name, refresh = false) {
  if (app.described[name] && !refresh) return Promise.resolve(app.described[name]);
  const t = target(name);
  if (!refresh && (!t || (t.state !== "open" && t.from !== "demo"))) return Promise.resolve(undefined);
  if (!asking.has(name)) asking.set(name, ask(name, refresh).finally(() => asking.delete(name)));
  return asking.get(name);
}

async function ask(name, refresh) {
  try {
    const d = await call("describe", { target: name, refresh });
    app.described[name] = { methods: [], tools: [], resources: [], templates: [], prompts: [], agents: [], problems: [], ...d };
  } catch (err) {
    if (refresh) tell(err.message);
  }
  return app.described[name];
}

export function choose(name) {
  app.target = name;
  const d = draft();
  if (d && !d.question) d.target = name;
  void describe(name);
}

// browse shows what a target offers. Drafts keep their targets.
export function browse(name) {
  app.target = name;
  void describe(name);
  const d = draft();
  if (app.start || !d || d.target === name) return;
  const other = app.drafts.findLast((x) => x.target === name && !x.question);
  if (other) app.draft = other.id;
}

export async function openTarget(params) {
  const r = await attempt(() => call("targets/open", { handshake: true, page: page.name, ...params }));
  if (!r?.target) return undefined;
  const i = app.targets.findIndex((t) => t.name === r.target.name);
  if (i < 0) app.targets.push(r.target);
  else app.targets[i] = r.target;
  choose(r.target.name);
  tell(r.target.name + " is open.");
  void describe(r.target.name, true);
  return r.target;
}

export const closeTarget = (name) => attempt(() => call("targets/close", { target: name }));
export const forgetTarget = (name) => attempt(() => call("targets/forget", { target: name }));

// ---- drafts

let drafts = 0;

// front brings the composer back, unless a run or a sign-in is under way in its place.
function front() {
  if (app.run && app.run.state !== "running") app.run = null;
  if (app.oauth && app.oauth.state !== "going") app.oauth = null;
  app.compare = null;
}

// addDraft makes a draft behind what is shown.
function addDraft({ target: to = app.target, text, title = "", question: q = "", mode = "one", note = "", auto = true, headers = [], more = {} }) {
  const d = { id: ++drafts, target: to, text, title, question: q, mode, note, auto, headers, last: "", touched: false, closed: false, busy: false, saved: "", name: "", file: "", stamp: "", variables: [], environments: {}, place: "", checks: [], held: null, panel: false, ...more };
  app.drafts.push(d);
  void describe(to);
  return app.drafts.at(-1);
}

// newDraft makes a draft and shows it, because a person wants one.
export function newDraft(fields) {
  const d = addDraft(fields);
  looked();
  app.draft = d.id;
  app.start = false;
  front();
  if (!d.question) app.target = d.target;
  return d;
}

export function closeDraft(id) {
  const i = app.drafts.findIndex((d) => d.id === id);
  if (i < 0) return;
  app.drafts.splice(i, 1);
  if (app.draft === id) app.draft = app.drafts[Math.max(0, i - 1)]?.id ?? 0;
  if (app.drafts.length === 0) app.start = true;
}

// replaceDraft replaces a draft that the user has not edited, so that browsing does not pile up drafts.
function replaceDraft(fields) {
  const d = draft();
  if (d && !d.touched && !d.question && !d.last && !app.start) {
    Object.assign(d, { target: app.target, title: "", note: "", mode: "one", auto: true, headers: [], saved: "", name: "", file: "", stamp: "", variables: [], environments: {}, place: "", checks: [], held: null, panel: false, wide: false, ...fields });
    front();
    void describe(d.target);
    return d;
  }
  return newDraft(fields);
}

// nextID is the next free number, as JSON text.
export const nextID = (name) => String(Math.max(target(name)?.next ?? 1, used[name] ?? 0));
const used = $state({});

export const laidOut = (text) => {
  const { root } = json.parse(text);
  return root ? json.spread(text, root) : text;
};

// message makes the text of a request.
export function message(to, method, params) {
  const id = nextID(to);
  const m = { jsonrpc: "2.0", id: Number(id), method };
  if (params !== undefined) m.params = params;
  return laidOut(JSON.stringify(m));
}

export function composeMethod(to, method) {
  const m = app.described[to]?.methods.find((x) => x.name === method);
  let params = m?.examples?.[0]?.params;
  if (params === undefined && m?.params) {
    params = sample(m.params);
    const order = m.params["x-order"];
    if (order && Object.keys(params).length === order.length && m.positional) params = order.map((n) => params[n]);
    if (Object.keys(params).length === 0 && !(m.params.required?.length > 0)) params = undefined;
  }
  const text = message(to, method, params);
  if (m?.notification) {
    const { root } = json.parse(text);
    return replaceDraft({ target: to, text: json.apply(text, json.remove(text, root, ["id"])) });
  }
  return replaceDraft({ target: to, text });
}

// firstDraft is the draft of a target before the user has selected anything in it.
export function firstDraft() {
  const k = app.described[app.target];
  const m = k?.methods.find((x) => x.from !== "server" && !x.notification && !/^(initialize|authenticate|rpc\..*)$/.test(x.name));
  return newDraft({ text: message(app.target, m?.name ?? "ping", m?.examples?.[0]?.params) });
}

// hole is the member of an item's template that its arguments go into.
export const hole = (item) => Object.keys(item.template ?? {}).find((k) => item.template[k] && typeof item.template[k] === "object" && Object.keys(item.template[k]).length === 0) ?? "arguments";

export function itemParams(to, item) {
  const entries = Object.entries(item.template ?? {});
  const params = Object.fromEntries([...entries.filter(([, v]) => typeof v === "string"), ...entries.filter(([, v]) => typeof v !== "string")]);
  const args = item.examples?.[0]?.params ?? (item.schema ? sample(item.schema) : undefined);
  if (args !== undefined && item.template && hole(item) in params) params[hole(item)] = args;
  else if (!item.template && item.uri) params.uri = item.uri;
  if (target(to)?.protocol === "mcp" && item.method === "tools/call") params._meta = { ...params._meta, progressToken: "p" + nextID(to) };
  return params;
}

export const composeItem = (to, item) => replaceDraft({ target: to, text: message(to, item.method, itemParams(to, item)) });

export function edit(d, text) {
  if (d.text === text) return;
  looked();
  const id = (t) => {
    const { root } = json.parse(t);
    return root && json.raw(t, json.get(root, ["id"]));
  };
  if (d.auto && d.mode !== "hex") {
    const [was, is] = [id(d.text), id(text)];
    if (was !== undefined && is !== undefined && was !== is) d.auto = false;
  }
  d.text = text;
  d.touched = true;
}

// wireText is what goes out for a draft: {text} or {base64} or {error}.
export function wireText(d) {
  if (d.mode === "hex") {
    const digits = d.text.replace(/\s+/g, "");
    if (digits.length % 2 || /[^0-9a-f]/i.test(digits)) return { error: "Each byte needs two hex digits.", size: 0 };
    const bytes = (digits.match(/../g) ?? []).map((x) => parseInt(x, 16));
    let s = "";
    for (const b of bytes) s += String.fromCharCode(b);
    return { base64: btoa(s), size: bytes.length };
  }
  const filled = calls.fill(d.text, values(d)).text;
  const { root } = json.parse(filled);
  const text = d.mode === "one" && root ? json.oneLine(filled, root) : filled;
  return { text, size: json.size(text) };
}

// counts reports whether the id of a draft advances by itself. The draft of a link is sent once, unchanged.
export const counts = (d) => d.auto && !(d.fixed && !d.last);

// completer asks what could stand at the cursor of an editor. While somebody types, only what was begun is asked about.
export const completer = (name) => async (context) => {
  if (!context.explicit && !/["\w/$.:-]$/.test(context.state.sliceDoc(Math.max(0, context.pos - 1), context.pos))) return null;
  try {
    const r = await call("complete", { target: name(), text: context.state.sliceDoc(), at: context.pos, asked: context.explicit });
    return r.options.length ? r : null;
  } catch {
    return null;
  }
};

// setAuto puts the next id into a draft whose id counts on by itself.
export function setAuto(d) {
  const { root } = json.parse(d.text);
  const old = root && json.get(root, ["id"]);
  if (!old || old.type !== "number") return;
  const was = json.raw(d.text, old);
  const id = nextID(d.target);
  if (was === id) return;
  let text = json.apply(d.text, { from: old.from, to: old.to, insert: id });
  const again = json.parse(text).root;
  const token = json.get(again, ["params", "_meta", "progressToken"]);
  if (token?.type === "string" && token.value === "p" + was) text = json.apply(text, { from: token.from, to: token.to, insert: JSON.stringify("p" + id) });
  d.text = text;
}

// headersOf are the headers of a draft, as they go out.
export const headersOf = (d) => d.headers.filter((h) => h.name).map((h) => ({ name: h.name, value: h.off ? null : calls.fill(h.value, values(d)).text }));

// values are the variables of a draft that replace {{name}}: its own, and those of the chosen environment in their place.
export const values = (d) => calls.replaced(d.variables, d.environments[app.environment]);

export async function send(d = draft()) {
  if (!d || !canSend(d)) return undefined;
  const out = wireText(d);
  if (out.error) {
    tell(out.error);
    return undefined;
  }
  const newest = log().roots.at(-1)?.row.ref;
  const was = app.sel;
  const wasNewest = !was || was === newest || was === d.last || log().nodes.get(was)?.up?.row.ref === newest;
  const params = { line: d.mode === "raw" ? "as-is" : "one" };
  if (out.base64) params.base64 = out.base64;
  else params.text = out.text;
  const headers = headersOf(d);
  if (headers.length) params.headers = headers;
  const q = d.question ? question(d.question) : undefined;
  if (d.question) d.busy = true; // until the answer is there, it is not sent again
  const r = await attempt(() => (q && out.text !== undefined ? call("answer", { ref: q.ref, text: out.text, page: page.name }) : call("send", { target: d.target, page: page.name, ...params })));
  d.busy = false;
  if (!r) return undefined;
  d.last = r.ref;
  if (!q) void hold(d, r.ref);
  mine.add(r.ref);
  if (app.log !== "live") showLog("live");
  const { root } = d.mode === "hex" ? {} : json.parse(d.text);
  const id = root && json.get(root, ["id"]);
  if (id?.type === "number" && !q) {
    const n = Number(json.raw(d.text, id));
    if (Number.isSafeInteger(n)) taken(d.target, n);
    if (counts(d)) setAuto(d); // its row may have arrived before the response, when a linked draft did not count yet
  }
  if (q) {
    const at = q.call && log().row(q.call) ? q.call : r.ref;
    if (d.id === app.draft) quiet(); // a second press was not meant for what comes next
    closeDraft(d.id);
    app.sel = at;
  } else if (wasNewest && app.sel === was) app.sel = r.ref;
  if (app.start) app.start = false;
  if (!d.checks.length) app.sheet = false; // on a phone: what comes of it is on the wire
  return r;
}

// hold waits for the answer to a draft, and holds it against the draft's checks.
async function hold(d, ref) {
  d.held = null;
  const list = calls.asserts(d.checks, values(d));
  if (!list.length) return;
  const places = d.checks.map((c, i) => [c, i]).filter(([c]) => c.path.trim()).map(([, i]) => i);
  const held = await attempt(() => call("saved/check", { ref, asserts: list }));
  if (!held || d.last !== ref) return;
  d.held = { ...held, results: held.results.map((x) => ({ ...x, assert: places[x.assert] })) };
  const failed = held.results.filter((x) => !x.ok).length;
  app.announced = failed ? failed + " of " + held.results.length + " checks failed." : held.results.length === 1 ? "The check passed." : "All " + held.results.length + " checks passed.";
}

export async function resend(ref) {
  const r = await attempt(() => call("resend", { log: app.log, ref, page: page.name }));
  if (!r) return;
  mine.add(r.ref);
  if (app.log !== "live") showLog("live");
  app.sel = r.ref;
}

export const cancel = (ref) => attempt(() => call("cancel", { ref }));

// ---- messages

const kept = new Map();

export async function load(ref, limit = 65536) {
  const key = app.log + " " + ref + " " + limit;
  if (kept.has(key)) return kept.get(key);
  const m = await call("wire/message", { log: app.log, ref, limit });
  if (m.base64 !== undefined) m.raw = Uint8Array.from(atob(m.base64), (c) => c.charCodeAt(0));
  if (kept.size > 200) kept.delete(kept.keys().next().value);
  kept.set(key, m);
  return m;
}

const briefs = new Map();

// briefOf is a result in a few words, for its folded call.
export async function briefOf(ref) {
  const key = app.log + " " + ref;
  if (briefs.has(key)) return briefs.get(key);
  let words = "";
  try {
    const m = await load(ref, 16384);
    const { result } = JSON.parse(m.text);
    if (result === null || typeof result !== "object") words = JSON.stringify(result) ?? "";
    else if (Array.isArray(result)) words = JSON.stringify(result).length < 40 ? JSON.stringify(result) : result.length + " items";
    else {
      const [name, list] = Object.entries(result).find(([, v]) => Array.isArray(v) && v.length > 0) ?? [];
      const state = result.status?.state ?? result.status;
      if (result.protocolVersion) words = String(result.protocolVersion);
      else if (typeof state === "string") words = state;
      else if (name) words = list.length + " " + (list.length === 1 ? name.replace(/s$/, "") : name);
      else if (JSON.stringify(result).length < 48) words = JSON.stringify(result);
    }
  } catch {
    // Too long, or no JSON: then there are no words.
  }
  if (briefs.size > 2000) briefs.clear();
  briefs.set(key, words.slice(0, 120));
  return words;
}

export const exchange = (http) => call("wire/exchange", { log: app.log, http });

export async function editCopy(ref) {
  const l = log();
  // The row of a message that has just been sent arrives later than its number.
  let row = l.row(ref) ?? (await attempt(() => load(ref, 16_000_000)))?.row;
  if (!row) return;
  if ((row.kind === "result" || row.kind === "error" || row.kind === "http") && row.parent && l.row(row.parent)) row = l.row(row.parent);
  const m = await attempt(() => load(row.ref, 16_000_000));
  if (!m) return;
  const known = target(row.target);
  const to = known ? row.target : app.target;
  const fields = { target: to, title: "Copy of #" + row.ref, auto: false };
  if (app.log !== "live" || !known) fields.note = "The recording is read only. This copy is sent over your own connection.";
  if (m.text === undefined) newDraft({ ...fields, text: hexText(m.raw), mode: "hex" });
  else {
    const { root } = json.parse(m.text);
    if (root && json.oneLine(m.text, root) === m.text) newDraft({ ...fields, text: json.spread(m.text, root) });
    else newDraft({ ...fields, text: m.text, mode: "raw" });
  }
  app.sheet = true;
}

export const hexText = (bytes) => {
  const out = [];
  for (let i = 0; i < bytes.length; i += 16) out.push([...bytes.slice(i, i + 16)].map((b) => b.toString(16).padStart(2, "0")).join(" "));
  return out.join("\n");
};

export async function copyAs(as, what) {
  const text = as === "link" && !what.ref ? link() : (await attempt(() => (as === "link" ? Promise.resolve({ text: link(false) }) : call("copy", { as, secrets: false, ...(what.ref ? { log: app.log } : {}), ...what }))))?.text;
  if (text !== undefined) await toClipboard(text);
}

export async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied.");
  } catch {
    tell("The browser does not allow copying.");
  }
}

// ---- questions

const asked = new Map(); // when each question came

export const others = (q) => ofOthers(q, page.name);

// takeQuestions changes nothing that a person looks at: each question of this tab becomes a draft in a tab of its own, behind what is shown. Focus,
// keys and Send stay with what was there.
function takeQuestions(list) {
  app.questions = list;
  const open = new Set(list.map((q) => q.ref));
  for (const d of app.drafts.filter((x) => x.question && !x.closed && !open.has(x.question))) {
    d.note = "This question is no longer open: it was answered, cancelled or its connection closed.";
    d.closed = true;
    if (d.id === app.draft) quiet();
  }
  for (const q of list) {
    if (asked.has(q.ref) || others(q)) continue;
    asked.set(q.ref, performance.now());
    questionDraft(q);
    app.announced = q.target + " asks you: " + (q.about ?? q.method);
  }
}

const questionDraft = (q) => addDraft({ target: q.target, text: laidOut(q.draft ?? q.choices?.[0]?.draft ?? '{"jsonrpc":"2.0","id":' + q.id + ',"result":{}}'), title: "Response " + q.id, question: q.ref, auto: false });

// openQuestion shows a question because a person wants it.
export function openQuestion(q) {
  if (!asked.has(q.ref)) asked.set(q.ref, -QUIET);
  looked();
  app.draft = (app.drafts.find((d) => d.question === q.ref) ?? questionDraft(q)).id;
  app.start = false;
  front();
  log().reveal(q.ref);
  app.sel = q.ref;
  stir();
}

// takeOver makes a question of another tab one of this tab.
export async function takeOver(q) {
  await attempt(() => call("questions/take", { ref: q.ref, page: page.name }));
}

// changed is when what Send would send was changed by something else than the person. For a moment afterwards Send does nothing: the key was meant
// for what was there before.
let changed = 0;
export const quiet = () => (changed = performance.now());
// looked ends that: the person has changed the draft, or asked for another one.
export const looked = () => (changed = 0);

// canSend reports whether a draft may be sent, and shows the reason if not.
export function canSend(d) {
  if (d.closed || (d.question && !question(d.question))) tell("This question is no longer open. Nothing was sent.");
  else if (d.busy) tell("The response is already being sent.");
  else if (d.question && question(d.question) && others(question(d.question))) tell("This question belongs to another tab. Nothing was sent.");
  else return settled();
  return false;
}

// settled reports whether what Send would send has been there for a moment.
export function settled() {
  if (!changed || performance.now() - changed >= QUIET) return true;
  tell("The draft has just changed. Check it, then send.");
  return false;
}

export async function answerWith(q, choice) {
  const d = app.drafts.find((x) => x.question === q.ref);
  if (d && !canSend(d)) return;
  if (performance.now() - (asked.get(q.ref) ?? -QUIET) < QUIET && d?.id !== app.draft) return tell("This question has just arrived. Read it, then answer.");
  if (d) d.busy = true;
  const r = await attempt(() => call("answer", { ref: q.ref, choice, page: page.name }));
  if (d) d.busy = false;
  if (r && d) {
    if (d.id === app.draft) quiet();
    closeDraft(d.id);
  }
  if (r) app.sheet = false;
}

// copyOfClosed makes a message of a draft whose question is closed.
export function copyOfClosed(d) {
  newDraft({ target: d.target, text: d.text, title: "Copy of " + d.title, mode: d.mode, auto: false });
}

// ---- sessions

export async function openFile(file) {
  const text = await file.slice(0, 4096).text();
  const config = /\.(json|jsonc|ya?ml|toml)$/i.test(file.name) && !/^\s*\{"(parley|v|seq|type|log)"/.test(text);
  if (config) {
    app.start = true;
    app.pasted = { name: file.name, text: await file.text() };
    return;
  }
  await attempt(async () => {
    const answer = await post("session/open?name=" + encodeURIComponent(file.name), "application/x-ndjson", file);
    const opened = await answer.json();
    app.opened.push({ log: opened.log, name: opened.name ?? file.name, total: opened.total });
    await showLog(opened.log);
    tell((opened.name ?? file.name) + " is open.");
  });
}

// openSession shows a session of a tap. One that is live is shown while it is recorded.
export async function openSession(s) {
  const r = await attempt(() => call("sessions/open", { session: s.session }));
  if (!r) return;
  if (!app.opened.some((o) => o.log === r.log)) app.opened.push(r);
  app.drawer = false;
  showLog(r.log);
  tell(r.name + (r.live ? " is shown while it is recorded." : " is open."));
}

// isLive reports whether another process still records what is shown.
export const isLive = (name) => Boolean(app.opened.find((o) => o.log === name)?.live);

let watched = null; // the recording that is read while it is shown: {name, stop}

// readLog reads the rows of a recording that are not here yet. One that is live has no end: it is read only while it is shown, because a browser opens
// few connections to one server.
function readLog(name) {
  const stop = new AbortController();
  const live = isLive(name);
  if (live) watched = { name, stop };
  const read = call("follow", { since: logs[name].next, log: name, short: true }, { signal: stop.signal, note: (m, p) => m === "rows" && takeRows({ ...p, log: name }) });
  read.then(() => {
    const o = app.opened.find((x) => x.log === name);
    if (o) o.live = false;
  }, (err) => {
    if (err?.name !== "AbortError" && !live) delete logs[name]; // the next look asks again
  });
  return read;
}

// startCompare shows the differences of two recordings: at first of the one that is shown, and of another one that is open.
export function startCompare() {
  const now = app.log === "live" ? (app.opened.at(-1)?.log ?? "live") : app.log;
  const old = app.opened.findLast((o) => o.log !== now)?.log ?? (now === "live" ? now : "live");
  app.compare = { old, new: now, ignore: "" };
  app.run = app.oauth = null;
  app.drawer = false;
  app.sheet = true;
}

// showLog shows a recording. What it returns ends when all its rows are here.
export function showLog(name) {
  let read;
  if (watched && watched.name !== name) {
    watched.stop.abort();
    watched = null;
  }
  if (!logs[name]) {
    logs[name] = new Log(name);
    read = readLog(name);
  } else if (isLive(name) && watched?.name !== name) read = readLog(name);
  read?.catch(() => {}); // the reason was handled
  app.log = name;
  app.sel = "";
  app.hits = null;
  app.start = app.start && name === "live";
  app.wire = true;
  if (app.start === false && app.drafts.length === 0) firstDraft();
  if (app.filter) void select();
  stir();
  return read;
}

export async function closeLog(name) {
  await attempt(() => call("session/close", { log: name }));
  app.opened = app.opened.filter((o) => o.log !== name);
  if (app.log === name) showLog("live");
  if (app.compare && [app.compare.old, app.compare.new].includes(name)) app.compare = null;
  delete logs[name];
}

// sessionFile is what is shown as a file: {name, url}. Who asks lets go of the url.
export async function sessionFile(format) {
  const answer = await post("session/save", "application/json", JSON.stringify({ log: app.log, format, ...(app.filter ? { filter: app.filter } : {}) }));
  const name = /filename="?([^";]+)/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? "session." + format;
  return { name, url: URL.createObjectURL(await answer.blob()) };
}

export async function saveSession(format) {
  await attempt(async () => {
    const { name, url } = await sessionFile(format);
    const a = document.createElement("a");
    a.href = url;
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
    tell("Saved as " + name + ".");
  });
}

// ---- saved calls, history

export async function loadSaved() {
  try {
    const list = await call("saved/list");
    app.saved = list.calls ?? [];
    app.suites = list.suites ?? [];
    app.environments = list.environments ?? [];
    const before = stored("parley.environment");
    app.environment = app.environments.includes(app.environment) ? app.environment : app.environments.includes(before) ? before : "";
    if (list.problems?.length) tell(list.problems[0].file + ": " + list.problems[0].text);
  } catch {
    app.saved = [];
  }
}

// chooseEnvironment chooses the environment of all calls: its variables replace those of all drafts that have it.
export function chooseEnvironment(name) {
  quiet(); // what Send would send has changed
  app.environment = name;
  store("parley.environment", name);
  for (const d of app.drafts) {
    if (d.place) d.target = placeOf(d);
    d.held = null;
  }
}

// placeOf is the target of a draft, whose address may have variables.
const placeOf = (d) => calls.fill(d.place, values(d)).text;

function stored(name) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // Then it is forgotten.
  }
}

// saveCall writes a draft into its file. What stands on one line there stays on one line.
export async function saveCall(d) {
  const { root } = json.parse(d.text, values(d).map((v) => v.name));
  const text = d.mode === "one" && root && !d.wide ? json.oneLine(d.text, root) : d.text;
  const name = d.name.trim();
  const r = await attempt(() => call("saved/save", {
    name, target: d.target, text, headers: d.headers.filter((h) => h.name).map((h) => ({ name: h.name, value: h.off ? null : h.value })),
    variables: Object.fromEntries(d.variables.filter((v) => v.name).map((v) => [v.name, v.value])), asserts: calls.asserts(d.checks),
    ...(d.saved ? { was: d.saved, stamp: d.stamp } : {}),
  }));
  if (!r) return;
  Object.assign(d, { title: name, saved: name, name, file: r.file, stamp: r.stamp });
  tell("Saved as " + r.file + ".");
  await loadSaved();
}

export async function deleteSaved(d) {
  await attempt(() => call("saved/delete", { name: d.saved }));
  Object.assign(d, { saved: "", file: "", stamp: "", panel: false });
  await loadSaved();
}

// openSaved makes a draft of a call, also of one in a suite. A text of several lines is shown as somebody laid it out.
export async function openSaved(c, of = "") {
  await loadSaved(); // it may have been changed in its file
  c = (of ? (app.suites.find((s) => s.file === of)?.calls ?? []) : app.saved).find((x) => x.name === c.name) ?? c;
  app.drawer = false;
  app.sheet = true;
  const variables = Object.entries(c.variables ?? {}).map(([name, value]) => ({ name, value }));
  const checks = (c.asserts ?? []).map((a) => ({ path: a.path, is: a.is, value: calls.valueText(a.raw) }));
  const { root } = json.parse(c.text, variables.map((v) => v.name));
  const wide = !root || json.oneLine(c.text, root) !== c.text;
  const environments = c.environments ?? {};
  const place = c.target?.includes("{{") ? c.target : "";
  const to = place ? placeOf({ place, variables, environments }) : c.target || app.target;
  app.target = target(to) ? to : app.target;
  newDraft({
    target: to, text: wide ? c.text : json.spread(c.text, root), title: c.name, auto: false, headers: (c.headers ?? []).map((h) => ({ name: h.name, value: h.value ?? "", off: h.value === null })),
    more: { ...(of ? { suite: of } : { saved: c.name, file: c.file, stamp: c.stamp }), name: c.name, variables, environments, place, checks, wide, panel: variables.length + checks.length > 0 },
  });
}

// ---- lessons

export const passed = $state(read());

function read() {
  try {
    return JSON.parse(localStorage.getItem("parley.passed") ?? "{}");
  } catch {
    return {};
  }
}

function keepPassed(id, now) {
  const l = app.lesson?.id === id ? app.lesson : undefined;
  if (l && l.steps.every((s) => ({ ...l.passed, ...now })[s.id])) {
    passed[id] = true;
    app.announced = "Lesson passed.";
    try {
      localStorage.setItem("parley.passed", JSON.stringify(passed));
    } catch {
      // Then it is forgotten.
    }
  }
}

export async function openLesson(id, on) {
  const l = await attempt(() => call("lessons/open", { lesson: id, ...(on ? { target: on } : {}) }));
  if (!l) return;
  app.lesson = { steps: [], text: [], notes: [], passed: {}, ...l };
  app.drawer = false;
  if (l.target && target(l.target)) app.target = l.target;
  const first = app.lesson.steps.find((s) => s.draft && !app.lesson.passed[s.id]);
  if (first?.draft) newDraft({ target: app.target, text: laidOut(first.draft), title: "", auto: false });
  else if (app.start || !draft()) newDraft({ target: app.target, text: message(app.target, app.target === "@demo" ? "subtract" : "ping", app.target === "@demo" ? [42, 23] : undefined) });
  if (app.target) setFilter("target:" + app.target);
  app.log = "live";
}

export async function closeLesson() {
  app.lesson = null;
  setFilter("");
  await attempt(() => call("lessons/close"));
}

export { call, Fault };

// canRun reports whether a target has agents that can be run.
export const canRun = (t) => t.protocol === "acp" || t.protocol === "a2a" || t.protocol === "editor";

// startRun shows the pane of an agent run in place of the composer.
export function startRun(name) {
  app.target = name;
  app.run = { target: name, state: "new", items: [], question: null, progress: null, session: "", id: "", later: "" };
  app.oauth = null;
  app.drawer = false;
}

// askSignIn shows that a target requires authentication. It sends no request before the user starts the sign-in.
export function askSignIn(name) {
  if (app.oauth?.target === name && app.oauth.state === "going") return;
  app.oauth = { target: name, state: "asked", steps: [], visit: "", problem: "" };
  app.run = null;
  app.drawer = false;
  app.announced = name + " requires authentication.";
}

// signIn gets a token for a target, step by step.
export async function signIn(name, more = {}) {
  const abort = new AbortController();
  app.oauth = { target: name, state: "going", steps: [], visit: "", problem: "", stop: () => abort.abort() };
  const mine = app.oauth;
  try {
    await call("oauth/start", { target: name, ...more }, {
      signal: abort.signal,
      note: (m, p) => {
        if (m === "visit") mine.visit = p.url;
        else if (m === "step") {
          const i = mine.steps.findIndex((s) => s.n === p.n);
          if (i < 0) mine.steps.push(p);
          else mine.steps[i] = p;
          app.announced = p.state === "waiting" ? "Open the sign-in page and approve access there." : p.title;
        }
      },
    });
    mine.state = "done";
    tell("Signed in at " + name + ".");
  } catch (err) {
    if (err?.name === "AbortError") return;
    Object.assign(mine, { state: "failed", problem: err.message });
    tell(err.message);
  }
}

export const signOut = async (name) => {
  await attempt(() => call("oauth/forget", { target: name }));
  if (app.oauth?.target === name) app.oauth = null;
  tell("Signed out of " + name + ".");
};
