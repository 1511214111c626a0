// Short rows, as playground/short.go writes them: most are lists, and values that a whole portion shares are sent once.

const kinds = ["", "request", "notification", "result", "error", "stderr", "close", "http"];
const dirs = [undefined, "out", "in"];
const states = [undefined, "waiting", "done", "error", "cancelled", "unanswered"];

const ref = (n) => (n ? String(n) : undefined);

// spell makes rows of what came, in place.
export function spell(rows, all) {
  for (let i = 0; i < rows.length; i++) {
    const a = rows[i];
    if (Array.isArray(a)) {
      rows[i] = {
        ref: String(a[0]), time: a[1], kind: kinds[a[2]], dir: dirs[a[3]], id: a[4] || undefined, method: a[5] || undefined, bytes: a[6] || undefined,
        parent: ref(a[7]), call: ref(a[8]), answer: ref(a[9]), state: states[a[10]], ms: a[11] || undefined, brief: a[12] || undefined, name: a[13] || undefined,
        http: a[14] || undefined, conn: all.conn, target: all.target, carrier: all.carrier, session: all.session, version: kinds[a[2]] === "http" ? undefined : all.version, code: a[15] || undefined,
      };
    } else if (a.conn === undefined && a.kind !== "lost") {
      const version = a.kind === "http" ? a.version : all.version;
      Object.assign(a, all, { version });
    }
  }
  return rows;
}
