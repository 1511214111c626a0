package page

import (
	"fmt"
	"strings"
	"testing"
)

// question opens the waiting question as a person does: by the button with their number.
func (p *tab) question() {
	p.t.Helper()
	p.click("button", "/1 question/")
	p.see("radio", "Response")
}

// rest waits until Send accepts a key again. For half a second after its draft was changed by
// something else, it does not.
func (p *tab) rest() {
	p.t.Helper()
	ask[bool](p, `new Promise((done) => setTimeout(() => done(true), 600))`)
}

// An asker is a server that sends requests when the test requires it.
type asker struct {
	*raw
	t   *testing.T
	ids int
}

func newAsker(t *testing.T, u *up) *asker {
	t.Helper()
	a := &asker{t: t, raw: listen(t, func(r request) []string {
		if r.Method == "hold" || r.Method == "" {
			return nil
		}
		return refuse(r)
	})}
	u.open(t, a.address)
	return a
}

func (a *asker) tells(message string) {
	a.t.Helper()
	a.say(a.t, []byte(message+"\n"))
}

// asks sends a request, which the page shows as a waiting question.
func (a *asker) asks() string {
	a.ids++
	id := fmt.Sprintf(`"ask-%d"`, a.ids)
	a.tells(`{"jsonrpc":"2.0","id":` + id + `,"method":"elicitation/create","params":{"message":"May I?"}}`)
	return id
}

// TestQuestionWhileTyping checks that a question that arrives during typing does not take the
// focus: every key goes into the draft, none is a command, and nothing is sent.
func TestQuestionWhileTyping(t *testing.T) {
	t.Parallel()
	u := start(t)
	s := newAsker(t, u)
	p := u.page(t, desk, draftLink(s.address, `{}`))
	p.see("region", "Composer")
	p.bytes("")
	text := `{"jsonrpc":"2.0","id":77,"method":"rextpcfa"}`
	u.call(t, "send", map[string]any{"target": s.address, "text": `{"jsonrpc":"2.0","id":1,"method":"hold"}`})
	p.write(text[:20])
	s.asks()
	p.see("button", "/1 question/")
	before := u.total(t)
	p.write(text[20:])
	p.until("the keys are not in the draft", `eyes.bytes().replace(/\s/g, "").includes("rextpcfa")`)
	if got := ask[string](p, "eyes.bytes()"); !strings.HasPrefix(got, text[:30]) {
		t.Errorf("the draft is %s", got)
	}
	if ask[string](p, `document.activeElement.closest("#composer") ? "composer" : document.activeElement.tagName`) != "composer" {
		t.Error("the focus has left the composer")
	}
	if n := u.total(t); n != before {
		t.Errorf("%d messages went over the wire while somebody typed", n-before)
	}

	// The focus is on no element: letters have no effect.
	ask[bool](p, `(document.activeElement.blur(), document.activeElement.shadowRoot?.activeElement?.blur(), true)`)
	p.key("Esc")
	ask[bool](p, `(document.activeElement.blur?.(), document.activeElement === document.body)`)
	for _, k := range []string{"r", "x", "e", "t", "p", "f", "a"} {
		p.key(k)
	}
	p.until("a letter was a command", thing("tab", "Messages")+`.ariaSelected === "true" && !eyes.first("button", "Unpin") && !/status:broken/.test(eyes.text(eyes.first("region", "Wire")))`)
	if n := u.total(t); n != before {
		t.Errorf("letters from nowhere have sent %d messages", n-before)
	}

	// Neither the commands nor the key help lose the focus to a question.
	p.key("Ctrl+k")
	p.see("dialog", "Commands")
	s.asks()
	p.see("button", "/2 questions/")
	p.until("the focus has left the commands", thing("dialog", "Commands")+`.contains(document.activeElement)`)
	p.key("Esc")
}

// TestClosedQuestion checks that a question whose draft is selected for Send is withdrawn: nothing
// can be sent any more, neither immediately nor later.
func TestClosedQuestion(t *testing.T) {
	t.Parallel()
	u := start(t)
	s := newAsker(t, u)
	p := u.page(t, desk, draftLink(s.address, `{"jsonrpc":"2.0","id":5,"method":"hold"}`))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	id := s.asks()
	p.question()
	p.see("button", "/^(Accept|Send)/")
	before := u.total(t)
	s.tells(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`)
	p.gone("button", "/^(Accept|Send)/")
	p.key("Ctrl+Enter")
	p.rest()
	p.key("Ctrl+Enter")
	p.says("no longer open")
	if n := u.total(t); n != before+1 {
		t.Errorf("%d messages after the question was withdrawn, want the withdrawal alone", n-before)
	}
	p.see("button", "Copy to a new draft")
}

// TestAnsweredOnce checks that an answer is sent once, and the key that sent it does not send the
// next draft.
func TestAnsweredOnce(t *testing.T) {
	t.Parallel()
	u := start(t)
	s := newAsker(t, u)
	p := u.page(t, desk, draftLink(s.address, `{"jsonrpc":"2.0","id":5,"method":"hold"}`))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	s.asks()
	p.question()
	before := u.total(t)
	ask[bool](p, `(() => { for (let i = 0; i < 5; i++) dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", ctrlKey: true, bubbles: true, cancelable: true})); return true; })()`)
	p.gone("button", "/1 question/")
	ask[bool](p, `(() => { for (let i = 0; i < 5; i++) dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", ctrlKey: true, bubbles: true, cancelable: true})); return true; })()`)
	p.rest()
	if n := u.total(t); n != before+1 {
		t.Errorf("%d messages were sent, want one answer", n-before)
	}
	p.key("Ctrl+Enter") // the current draft, on purpose
	p.until("a key that is meant does nothing", `eyes.rows().filter((r) => /hold/.test(r.text)).length === 2`)
}

// TestTwoTabs checks that a question belongs to the tab that made the call. Another tab counts it,
// and cannot answer it by accident.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	u := start(t)
	s := newAsker(t, u)
	one := u.page(t, desk, draftLink(s.address, `{"jsonrpc":"2.0","id":5,"method":"hold"}`))
	two := u.page(t, desk, draftLink(s.address, `{"jsonrpc":"2.0","id":6,"method":"other"}`))
	one.see("region", "Composer")
	one.key("Ctrl+Enter")
	one.row("hold")
	s.asks()
	one.question()
	one.see("button", "/^(Accept|Send)/")
	two.see("button", "/1 question/")
	two.until("the other tab has another draft", `/other/.test(eyes.bytes())`)
	two.click("button", "/1 question/")
	two.says("belongs to another tab")
	before := u.total(t)
	two.key("Ctrl+Enter")
	two.says("Nothing was sent")
	if n := u.total(t); n != before {
		t.Errorf("the other tab has sent %d messages", n-before)
	}
	// Unless a person chooses to answer there.
	two.click("button", "Answer here")
	two.gone("button", "Answer here") // the form has a button Accept in both states
	one.says("belongs to another tab")
	two.key("Ctrl+Enter")
	one.gone("button", "/1 question/")
	two.gone("button", "/1 question/")
	if n := u.total(t); n != before+1 {
		t.Errorf("%d messages, want one answer", n-before)
	}
	one.key("Ctrl+Enter")
	one.says("no longer open")
}

// TestTokenLeavesTheAddress checks that the token is removed from the address once the page is
// loaded. The page can be reloaded, and a tab without the token has no access.
func TestTokenLeavesTheAddress(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "target=@table")
	if at := ask[string](p, "location.href"); strings.Contains(at, u.token) || !strings.HasSuffix(at, "#target=%40table") {
		t.Errorf("the address is %s", at)
	}
	if n := ask[int](p, "history.length"); n > 2 {
		t.Errorf("the history has %d entries", n)
	}
	name := ask[string](p, `sessionStorage.getItem("parley.page")`)
	ask[bool](p, "(setTimeout(() => location.reload()), true)")
	p.until("the page is not alive after it was loaded again", `performance.getEntriesByType("navigation")[0].type === "reload" && `+thing("region", "Wire"))
	p.says("Live")
	if again := ask[string](p, `sessionStorage.getItem("parley.page")`); again != name || name == "" {
		t.Errorf("the tab is called %s, was %s", again, name)
	}
	other := open(t, u.base, desk)
	other.says("Access token needed")
}
