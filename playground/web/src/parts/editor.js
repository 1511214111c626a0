// The editor of bytes. It lives in a shadow root: there its styles are adopted sheets, which the page's policy allows.
import { acceptCompletion, autocompletion, completionKeymap, pickedCompletion, startCompletion } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, GutterMarker, drawSelection, gutter, gutterLineClass, highlightSpecialChars, keymap, lineNumbers, tooltips } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { hidden, plain } from "../lib/json.js";
import { icons } from "./icons.js";

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "var(--sunk)", fontSize: "var(--t-2)" },
  "&.cm-focused": { outline: "none" },
  ".cm-gutterElement.cm-lit": { boxShadow: "none" },
  ".cm-lineNumbers .cm-gutterElement.cm-lit": { boxShadow: "inset 2px 0 var(--out)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "19px", fontWeight: "var(--w-text)", fontVariantLigatures: "none" },
  ".cm-content": { padding: "5px 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 10px 0 calc(4px + 4ch)", textIndent: "-4ch" },
  ".cm-gutters": { backgroundColor: "transparent", border: "0", color: "var(--ink-3)", fontSize: "11px" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "30px", padding: "0" },
  ".cm-marks .cm-gutterElement": { width: "18px", display: "grid", placeItems: "start center" },
  ".cm-marks svg": { width: "13px", height: "13px", fill: "none", stroke: "currentColor", strokeWidth: "1.4", strokeLinecap: "round", strokeLinejoin: "round", display: "block", marginTop: "3px" },
  ".cm-bad": { backgroundColor: "var(--bad-soft)" },
  ".cm-doubt": { backgroundColor: "var(--wait-soft)" },
  ".cm-lit": { backgroundColor: "var(--out-soft)" },
  ".m-bad": { color: "var(--bad)" },
  ".m-doubt": { color: "var(--wait)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--out) 24%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--hover)", boxShadow: "inset 0 0 0 1px var(--edge)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-tooltip": { background: "var(--raised)", border: "0", borderRadius: "var(--r-2)", boxShadow: "var(--shadow)", overflow: "hidden" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "var(--t-2)", maxWidth: "min(560px, 92vw)", maxHeight: "224px", padding: "4px 0" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { display: "flex", gap: "12px", alignItems: "baseline", padding: "3px 10px", lineHeight: "20px", color: "var(--ink)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { background: "var(--select)", color: "var(--ink)" },
  ".cm-tooltip-autocomplete .cm-completionLabel": { flex: "0 1 auto", minWidth: "0", overflow: "hidden", textOverflow: "ellipsis" },
  ".cm-tooltip-autocomplete .cm-completionDetail": { flex: "1 1 60px", minWidth: "0", overflow: "hidden", textOverflow: "ellipsis", textAlign: "right", marginLeft: "0", fontFamily: "var(--sans)", fontStyle: "normal", color: "var(--ink-2)" },
  ".cm-completionIcon": { display: "none" },
});

const firm = { color: "var(--ink)", fontWeight: "520" };
const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--ink-2)" },
  { tag: [tags.string, tags.number, tags.bool, tags.null], ...firm },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--ink-3)" },
]);

class Mark extends GutterMarker {
  constructor(level) {
    super();
    this.level = level;
  }
  eq(other) {
    return other.level === this.level;
  }
  toDOM() {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("class", "m-" + this.level);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", this.level === "bad" ? "broken rule" : "warning");
    for (const d of icons[this.level === "bad" ? "stop" : "warn"]) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", d);
      svg.append(path);
    }
    return svg;
  }
}

class Tint extends GutterMarker {
  constructor(name) {
    super();
    this.elementClass = "cm-" + name;
  }
  eq(other) {
    return other.elementClass === this.elementClass;
  }
}

const setMarks = StateEffect.define();
const setLit = StateEffect.define();

const decorated = StateField.define({
  create: () => ({ marks: [], lit: null, lines: Decoration.none, gutter: RangeSet.empty, tints: RangeSet.empty }),
  update(value, tr) {
    let { marks, lit } = value;
    let changed = tr.docChanged;
    if (changed) {
      marks = marks.map((m) => ({ ...m, at: tr.changes.mapPos(m.at) }));
      if (lit !== null) lit = tr.changes.mapPos(lit);
    }
    for (const e of tr.effects) {
      if (e.is(setMarks)) (marks = e.value), (changed = true);
      if (e.is(setLit)) (lit = e.value), (changed = true);
    }
    if (!changed) return value;
    const byLine = new Map();
    for (const m of marks) {
      const line = tr.state.doc.lineAt(Math.max(0, Math.min(m.at, tr.state.doc.length))).from;
      if (byLine.get(line) !== "bad") byLine.set(line, m.level);
    }
    const litLine = lit === null ? -1 : tr.state.doc.lineAt(Math.min(lit, tr.state.doc.length)).from;
    const all = [...byLine].map(([at, level]) => Decoration.line({ class: "cm-" + level }).range(at));
    if (litLine >= 0) all.push(Decoration.line({ class: "cm-lit" }).range(litLine));
    return {
      marks, lit,
      lines: Decoration.set(all, true),
      gutter: RangeSet.of([...byLine].map(([at, level]) => new Mark(level).range(at)), true),
      tints: RangeSet.of([...[...byLine].map(([at, level]) => new Tint(level).range(at)), ...(litLine >= 0 ? [new Tint("lit").range(litLine)] : [])], true),
    };
  },
  provide: (f) => [EditorView.decorations.from(f, (v) => v.lines), gutterLineClass.from(f, (v) => v.tints)],
});

// option is a proposal of the server as the editor has it. Chosen, it puts the cursor where one goes on, and asks what comes next.
function option(o) {
  const caret = o.caret || o.insert.length;
  return {
    label: plain(o.label),
    detail: o.about ? plain(o.about) : undefined,
    apply(view, picked, from, to) {
      view.dispatch({ changes: { from, to, insert: o.insert }, selection: { anchor: from + caret }, scrollIntoView: true, userEvent: "input.complete", annotations: pickedCompletion.of(picked) });
      if (o.kind !== "value" && o.kind !== "method") startCompletion(view);
    },
  };
}

// create puts an editor into host. It returns what the page does with it.
export function create(host, { text, label, onChange, onPlace, onSend, complete, root: isJSON = true, numbers = true }) {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  root.replaceChildren();
  const box = document.createElement("div");
  root.append(box);
  const names = new Compartment();
  const view = new EditorView({
    parent: box,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorState.lineSeparator.of("\n"), // a carriage return is a byte like others
        keymap.of([{ key: "Mod-Enter", run: () => (onSend?.(), true) }]),
        numbers ? lineNumbers() : [],
        numbers ? gutter({ class: "cm-marks", markers: (v) => v.state.field(decorated).gutter, initialSpacer: () => new Mark("doubt") }) : [],
        history(),
        drawSelection(),
        highlightSpecialChars({ addSpecialChars: hidden }),
        bracketMatching(),
        isJSON ? json() : [],
        syntaxHighlighting(colours),
        EditorView.lineWrapping,
        complete ? autocompletion({ override: [async (context) => { // the server has chosen and sorted
          const r = await complete(context);
          return r && !context.aborted ? { from: r.from, to: r.to, options: r.options.map(option), filter: false } : null;
        }], icons: false, maxRenderedOptions: 100, tooltipClass: () => "cm-proposals" }) : [],
        EditorState.phrases.of({ Completions: "What could stand here" }),
        tooltips({ position: "fixed" }),
        keymap.of([...completionKeymap, { key: "Tab", run: acceptCompletion }, ...defaultKeymap.filter((k) => k.key !== "Mod-Enter"), ...historyKeymap]),
        names.of(EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocapitalize: "off", autocorrect: "off" })),
        decorated,
        look,
        EditorView.updateListener.of((u) => {
          if (u.docChanged && !quiet) onChange?.(u.state.sliceDoc());
          if (u.selectionSet || u.focusChanged) onPlace?.(u.state.selection.main.head, u.view.hasFocus);
        }),
      ],
    }),
  });
  box.setAttribute("class", "cm-box");
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(":host, .cm-box { display: block; height: 100%; min-height: 0; } .cm-editor { height: 100%; }");
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  let quiet = false;
  return {
    view,
    set(next) {
      const now = view.state.sliceDoc();
      if (now === next) return;
      let from = 0;
      const most = Math.min(now.length, next.length);
      while (from < most && now[from] === next[from]) from++;
      let end = 0;
      while (end < most - from && now[now.length - 1 - end] === next[next.length - 1 - end]) end++;
      quiet = true;
      view.dispatch({ changes: { from, to: now.length - end, insert: next.slice(from, next.length - end) } });
      quiet = false;
    },
    marks: (list) => view.dispatch({ effects: setMarks.of(list) }),
    light: (at) => view.dispatch({ effects: setLit.of(at) }),
    goto: (at) => (view.dispatch({ selection: { anchor: Math.min(at, view.state.doc.length) }, scrollIntoView: true }), view.focus()),
    focus: () => view.focus(),
    end: () => view.destroy(),
  };
}
