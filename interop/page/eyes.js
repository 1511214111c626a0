// What a test sees of the page: things by role and name, the way a screen reader names them, through shadow roots.
// It is put into each document before the page's own scripts.
(() => {
  if (window !== window.top) return;
  const implied = { A: (e) => e.hasAttribute("href") && "link", BUTTON: () => "button", NAV: () => "navigation", MAIN: () => "main", HEADER: () => "banner", FOOTER: () => "contentinfo", ASIDE: () => "complementary", SECTION: (e) => name(e) && "region", UL: () => "list", OL: () => "list", LI: () => "listitem", TEXTAREA: () => "textbox", SELECT: () => "combobox", OPTION: () => "option", DIALOG: () => "dialog", SUMMARY: () => "button", H1: () => "heading", H2: () => "heading", H3: () => "heading", H4: () => "heading", INPUT: (e) => ({ checkbox: "checkbox", radio: "radio", button: "button", submit: "button", range: "slider", number: "spinbutton", search: "searchbox" })[e.type] ?? (e.list ? "combobox" : "textbox") };

  const labelled = new Set(["img", "button", "link", "tab", "option", "menuitem", "radio", "checkbox", "textbox", "combobox", "slider", "separator"]); // the name stands for what is in it
  const clean = (s) => s.replace(/\s+/g, " ").trim();
  function text(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || node.ariaHidden === "true" || node.hidden) return "";
    if (node.ariaLabel && labelled.has(role(node))) return " " + node.ariaLabel + " ";
    const inner = [...(node.shadowRoot ?? node).childNodes].map(text).join("");
    return /^(inline|contents|none)/.test(getComputedStyle(node).display) ? inner : " " + inner + " ";
  }
  function name(e) {
    const by = e.getAttribute("aria-labelledby");
    if (by) return clean(by.split(/\s+/).map((id) => e.getRootNode().getElementById?.(id)).filter(Boolean).map(text).join(" "));
    if (e.ariaLabel) return clean(e.ariaLabel);
    if (e.labels?.length) return clean([...e.labels].map(text).join(" "));
    if (e.placeholder !== undefined) return clean(e.placeholder || e.title);
    if (/^(SECTION|NAV|ASIDE|MAIN|DIALOG|HEADER|FOOTER|UL|OL)$/.test(e.tagName)) return clean(e.title ?? "");
    return clean(text(e)) || clean(e.title ?? "");
  }
  const role = (e) => e.getAttribute("role") || implied[e.tagName]?.(e) || "";
  const visible = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && e.getClientRects().length > 0;
  function* walk(root) {
    for (const e of root.querySelectorAll("*")) {
      yield e;
      if (e.shadowRoot) yield* walk(e.shadowRoot);
    }
  }
  function* each(wantRole, wantName, within) {
    const fits = wantName instanceof RegExp ? (e) => wantName.test(name(e)) : (e) => wantName === undefined || name(e) === wantName;
    const root = within ?? document;
    for (const e of walk(root.shadowRoot ?? root)) if (role(e) === wantRole && visible(e) && fits(e)) yield e;
  }
  const all = (wantRole, wantName, within) => [...each(wantRole, wantName, within)];
  const focus = () => {
    let e = document.activeElement;
    while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
    return e;
  };
  const row = (e) => ({
    seq: clean(e.querySelector(".seq, [data-seq]")?.textContent ?? ""),
    text: clean(text(e)),
    level: Number(e.getAttribute("aria-level") ?? 1),
    open: e.getAttribute("aria-expanded"),
    selected: e.getAttribute("aria-selected") === "true",
    top: Math.round(e.getBoundingClientRect().top),
  });

  const seen = { policy: [], ran: 0 };
  addEventListener("securitypolicyviolation", (e) => seen.policy.push(e.violatedDirective + " " + e.blockedURI + " " + (e.sample ?? "")));
  // Where every hostile string leads, if a script of it runs.
  Object.defineProperty(window, "pwned", { value: () => seen.ran++, writable: false, configurable: false });

  window.eyes = {
    all, name, role, text, visible, focus, seen, clean,
    first: (r, n, within) => each(r, n, within).next().value,
    rows: () => all("row").filter((e) => e.closest("[role=treegrid]") && !e.querySelector("[role=columnheader]")).map(row),
    bytes: (n = /^Bytes/) => { // the text of an editor
      const e = all("textbox", n)[0];
      return e?.cmTile?.view?.state.sliceDoc() ?? e?.cmView?.view?.state.sliceDoc() ?? e?.value ?? [...(e?.querySelectorAll(".cm-line") ?? [])].map((l) => l.textContent).join("\n");
    },
    // until resolves when look returns a true value. It calls look in a frame, and again after four times
    // as long as that took, so that tabs that wait leave the processor to those that work. look may throw
    // while the page is not drawn yet: until fails only after five seconds of that.
    until: (look) => new Promise((done, fail) => {
      let faultsSince = 0;
      const ask = () => {
        const begin = performance.now();
        try {
          const v = look();
          if (v) return done(v === true ? true : v instanceof Node ? true : v);
          faultsSince = 0;
        } catch (err) {
          faultsSince ||= begin;
          if (begin - faultsSince > 5000) return fail(err);
        }
        setTimeout(() => requestAnimationFrame(ask), 4 * (performance.now() - begin));
      };
      ask();
    }),
    // place is where to click a thing, after it was brought into sight. It says what lies on top of it, if something does.
    place: (e) => {
      e.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
      const r = e.getBoundingClientRect();
      const x = Math.min(Math.max(r.left + r.width / 2, 0), innerWidth - 1), y = Math.min(Math.max(r.top + r.height / 2, 0), innerHeight - 1);
      let top = document.elementFromPoint(x, y);
      while (top?.shadowRoot?.elementFromPoint(x, y) && top.shadowRoot.elementFromPoint(x, y) !== top) top = top.shadowRoot.elementFromPoint(x, y);
      let up = top;
      while (up && up !== e) up = up.parentElement ?? up.getRootNode().host;
      return { x, y, width: r.width, height: r.height, over: up || e.contains(top) ? "" : (top?.outerHTML ?? "nothing").slice(0, 200) };
    },
  };
})();
