package page

import (
	"strings"
	"testing"
)

// bookTable calls a tool that reports progress and sends a request in the middle. The requested
// time is always fully booked.
const bookTable = `{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"name":"book-table","arguments":{"restaurant":"Zur Linde","guests":4,"time":"19:30"},"_meta":{"progressToken":"p70"}}}`

// bookTableByHand is the same call, formatted as a person would.
const bookTableByHand = `{
  "jsonrpc": "2.0",
  "id": 70,
  "method": "tools/call",
  "params": {
    "name": "book-table",
    "arguments": {
      "restaurant": "Zur Linde",
      "guests": 4,
      "time": "19:30"
    },
    "_meta": {"progressToken": "p70"}
  }
}`

// bookRow matches the row of that call.
const bookRow = `tools\/call .*book-table`

// TestNestedCall checks that a call with progress and a nested request is one row that contains all
// of it and can be folded.
func TestNestedCall(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, draftLink("@table", bookTableByHand))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	p.row(bookRow)
	p.row("elicitation")
	p.question()
	p.guideImage("question")
	p.judgeBoth("question")
	p.fill("textbox", "/^Name on the booking/", "Ada")
	p.until("the name is not in the bytes", `/"Ada"/.test(eyes.bytes())`)
	p.click("button", "/^Accept/")
	p.until("the call has no answer", onRow(bookRow)+` && /result/.test(eyes.text(`+onRow(bookRow)+`)) && !/waits|waiting/.test(eyes.text(`+onRow(bookRow)+`))`)
	p.clickOn(onRow(bookRow))
	if p.row(bookRow).Open == nil || *p.row(bookRow).Open != "true" {
		p.key("Right")
	}
	p.until("the progress is not below the call", `eyes.rows().filter((r) => r.level > 1 && /notifications\/progress/.test(r.text)).length >= 2`)
	for _, r := range p.rows() {
		if strings.Contains(r.Text, "elicitation/create") && r.Level < 2 {
			t.Errorf("the question stands on level %d", r.Level)
		}
	}
	p.until("the progress has no bar", `eyes.first("img", /^\d+ of \d+$/)`)
	p.guideImage("call")
	p.judgeBoth("call")

	p.key("t")
	p.until("the timeline is not there", thing("tab", "Timeline")+`.ariaSelected === "true"`)
	p.until("the call is not in the timeline", `/book-table/.test(eyes.text(eyes.first("region", "Wire")))`)
	p.judgeBoth("timeline")
	p.key("t")

	open := len(p.rows())
	p.clickOn(onRow(bookRow))
	p.key("Left")
	p.until("the call does not fold", `eyes.rows().length < `+itoa(open))
	p.until("what is folded is not told", onRow(bookRow)+`.ariaExpanded === "false"`)
	p.key("Enter")
	p.until("the call does not unfold", `eyes.rows().length === `+itoa(open))
}

// TestElicitation checks that a question is answered with a draft, whose content is sent.
func TestElicitation(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, draftLink("@table", bookTable))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	p.question()
	p.see("button", "/^Accept/")
	p.see("radio", "Response")
	p.until("the draft is no response", `/"result"/.test(eyes.bytes()) && /"accept"/.test(eyes.bytes())`)
	p.says("waits for #")
	p.fill("textbox", "/^Name on the booking/", "Ada")
	p.until("the name is not in the bytes", `/"Ada"/.test(eyes.bytes())`)
	answer := strings.Replace(ask[string](p, "eyes.bytes()"), `"content"`, `"_meta":{"page":"written by hand"},"content"`, 1)
	p.bytes(answer)
	p.key("Ctrl+Enter")
	p.row(bookRow + ".*result")
	p.gone("button", "/1 question/")
	// The recorded response is the draft.
	p.clickOn(onRow(`elicitation\/create`))
	p.until("the answer that went out is not shown", `eyes.all("region").some((e) => /written by hand/.test(e.textContent))`)

	// Again, but declined. The composer shows the call again.
	p.until("the row is not selected", `eyes.rows().some((r) => r.selected && /elicitation/.test(r.text))`)
	p.bytes(strings.ReplaceAll(bookTable, "70", "71"))
	p.until("the call is not in the composer", `/"id": ?71/.test(eyes.bytes())`)
	p.rest()
	p.click("button", "/^Send/")
	p.question()
	p.click("button", "/^Decline/")
	p.until("the second call has no answer", `eyes.rows().filter((r) => /`+bookRow+`.*(result|error)/.test(r.text) && !/wait/.test(r.text)).length === 2`)
}

// TestCancel checks that a slow call is cancelled in its row. Over HTTP the request ends; over a
// connection the protocol's cancellation message is sent.
func TestCancel(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":8,"method":"sleep","params":{"ms":600000}}`))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	p.row("sleep .*waiting")
	p.click("button", "Cancel")
	p.row("sleep .*cancelled")
	if ask[bool](p, `!!eyes.first("button", /broken/)`) {
		t.Error("the server is blamed for an answer that nobody waited for")
	}

	server := listen(t, func(r request) []string {
		if r.Method == "sleep" {
			return nil
		}
		return refuse(r)
	})
	u.open(t, server.address)
	p.visit(u.at(draftLink(server.address, `{"jsonrpc":"2.0","id":"long","method":"sleep"}`)))
	p.see("region", "Composer")
	p.row("rpc.discover .*-32601")
	p.key("Ctrl+Enter")
	p.row("sleep .*waiting")
	p.key("Alt+3")
	p.key("x")
	server.gets(t, []byte(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"long"}}`+"\n"))
	p.row("sleep .*\"long\"")
}

// TestToolError checks that a tool's error is shown as an error, not as a success.
func TestToolError(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, draftLink("@table", `{"jsonrpc":"2.0","id":72,"method":"tools/call","params":{"name":"read-menu","arguments":{"restaurant":"Nowhere"}}}`))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	p.row(`read-menu`)
	p.until("what the tool says is not shown", `eyes.all("region").some((e) => /There is no restaurant/.test(e.textContent))`)
}

// TestTimeline checks that the timeline shows calls, nested requests and batches, with one lane per
// connection. It zooms, and links to the messages.
func TestTimeline(t *testing.T) {
	u := start(t)
	u.chatter(t)
	u.send(t, "@demo", `[{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2]},{"foo":"boo"},{"jsonrpc":"2.0","id":2,"method":"nowhere"}]`)
	u.send(t, "@demo-tcp", `{"jsonrpc":"2.0","id":5,"method":"countdown","params":{"from":4,"interval_ms":20}}`)
	u.call(t, "send", map[string]any{"target": "@table", "text": bookTable})
	p := u.page(t, desk, "view=timeline")
	p.see("region", "Waterfall")
	text := `eyes.clean(eyes.text(eyes.first("region", "Waterfall")))`
	for _, want := range []string{"@demo-tcp countdown", "batch 3 members", "2 errors", "@table tools/call book-table open", "elicitation/create open", "-32601"} {
		p.until("the waterfall has no "+want, text+".includes("+quoted(want)+")")
	}
	p.key("Alt+3")
	p.key("Esc") // the question has selected its call
	steps := `eyes.clean(eyes.text(eyes.first("region", "Sequence diagram")))`
	for _, want := range []string{"you to @table: tools/call book-table", "@table to you: elicitation/create", "@demo-tcp to you: countdown/tick", "you to @demo: batch, 3 members"} {
		p.until("the sequence has no "+want, steps+".includes("+quoted(want)+")")
	}
	p.guideImage("timeline")
	p.judgeBoth("many")

	current := `document.querySelector(".tl[aria-current]")`
	p.key("Alt+3")
	p.key("End")
	p.until("End does not lead to the last call", `[...document.querySelectorAll(".tl")].at(-1) === `+current)
	p.clickOn(`[...document.querySelectorAll(".tl")].find((e) => /book-table/.test(e.textContent))`)
	p.key("j")
	p.until("J does not go down", `/elicitation/.test(eyes.text(`+current+`))`)
	p.key("k")
	p.until("K does not go up", `/book-table/.test(eyes.text(`+current+`)) && document.activeElement === `+current)
	p.until("the sequence is not that of the call", `/of the selected call/.test(eyes.text(eyes.first("region", "Wire")))`)
	p.key("+")
	p.see("button", "All")
	p.key("0")
	p.gone("button", "All")
	p.drag(thing("img", "/^Whole recording/"), 0.5, 0.9)
	p.see("button", "All")
	p.shot("zoomed")
	p.click("button", "All")
	p.gone("button", "All")
	p.grantClipboard()
	p.click("button", "Copy as Mermaid")
	p.says("Copied.")
	if text := ask[string](p, "navigator.clipboard.readText()"); !strings.HasPrefix(text, "sequenceDiagram\n") || !strings.Contains(text, "tools/call book-table") {
		t.Errorf("copied is %q", text)
	}
	p.key("Alt+3")
	p.key("Enter")
	p.until("Enter does not lead to the messages", thing("tab", "Messages")+`.ariaSelected === "true" && eyes.rows().some((r) => r.selected && /book-table/.test(r.text))`)
	p.until("the row has no focus", `eyes.first("region", "Wire").contains(document.activeElement)`)
	p.key("t")
	p.clickOn(`[...document.querySelectorAll("svg .st")].find((e) => /elicitation/.test(e.textContent))`)
	p.until("a step does not lead to its message", `eyes.rows().some((r) => r.selected && r.level === 2 && /elicitation/.test(r.text))`)
}
