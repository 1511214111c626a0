package page

import (
	"strings"
	"testing"
)

// TestFirstRun checks that the page shows a first-time user a message to send, a target and live
// traffic.
func TestFirstRun(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.see("heading", "Send a message to a server")
	p.see("textbox", "Bytes to send")
	for _, name := range []string{"@demo", "@table", "@scribe", "@courier"} {
		p.says(name)
	}
	p.says("Cursor")
	p.says("~/.cursor/mcp.json")
	p.says("short lessons, on a live server")
	p.until("the demo services have not introduced themselves", "eyes.rows().length > 0")
	p.until("the tools of @table are not counted", thing("button", "/^\\d+ tools$/"))
	p.guideImage("first-run")
	p.judgeBoth("first-run")

	p.click("button", "/^Send/")
	p.row("subtract")
	p.until("the result is not shown", `eyes.all("region", /^Result/).some((e) => /19/.test(eyes.text(e)))`)
	if n := len(ask[[]string](p, "eyes.seen.policy")); n != 0 {
		t.Errorf("the policy was broken %d times", n)
	}
}

// TestCompose checks that text is sent as written, and the response is shown to the last digit.
func TestCompose(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`))
	text := `{"jsonrpc":"2.0","id":"a-1","method":"echo","params":{"big":9007199254740993,"small":1.10,"text":"<b>ä</b>"}}`
	p.bytes(text)
	p.key("Ctrl+Enter")
	p.row("echo .*\"a-1\"")
	p.until("the new row is not selected, although the newest was", `eyes.rows().some((r) => r.selected && /echo/.test(r.text))`)
	if n := ask[int](p, `eyes.rows().filter((r) => /echo/.test(r.text) && r.level === 1).length`); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	p.until("the result is not shown to the last digit", `eyes.all("region", /^Result/).some((e) => /9007199254740993/.test(e.textContent) && /1\.10/.test(e.textContent) && /<b>ä<\/b>/.test(e.textContent))`)
	if got := ask[string](p, "eyes.bytes()"); !strings.Contains(got, `"a-1"`) {
		t.Errorf("the composer holds %q now", got)
	}
	if ask[string](p, "eyes.name(eyes.focus())") != "Bytes to send" {
		t.Error("sending has taken the focus away")
	}

	// The form shows the same document.
	p.bytes(`{"jsonrpc": "2.0", "id": 5, "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}}`)
	p.fill("textbox", "/^subtrahend/", "7")
	p.until("the form does not change the bytes", `/"subtrahend": ?7\b/.test(eyes.bytes())`)
	p.key("Ctrl+Enter")
	p.until("the answer to the form is not there", `eyes.all("region", /^Result/).some((e) => /35/.test(e.textContent))`)
	p.shot("compose")
	p.judgeBoth("compose")

	// Resend sends the same message again; a copy is a draft.
	p.clickOn(onRow("echo .*\"a-1\""))
	p.key("r")
	p.until("it was not sent again", "eyes.rows().filter((r) => /echo/.test(r.text)).length === 2")
	p.copyRow()
	p.until("the copy is another", `eyes.bytes().includes("9007199254740993")`)
}

// TestBatch sends a batch with one invalid member: the rule is shown before sending, the batch is
// sent anyway, and each member has its response.
func TestBatch(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.click("button", "a batch")
	p.click("button", "/^Send/")
	p.row("batch .*6 members")
	p.until("the broken rule is not named in the composer", `/[1-9] rules? broken/.test(eyes.text(eyes.first("region", "Composer")))`)
	p.until("the members do not have their answers", `/-32600/.test(eyes.text(document.body)) && /-32601/.test(eyes.text(document.body))`)
	if rows := p.rows(); len(rows) < 6 {
		t.Errorf("the members of the batch are not below it: %v", rows)
	}
	p.guideImage("batch")
	p.judgeBoth("batch")
}

// TestInvalidBytes checks that bytes that are not a message are sent as written. The other side
// checks what it received.
func TestInvalidBytes(t *testing.T) {
	t.Parallel()
	u := start(t)
	lines := listen(t, nil)
	web := listenHTTP(t)
	u.open(t, lines.address)
	u.open(t, web.address)
	for _, c := range []struct{ name, target, text, mode, want string }{
		{"broken JSON", lines.address, `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]`, "", `{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]` + "\n"},
		{"not even that", lines.address, "  hello\tthere  ", "As typed", "  hello\tthere  \n"},
		{"twice the same member", lines.address, `{"id":1,"id":1.0,"ID":01e5}`, "", `{"id":1,"id":1.0,"ID":01e5}` + "\n"},
		{"over HTTP, with its blanks and lines", web.address, "\n[ 1 ,\n\t{ \"a\" : 1e400 } ]\n", "As typed", "\n[ 1 ,\n\t{ \"a\" : 1e400 } ]\n"},
		{"no UTF-8", web.address, "ff fe 00 7b 80", "Hex", "\xff\xfe\x00{\x80"},
		{"no UTF-8, in a line", lines.address, "c3 28 22 00", "Hex", "\xc3(\"\x00\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := u.page(t, desk, draftLink(c.target, `{"jsonrpc":"2.0","id":1,"method":"x"}`))
			p.see("region", "Composer")
			if c.mode != "" {
				p.click("button", "One line")
				p.click("menuitem", "/^"+c.mode+"/")
			}
			p.bytes(c.text)
			p.key("Ctrl+Enter")
			s := lines
			if c.target == web.address {
				s = web
			}
			s.gets(t, []byte(c.want))
			p.shot("sent")
		})
	}
}

// TestNothingIsSentUnasked checks that nothing is sent without a command: one keystroke in the
// composer sends nothing, and neither does a draft in a link.
func TestNothingIsSentUnasked(t *testing.T) {
	t.Parallel()
	u := start(t)
	victim := listen(t, nil)
	p := u.page(t, desk, draftLink(victim.address, `{"jsonrpc":"2.0","id":1,"method":"danger"}`))
	p.see("region", "Composer")
	p.bytes(`{"jsonrpc":"2.0","id":2,"method":"danger"}`)
	p.until("the draft is not judged", "/Valid JSON-RPC|rule|warning|Sent as written/.test(eyes.text(document.body))")
	victim.mu.Lock()
	defer victim.mu.Unlock()
	if len(victim.got) > 0 || len(victim.conns) > 0 {
		t.Errorf("%q was sent over %d connections", victim.got, len(victim.conns))
	}
}
