// The page's way to its server: JSON-RPC over POST, with the token of the address it was opened with.

let token = "";
let count = 0;

const shelf = "parley.token"; // in this tab's storage: a reload finds it, another tab does not

// takeToken reads the token of an address or of a fragment, and reports whether there was one. It stays in this tab.
export function takeToken(text) {
  const found = /(?:token=|^)([A-Za-z0-9_-]{43})(?:&|$)/.exec(text.trim().replace(/^.*#/, ""));
  if (found) {
    token = found[1];
    store(() => sessionStorage.setItem(shelf, token));
  }
  return Boolean(found);
}

// recallToken takes the token that this tab had before it was loaded again.
export function recallToken() {
  if (!token) token = store(() => sessionStorage.getItem(shelf)) ?? "";
}

// store does something with the browser's storage, which may be switched off.
function store(work) {
  try {
    return work();
  } catch {
    return undefined;
  }
}

export const hasToken = () => token !== "";

// page names this tab, so that a question goes to the tab that made the call. A tab that is loaded again keeps its name. A copy of a tab has the same
// storage, but the lock on the name is taken, so it gets another name.
export const page = { name: "" };

export async function namePage() {
  if (page.name) return;
  const before = store(() => sessionStorage.getItem("parley.page"));
  page.name = before && (await own(before)) ? before : [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("");
  if (page.name !== before) void own(page.name);
  store(() => sessionStorage.setItem("parley.page", page.name));
}

// own takes the lock on a name for as long as this tab is there, and reports whether it was free.
function own(name) {
  if (!navigator.locks) return Promise.resolve(false);
  return new Promise((done) => {
    navigator.locks.request("parley.page." + name, { ifAvailable: true }, (lock) => {
      done(Boolean(lock));
      return lock ? new Promise(() => {}) : undefined;
    }).catch(() => done(false));
  });
}

// A Fault is an error from the server, or the reason why it could not be reached. Its message is a sentence for people.
export class Fault extends Error {
  constructor(message, code, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

// call asks for a method. note(method, params) gets the notifications that come before the answer; aborting cancels.
export async function call(method, params = {}, { signal, note } = {}) {
  const id = ++count;
  const answer = await post("rpc", "application/json", JSON.stringify({ jsonrpc: "2.0", id, method, params }), signal, "application/json, text/event-stream");
  const type = answer.headers.get("Content-Type") ?? "";
  if (!type.startsWith("text/event-stream")) return take(await answer.json());
  for await (const data of events(answer.body)) {
    const message = JSON.parse(data);
    if (message.method !== undefined) note?.(message.method, message.params);
    else return take(message);
  }
  throw new Fault("The response ended early.", 0);
}

function take(message) {
  if (message.error) throw new Fault(message.error.message, message.error.code, message.error.data);
  return message.result;
}

// post sends a body and returns the answer when the server took it.
export async function post(path, type, body, signal, accept = "*/*") {
  let answer;
  try {
    answer = await fetch(path, {
      method: "POST",
      headers: { Authorization: "Bearer " + token, "Content-Type": type, Accept: accept },
      body,
      signal,
      cache: "no-store",
      credentials: "omit",
    });
  } catch (err) {
    if (signal?.aborted) throw err;
    throw new Fault("parley does not respond. Is it still running?", -1);
  }
  if (answer.ok) return answer;
  if (answer.status === 401) throw new Fault("Open the URL that parley printed in the terminal, or paste it here.", 401);
  let text = (await answer.text()).trim();
  let fault;
  try {
    const message = JSON.parse(text);
    fault = message.error;
    text = fault?.message ?? message.text ?? text;
  } catch {
    // It is a sentence already.
  }
  throw new Fault(text || "The server responded with HTTP " + answer.status + ".", fault?.code ?? answer.status, fault?.data);
}

// events reads the data of an event stream, one event at a time.
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let from = Math.max(0, rest.length - 1); // what was there has no end of an event
    rest += value;
    let begin = 0;
    for (let end; (end = rest.indexOf("\n\n", from)) >= 0; begin = from = end + 2) {
      const data = dataOf(rest.slice(begin, end));
      if (data !== undefined) yield data;
    }
    rest = rest.slice(begin);
  }
}

function dataOf(event) {
  if (event.startsWith("data: ") && !event.includes("\n")) return event.slice(6);
  const lines = event.split("\n").filter((l) => l.startsWith("data:"));
  return lines.length ? lines.map((l) => l.slice(l.startsWith("data: ") ? 6 : 5)).join("\n") : undefined;
}
