package page

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	cdbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

func itoa(n int) string { return strconv.Itoa(n) }

// profile returns the browser context of a tab.
func profile(p *tab) cdp.BrowserContextID { return chromedp.FromContext(p.ctx).BrowserContextID }

// send sends texts to a target without the page.
func (u *up) send(t *testing.T, target string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		u.call(t, "send", map[string]any{"target": target, "text": text, "wait": strings.Contains(text, `"id"`)})
	}
}

func (u *up) chatter(t *testing.T) {
	t.Helper()
	u.send(t, "@demo",
		`{"jsonrpc":"2.0","id":301,"method":"subtract","params":[42,23]}`,
		`{"jsonrpc":"2.0","id":302,"method":"subtract","params":[1]}`,
		`{"jsonrpc":"2.0","id":303,"method":"sum","params":[1,2,4]}`,
		`{"jsonrpc":"2.0","method":"update","params":[1]}`,
		`{"jsonrpc":"2.0","id":304,"method":"nowhere"}`,
	)
}

// TestFilter checks that the filter hides rows, shows their number, and can be cleared.
func TestFilter(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.chatter(t)
	p := u.page(t, desk, "")
	p.row("subtract")
	p.row("nowhere")
	p.key("/")
	p.until("the filter has no focus", `eyes.name(eyes.focus()) === "Filter messages"`)
	p.write("method:sub")
	p.see("option", "method:subtract")
	p.key("Down")
	p.key("Enter")
	p.until("the filter hides nothing", `eyes.rows().length > 0 && eyes.rows().every((r) => r.level > 1 || /subtract/.test(r.text))`)
	p.until("it does not say how many", `/\b[234] of \d+/.test(eyes.text(eyes.first("region", "Wire")))`)
	p.write("status:error")
	p.key("Enter")
	p.until("two terms are not both meant", `eyes.rows().filter((r) => r.level === 1).length === 1`)
	p.shot("filter")
	p.judgeBoth("filter")
	p.key("Esc")
	p.until("Escape does not clear it", `/nowhere/.test(eyes.rows().map((r) => r.text).join())`)

	p.click("combobox", "Filter messages")
	p.write("-method:subtract")
	p.key("Enter")
	p.until("what is excluded is shown", `eyes.rows().length > 0 && !eyes.rows().some((r) => /subtract/.test(r.text))`)
	p.key("Esc")
	p.click("combobox", "Filter messages")
	p.write("no-such-thing-anywhere")
	p.key("Enter")
	p.says("Nothing matches.")
	p.click("button", "/^Clear the filter/")
	p.row("nowhere")

	p.click("combobox", "Filter messages")
	p.write("duration:>soon")
	p.key("Enter")
	p.until("a wrong filter is not explained", `eyes.first("status") && eyes.text(eyes.first("status")).length > 10`)
	p.judge("wrong-filter")
}

// TestSession checks that the recording is saved as a file, and dropping the file opens it as a
// separate session.
func TestSession(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.chatter(t)
	p := u.page(t, desk, "")
	p.row("nowhere")
	folder := t.TempDir()
	downloaded := make(chan string, 1)
	if err := chromedp.ListenBrowser(p.ctx, func(ev any) {
		if e, ok := ev.(*cdbrowser.EventDownloadProgress); ok && e.State == "completed" {
			select {
			case downloaded <- e.GUID:
			default:
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	allow := cdbrowser.SetDownloadBehaviorParams{Behavior: "allowAndName", DownloadPath: folder, EventsEnabled: new(true), BrowserContextID: profile(p)}
	if _, err := chromedp.CallBrowser(p.ctx, cdbrowser.SetDownloadBehavior, allow); err != nil {
		t.Fatal(err)
	}
	p.click("button", "Save session")
	p.judge("save-menu")
	p.click("menuitem", "/^Session file/")
	var name string
	select {
	case name = <-downloaded:
	case <-t.Context().Done():
		t.Fatal("nothing was saved")
	}
	saved := filepath.Join(folder, name)
	text, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"nowhere"`) || strings.Contains(string(text), u.token) {
		t.Errorf("the file is %.300q", text)
	}
	file := filepath.Join(folder, "evening.jsonl")
	if err := os.Rename(saved, file); err != nil {
		t.Fatal(err)
	}

	// Another user opens it.
	other := start(t)
	q := other.page(t, desk, "")
	q.see("heading", "Send a message to a server")
	q.drop(file)
	q.see("button", "/evening.jsonl/")
	q.row("nowhere .*-32601")
	q.clickOn(onRow("subtract .*301"))
	q.until("the result of the recording is not shown", `eyes.all("region", /^Result/).some((e) => /19/.test(e.textContent))`)
	q.guideImage("session")
	q.judgeBoth("session")

	// A copy of one of its messages is sent to one's own target.
	q.copyRow()
	q.says("The recording is read only")
	q.key("Ctrl+Enter")
	q.until("the copy was not sent", `/Live/.test(eyes.text(eyes.first("region", "Wire"))) && eyes.rows().some((r) => /subtract/.test(r.text))`)
}

// TestForeignFile checks that a file that is not a session is rejected with one sentence, and
// nothing is lost.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.see("heading", "Send a message to a server")
	file := filepath.Join(t.TempDir(), "picture.jsonl")
	if err := os.WriteFile(file, []byte("\x89PNG\r\n\x1a\n<script>pwned()</script>"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.drop(file)
	p.says("not a session")
	p.gone("dialog", "Drop to open")
	config := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(config, []byte(`{"mcpServers":{"notes":{"url":"http://127.0.0.1:9/mcp","headers":{"Authorization":"Bearer very-secret-token"}},"files":{"command":"touch","args":["`+file+`.ran"]}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	p.drop(config)
	p.says("runs a command") // and no command to copy, since the config is in no file yet
	p.says("Save as")
	p.shot("config")
	if shown := ask[string](p, "eyes.text(document.body)"); strings.Contains(shown, "very-secret-token") && !strings.Contains(shown, "Paste a config") {
		t.Errorf("the page shows a secret: %s", shown)
	}
	if _, err := os.Stat(file + ".ran"); err == nil {
		t.Error("a program of a dropped config was started")
	}
}

// TestLink checks that a link opens the same view, and contains no token.
func TestLink(t *testing.T) {
	u := start(t)
	u.chatter(t)
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":9,"method":"echo","params":{"a":"ü"}}`))
	p.row("nowhere")
	p.click("combobox", "Filter messages")
	p.write("method:subtract")
	p.key("Enter")
	p.clickOn(onRow("subtract .*302"))
	p.grantClipboard()
	p.click("button", "Copy a link to this view")
	p.says("Copied.")
	link := ask[string](p, "navigator.clipboard.readText()")
	if strings.Contains(link, u.token) {
		t.Fatalf("the link holds the token: %s", link)
	}
	base, place, _ := strings.Cut(link, "#")
	if base != u.base {
		t.Errorf("the link leads to %s, want %s", base, u.base)
	}
	q := u.page(t, desk, place)
	q.until("the filter is not that of the link", `eyes.rows().length > 0 && eyes.rows().every((r) => r.level > 1 || /subtract/.test(r.text))`)
	q.until("the row of the link is not selected", `eyes.rows().some((r) => r.selected && /302/.test(r.text))`)
	q.until("the draft of the link is not there", `/"ü"/.test(eyes.bytes())`)

	// Without the token, only the way to get it is shown.
	r := open(t, link, desk)
	r.says("Open the URL that parley printed in the terminal, or paste it here.")
	r.shot("no-token")
	r.judgeBoth("no-token")
	r.fill("textbox", "URL or access token", u.address)
	r.key("Enter")
	r.see("region", "Wire")
}

// TestLinkIntoRecording checks that a link opens a nested message in a recording, with the pinned
// messages, and sends no request.
func TestLinkIntoRecording(t *testing.T) {
	u := start(t)
	victim := listen(t, nil)
	file := filepath.Join(t.TempDir(), "talk.jsonl")
	lines := `{"parley":"session","version":1}
{"seq":1,"time":"2026-11-20T12:00:00Z","kind":"open","conn":1,"wire":{"target":"@other","carrier":"tcp"}}
{"seq":2,"time":"2026-11-20T12:00:01Z","kind":"message","dir":"out","conn":1,"frame":{"jsonrpc":"2.0","id":1,"method":"outer"}}
{"seq":3,"time":"2026-11-20T12:00:02Z","kind":"message","dir":"in","conn":1,"frame":{"jsonrpc":"2.0","method":"inner"}}
{"seq":4,"time":"2026-11-20T12:00:03Z","kind":"message","dir":"in","conn":1,"frame":{"jsonrpc":"2.0","id":1,"result":7}}
`
	if err := os.WriteFile(file, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	p := u.page(t, desk, "")
	p.see("heading", "Send a message to a server")
	p.drop(file)
	p.clickOn(onRow("outer"))
	p.key("p")
	p.key("Right")
	p.row("inner")
	p.key("j")
	p.key("Down")
	p.until("the inner message is not selected", `eyes.rows().some((r) => r.selected && r.level === 2)`)
	p.grantClipboard()
	p.click("button", "Copy a link to this view")
	p.says("Copied.")
	_, place, _ := strings.Cut(ask[string](p, "navigator.clipboard.readText()"), "#")
	place += "&draft=" + base64.RawURLEncoding.EncodeToString([]byte(`{}`))
	values, err := url.ParseQuery(place)
	if err != nil || values.Get("log") != "s1" || values.Get("pins") != "2" {
		t.Fatalf("the link is %q, %v", place, err)
	}
	values.Set("target", victim.address)
	there := func(q *tab) {
		t.Helper()
		q.until("the message of the link is not selected", `eyes.rows().some((r) => r.selected && r.level === 2)`)
		q.see("button", "/#2 outer/")
		q.see("button", "/talk.jsonl/")
	}
	q := u.page(t, desk, values.Encode())
	there(q)
	// The same by the address bar of an open page.
	r := u.page(t, desk, "")
	r.see("heading", "Send a message to a server")
	ask[bool](r, `(location.hash = `+quoted("#"+values.Encode())+`, true)`)
	there(r)
	r.until("the token is in the address", `!location.href.includes(`+quoted(u.token)+`)`)
	if len(victim.conns) != 0 {
		t.Error("a link has contacted somebody")
	}
}

// TestDragOut checks that a session is saved by dragging it out of the page.
func TestDragOut(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.chatter(t)
	p := u.page(t, desk, "")
	p.row("nowhere")
	drag := `(() => { const d = new DataTransfer(); const e = new DragEvent("dragstart", {dataTransfer: d, bubbles: true, cancelable: true}); document.querySelector("[draggable=true]").dispatchEvent(e); return d.getData("DownloadURL"); })()`
	ask[bool](p, `document.querySelector("[draggable=true]").dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}))`)
	p.until("there is no file to drag", "window.dragged = "+drag)
	parts := strings.SplitN(ask[string](p, "dragged"), ":", 3)
	if len(parts) != 3 || parts[0] != "application/x-ndjson" || !strings.HasSuffix(parts[1], ".jsonl") {
		t.Fatalf("what is dragged is %q", parts)
	}
	if ask[string](p, "new URL("+quoted(parts[2])+").protocol") != "blob:" {
		t.Errorf("the file is at %s", parts[2])
	}
}

// TestKeys checks that every key of the key help works, and none does during typing.
func TestKeys(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.chatter(t)
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"echo"}`))
	p.row("nowhere")
	p.clickOn(onRow("sum .*303"))
	selected := func(want string) {
		t.Helper()
		p.until("the selected row is not "+want, `eyes.rows().some((r) => r.selected && /`+want+`/.test(r.text))`)
	}
	p.key("j")
	selected("update")
	p.key("Down")
	selected("nowhere")
	p.key("k")
	p.key("Up")
	selected("sum")
	p.key("Right")
	p.until("the row does not unfold", onRow("sum .*303")+`.ariaExpanded === "true"`)
	p.key("Left")
	p.until("the row does not fold", onRow("sum .*303")+`.ariaExpanded === "false"`)
	p.key("p")
	p.see("button", "Unpin")
	p.key("p")
	p.see("button", "Pin")
	p.key("t")
	p.until("T does not show the timeline", thing("tab", "Timeline")+`.ariaSelected === "true"`)
	p.key("t")
	p.until("T does not go back", thing("tab", "Messages")+`.ariaSelected === "true"`)
	p.key("Space")
	p.says("Paused")
	p.key("Space")
	p.until("the wire is not live again", thing("region", "Wire")+`.querySelector(".live").textContent === "Live"`)
	p.key("?")
	p.see("dialog", "All keys")
	p.judgeBoth("keys")
	p.key("Esc")
	p.gone("dialog", "All keys")
	p.until("the keys do not give the focus back", thing("region", "Wire")+`.contains(document.activeElement)`)
	p.key("Ctrl+k")
	p.see("dialog", "Commands")
	p.key("Tab")
	p.until("the focus leaves the commands", thing("dialog", "Commands")+`.contains(document.activeElement)`)
	p.key("Esc")
	p.gone("dialog", "Commands")
	p.until("the commands do not give the focus back", thing("region", "Wire")+`.contains(document.activeElement)`)
	p.key("Ctrl+k")
	p.see("dialog", "Commands")
	p.write("timeline")
	p.see("option", "/timeline/")
	p.guideImage("commands")
	p.judgeBoth("commands")
	p.key("Enter")
	p.gone("dialog", "Commands")
	p.until("the command was not done", thing("tab", "Timeline")+`.ariaSelected === "true"`)
	p.key("Esc")
	p.click("tab", "Messages")
	p.key("f")
	p.until("F does not filter", `/status:broken/.test(eyes.text(eyes.first("region", "Wire")))`)
	p.key("f")
	p.until("F does not let go", `!/status:broken/.test(eyes.text(eyes.first("region", "Wire")))`)
	p.key("Alt+2")
	p.until("Alt 2 does not lead to the composer", thing("region", "Composer")+`.contains(document.activeElement)`)
	p.key("Alt+3")
	p.until("Alt 3 does not lead to the wire", thing("region", "Wire")+`.contains(document.activeElement)`)
	p.key("Alt+1")
	p.until("Alt 1 does not lead to the list", thing("navigation", "/Targets/")+`.contains(document.activeElement)`)
	p.key("Esc")

	p.bytes(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	p.key("End")
	before := len(p.rows())
	for _, k := range []string{"j", "e", "r", "t", "p", "f", "a"} {
		p.key(k)
	}
	p.until("letters do not go into the editor", `eyes.bytes().endsWith("jertpfa")`)
	if n := len(p.rows()); n != before {
		t.Errorf("typing has changed the rows: %d, %d before", n, before)
	}
	if kept := ask[string](p, `eyes.bytes()`); !strings.HasPrefix(kept, `{"jsonrpc"`) {
		t.Errorf("the editor holds %q", base64.StdEncoding.EncodeToString([]byte(kept)))
	}
}
