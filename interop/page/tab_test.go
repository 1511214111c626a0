package page

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	cdbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed eyes.js
var eyes string

// patience limits one wait. It is long, because a machine may be busy; existing content is detected
// immediately.
const patience = 60 * time.Second

// A look is the size of the window and the colour scheme.
type look struct {
	width, height int64
	dark, phone   bool
}

var (
	desk  = look{width: 1440, height: 900}
	night = look{width: 1440, height: 900, dark: true}
	phone = look{width: 390, height: 844, phone: true}
)

func (l look) String() string {
	name := "light"
	if l.dark {
		name = "dark"
	}
	return fmt.Sprintf("%s-%dx%d", name, l.width, l.height)
}

// A tab is one page in its own profile.
type tab struct {
	t    *testing.T
	ctx  context.Context
	look look

	mu sync.Mutex
	// faults are exceptions, dialogs and policy violations, which are errors on our pages. It is
	// guarded by mu.
	faults []string
}

// open opens an address. The test fails if the page throws an exception, opens a dialog or violates
// the policy.
func open(t *testing.T, address string, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser(t), chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx}
	t.Cleanup(cancel)
	t.Cleanup(func() {
		if t.Failed() {
			p.shot("failed")
			t.Logf("the page says:\n%s", ask[string](p, `eyes.text(document.body)`))
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, f := range p.faults {
			t.Error(f)
		}
	})
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			p.fault("the page threw %s %s", ev.ExceptionDetails.Text, described(ev.ExceptionDetails.Exception))
		case *cdpage.EventJavascriptDialogOpening:
			p.fault("the page opened a dialog: %s", ev.Message)
			go func() { // not on this goroutine, which reads the browser's messages
				// The test fails in any case.
				_, _ = chromedp.Call(ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{})
			}()
		case *log.EventEntryAdded:
			if ev.Entry.Source == "security" || strings.Contains(ev.Entry.Text, "Content Security Policy") {
				p.fault("the browser reports: %s", ev.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: eyes}); err != nil {
		t.Fatal(err)
	}
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.as(l)
	p.visit(address)
	return p
}

func described(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

func (p *tab) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// as changes the window.
func (p *tab) as(l look) {
	p.t.Helper()
	p.look = l
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.phone})
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// visit navigates this tab to an address.
func (p *tab) visit(address string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address)); err != nil {
		p.t.Fatalf("open %s: %v", address, err)
	}
}

// ask evaluates a JavaScript expression, and awaits a promise.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := try[T](p, expression)
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func try[T any](p *tab, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// until waits until the expression is true. It is evaluated again and again, also after the
// page was loaded again. what describes the missing condition.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	wait[bool](p, what, "!!("+expression+")")
}

// wait waits like until and returns the value that ended it.
func wait[T any](p *tab, what, expression string) T {
	p.t.Helper()
	end := time.Now().Add(patience)
	for {
		v, err := try[T](p, "eyes.until(() => ("+expression+"))")
		if err == nil {
			return v
		}
		// A page that is loaded again ends what was evaluated in it.
		if loading := strings.Contains(err.Error(), "navigated or closed") || strings.Contains(err.Error(), "context was destroyed") ||
			strings.Contains(err.Error(), "eyes is not defined"); !loading || time.Now().After(end) {
			p.t.Fatalf("%s, for %v: %s: %v", what, patience, expression, err)
		}
	}
}

// thing returns the expression for the first visible element with that role and name. A name
// between slashes is a pattern.
func thing(role, name string) string {
	return "eyes.first(" + strconv.Quote(role) + "," + pattern(name) + ")"
}

func pattern(name string) string {
	if strings.HasPrefix(name, "/") && strings.HasSuffix(name, "/") && len(name) > 1 {
		return name + "i"
	}
	if name == "" {
		return "undefined"
	}
	return quoted(name)
}

// see waits until an element with that role and name exists.
func (p *tab) see(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("there is no %s named %s", role, name), thing(role, name))
}

// gone waits until no such element exists.
func (p *tab) gone(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("there is still a %s named %s", role, name), "!"+thing(role, name))
}

// says waits until the page shows text anywhere.
func (p *tab) says(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("the page does not say %q", text), "eyes.clean(eyes.text(document.body)).includes("+quoted(text)+")")
}

type spot struct {
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Over   string  `json:"over"`
}

// click clicks an element with the mouse once it exists and is not covered.
func (p *tab) click(role, name string) {
	p.t.Helper()
	p.see(role, name)
	p.clickOn(thing(role, name))
}

// clickOn clicks the element that the expression returns.
func (p *tab) clickOn(expression string) {
	p.t.Helper()
	p.until("nothing to click", expression)
	at := wait[spot](p, "something lies over it", "(e => { const at = e && eyes.place(e); return at?.over === '' && at })("+expression+")")
	for _, kind := range []input.DispatchMouseEventType{"mouseMoved", "mousePressed", "mouseReleased"} {
		m := input.DispatchMouseEventParams{Type: kind, X: at.X, Y: at.Y}
		if kind != "mouseMoved" {
			m.Button, m.ClickCount = "left", 1
		}
		call(p, input.DispatchMouseEvent, m)
	}
}

// drag presses the mouse on an element and moves it along: from and to are fractions of its width.
func (p *tab) drag(expression string, from, to float64) {
	p.t.Helper()
	at := ask[spot](p, "eyes.place("+expression+")")
	x := func(part float64) float64 { return at.X + (part-0.5)*at.Width }
	call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mousePressed", X: x(from), Y: at.Y, Button: "left", ClickCount: 1})
	for _, part := range []float64{(from + to) / 2, to} {
		call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseMoved", X: x(part), Y: at.Y, Button: "left", Buttons: 1})
	}
	call(p, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: "mouseReleased", X: x(to), Y: at.Y, Button: "left", ClickCount: 1})
}

// grantClipboard lets the page write to the clipboard, which a browser without windows does not by
// itself, and lets the test read it.
func (p *tab) grantClipboard() {
	p.t.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		may := cdbrowser.SetPermissionParams{Permission: &cdbrowser.PermissionDescriptor{Name: name}, Setting: "granted", BrowserContextID: profile(p)}
		if _, err := chromedp.CallBrowser(p.ctx, cdbrowser.SetPermission, may); err != nil {
			p.t.Fatal(err)
		}
	}
}

// write inserts text into the focused element, as one insertion.
func (p *tab) write(text string) {
	p.t.Helper()
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// bytes replaces the content of the editor, as a paste does, and waits until the page has it.
func (p *tab) bytes(text string) {
	p.t.Helper()
	p.click("textbox", "/^Bytes/")
	p.key("Ctrl+a")
	ask[bool](p, `(() => { const d = new DataTransfer(); d.setData("text/plain", `+quoted(text)+`); return eyes.focus().dispatchEvent(new ClipboardEvent("paste", {clipboardData: d, bubbles: true, cancelable: true, composed: true})) || true })()`)
	p.until("the editor does not have what was pasted", "eyes.bytes() === "+quoted(text))
}

// fill replaces the text of a field.
func (p *tab) fill(role, name, text string) {
	p.t.Helper()
	p.click(role, name)
	p.key("Ctrl+a")
	p.write(text)
}

// copyRow makes a draft of the selected message. It waits for the draft: the one that was shown may
// have the same bytes.
func (p *tab) copyRow() {
	p.t.Helper()
	const drafts = "document.querySelectorAll('[aria-label=Drafts] [role=tab]').length"
	n := ask[int](p, drafts)
	p.key("e")
	p.until("there is no copy", drafts+" === "+itoa(n+1))
}

// codes are the keys that are not letters.
var codes = map[string]struct {
	key, code string
	number    int64
	text      string
}{
	"Enter": {"Enter", "Enter", 13, "\r"}, "Esc": {"Escape", "Escape", 27, ""}, "Tab": {"Tab", "Tab", 9, ""}, "Space": {" ", "Space", 32, " "}, "+": {"+", "Equal", 187, "+"},
	"Up": {"ArrowUp", "ArrowUp", 38, ""}, "Down": {"ArrowDown", "ArrowDown", 40, ""}, "Left": {"ArrowLeft", "ArrowLeft", 37, ""}, "Right": {"ArrowRight", "ArrowRight", 39, ""},
	"/": {"/", "Slash", 191, "/"}, "?": {"?", "Slash", 191, "?"}, "End": {"End", "End", 35, ""}, "Home": {"Home", "Home", 36, ""},
}

// key presses a key: "j", "Ctrl+Enter", "Alt+2".
func (p *tab) key(name string) {
	p.t.Helper()
	var modifiers int64
	for _, m := range []struct {
		name string
		bit  int64
	}{{"Alt+", 1}, {"Ctrl+", 2}, {"Shift+", 8}} {
		if rest, ok := strings.CutPrefix(name, m.name); ok {
			name, modifiers = rest, modifiers|m.bit
		}
	}
	k, ok := codes[name]
	if !ok {
		c := name[0]
		k.key, k.text = name, name
		switch {
		case c >= 'a' && c <= 'z':
			k.code, k.number = "Key"+strings.ToUpper(name), int64(c-'a'+'A')
		case c >= '0' && c <= '9':
			k.code, k.number = "Digit"+name, int64(c)
		default:
			p.t.Fatalf("no key %q", name)
		}
	}
	down := input.DispatchKeyEventParams{Type: "keyDown", Modifiers: modifiers, Key: k.key, Code: k.code, WindowsVirtualKeyCode: k.number, Text: k.text}
	if modifiers&3 != 0 || k.text == "" {
		down.Type, down.Text = "rawKeyDown", ""
	}
	if name == "a" && modifiers == 2 {
		down.Commands = []string{"selectAll"}
	}
	call(p, input.DispatchKeyEvent, down)
	down.Type, down.Text, down.Commands = "keyUp", "", nil
	call(p, input.DispatchKeyEvent, down)
}

// A row is a displayed row of the traffic.
type row struct {
	Seq      string  `json:"seq"`
	Text     string  `json:"text"`
	Level    int     `json:"level"`
	Open     *string `json:"open"`
	Selected bool    `json:"selected"`
	Top      int     `json:"top"`
}

func (p *tab) rows() []row {
	p.t.Helper()
	return ask[[]row](p, "eyes.rows()")
}

// row waits for a row whose text matches the pattern, and returns it.
func (p *tab) row(expression string) row {
	p.t.Helper()
	return wait[row](p, "no row fits /"+expression+"/", "eyes.rows().find(r => /"+expression+"/.test(r.text))")
}

// onRow returns the expression for the element of the row with that text.
func onRow(expression string) string {
	return "eyes.all('row').find(e => /" + expression + "/.test(eyes.clean(eyes.text(e))))"
}

// drop drops files onto the page.
func (p *tab) drop(files ...string) {
	p.t.Helper()
	for _, kind := range []input.DispatchDragEventType{"dragEnter", "dragOver", "drop"} {
		call(p, input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: 400, Y: 400,
			Data: &input.DragData{Items: []*input.DragDataItem{}, Files: files, DragOperationsMask: 1}})
	}
}

// quoted returns text as a JavaScript string.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if r >= ' ' && r < 0x7F && r != '"' && r != '\\' {
			b.WriteRune(r)
			continue
		}
		if r > 0xFFFF {
			fmt.Fprintf(&b, `\u{%x}`, r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
