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

// patience bounds one wait. It is long, since a machine may be busy; what is there at once is seen at once.
const patience = 60 * time.Second

// A look is how large the window is, and in which colours.
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

// A tab is one page in a profile of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	look look

	mu     sync.Mutex
	faults []string // exceptions, dialogs, policy violations: what no page of ours has; guarded by mu
}

// open opens an address. A test in whose page an exception was thrown, a dialog appeared or the policy was broken fails.
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
			go func() { // not here, where the browser's messages are read
				_, _ = chromedp.Call(ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{}) // the test fails anyway
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

// visit goes to an address, in this tab.
func (p *tab) visit(address string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address)); err != nil {
		p.t.Fatalf("open %s: %v", address, err)
	}
}

// ask evaluates a JavaScript expression; a promise is waited for.
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

// until waits until the expression is true: it is looked at in every frame. what says what is missing otherwise.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	if _, err := try[bool](p, "eyes.until(() => !!("+expression+"))"); err != nil {
		p.t.Fatalf("%s, for %v: %s: %v", what, patience, expression, err)
	}
}

// thing is the expression for the first visible thing of that role whose name is name, or fits it if that stands between slashes.
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

// see waits until a thing of that role and name is there.
func (p *tab) see(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("there is no %s named %s", role, name), thing(role, name))
}

// gone waits until there is none.
func (p *tab) gone(role, name string) {
	p.t.Helper()
	p.until(fmt.Sprintf("there is still a %s named %s", role, name), "!"+thing(role, name))
}

// says waits until the page says text, anywhere on it.
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

// click clicks a thing with the mouse, once it is there and nothing lies over it.
func (p *tab) click(role, name string) {
	p.t.Helper()
	p.see(role, name)
	p.clickOn(thing(role, name))
}

// clickOn clicks what the expression finds.
func (p *tab) clickOn(expression string) {
	p.t.Helper()
	p.until("nothing to click", expression)
	p.until("something lies over it", "(e => e && eyes.place(e).over === '')("+expression+")")
	at := ask[spot](p, "eyes.place("+expression+")")
	for _, kind := range []input.DispatchMouseEventType{"mouseMoved", "mousePressed", "mouseReleased"} {
		m := input.DispatchMouseEventParams{Type: kind, X: at.X, Y: at.Y}
		if kind != "mouseMoved" {
			m.Button, m.ClickCount = "left", 1
		}
		call(p, input.DispatchMouseEvent, m)
	}
}

// drag presses the mouse on a thing and moves it along it: from and to are parts of its width.
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

// grant lets the page do what a browser asks about.
func (p *tab) grant(name string) {
	p.t.Helper()
	may := cdbrowser.SetPermissionParams{Permission: &cdbrowser.PermissionDescriptor{Name: name}, Setting: "granted", BrowserContextID: profile(p)}
	if _, err := chromedp.CallBrowser(p.ctx, cdbrowser.SetPermission, may); err != nil {
		p.t.Fatal(err)
	}
}

// type types text into what has the focus, as one insertion.
func (p *tab) write(text string) {
	p.t.Helper()
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// bytes replaces what stands in the editor of that name, as a paste does, and waits until the page has it.
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

// A row is a line of the wire, as it is shown.
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

// row waits for a row whose text fits the pattern and returns it.
func (p *tab) row(expression string) row {
	p.t.Helper()
	find := "eyes.rows().find(r => /" + expression + "/.test(r.text))"
	p.until("no row fits /"+expression+"/", find)
	return ask[row](p, find)
}

// onRow is the expression for the element of the row with that text.
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

// quoted is text as a JavaScript string.
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
