package page

import (
	"encoding/json"
	"strings"
	"testing"
)

// hostile is text that must stay text in every place.
const hostile = `"><img src=x onerror=pwned()><script>pwned()</script><svg onload=pwned()>{@html pwned()}` + "\u202egnp.exe\u2066\u200b\U000e0041 javascript:pwned()"

// asJSON returns text as a JSON string.
func asJSON(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestHostileServer uses a server that is hostile in every field: none of its scripts runs, none of
// its texts becomes a link that runs one, and characters that reorder text are shown.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	bad := asJSON(hostile)
	link := asJSON("javascript:pwned()")
	server := listen(t, func(r request) []string {
		switch r.Method {
		case "initialize":
			return []string{result(r.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}},"serverInfo":{"name":`+bad+`,"title":`+bad+`,"version":`+bad+`,"websiteUrl":`+link+`,"icons":[{"src":`+link+`}]},"instructions":`+bad+`}`)}
		case "tools/list":
			return []string{result(r.ID, `{"tools":[{"name":`+bad+`,"title":`+bad+`,"description":`+bad+`,"icons":[{"src":`+link+`}],"inputSchema":{"type":"object","title":`+bad+`,"properties":{`+bad+`:{"type":"string","title":`+bad+`,"description":`+bad+`,"enum":[`+bad+`],"default":`+bad+`,"pattern":"((a+)+)+$"}},"required":[`+bad+`]}}]}`)}
		case "resources/list":
			return []string{result(r.ID, `{"resources":[{"uri":`+link+`,"name":`+bad+`,"title":`+bad+`,"description":`+bad+`,"mimeType":`+bad+`}]}`)}
		case "resources/templates/list":
			return []string{result(r.ID, `{"resourceTemplates":[{"uriTemplate":`+link+`,"name":`+bad+`}]}`)}
		case "prompts/list":
			return []string{result(r.ID, `{"prompts":[{"name":`+bad+`,"description":`+bad+`,"arguments":[{"name":`+bad+`,"description":`+bad+`}]}]}`)}
		case "tools/call":
			return []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + bad + `,"progress":1,"total":2,"message":` + bad + `}}`,
				`{"jsonrpc":"2.0","method":` + bad + `,"params":{` + bad + `:` + bad + `}}`,
				`{"jsonrpc":"2.0","id":` + bad + `,"method":"elicitation/create","params":{"mode":"url","elicitationId":"1","url":` + link + `,"message":` + bad + `}}`,
				`{"jsonrpc":"2.0","id":"f","method":"elicitation/create","params":{"message":` + bad + `,"requestedSchema":{"type":"object","properties":{` + bad + `:{"type":"string","title":` + bad + `,"description":` + bad + `,"enum":[` + bad + `]}}}}}`,
				`{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":` + bad + `}}],"maxTokens":1,"systemPrompt":` + bad + `}}`,
				hostile,
				`{"jsonrpc":"2.0","id":"x","error":{"code":-32000,"message":` + bad + `,"data":` + bad + `}}`,
				result(r.ID, `{"content":[{"type":"text","text":`+bad+`},{"type":"resource_link","uri":`+link+`,"name":`+bad+`},{"type":"image","data":"PHN2ZyBvbmxvYWQ9cHduZWQoKT4=","mimeType":"image/svg+xml"}],"isError":true}`),
			}
		case "":
			return nil
		}
		return []string{`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-32601,"message":` + bad + `,"data":` + bad + `}}`}
	})
	u := start(t)
	u.open(t, server.address, "protocol=mcp")
	p := u.page(t, desk, "target="+server.address+"&row=1")
	p.until("the tools are not there", `/pwned/.test(eyes.text(eyes.first("navigation", /Targets/)))`)
	p.shot("target")
	p.clickOn(`eyes.all("button").find((e) => eyes.first("navigation", /Targets/).contains(e) && /pwned/.test(eyes.name(e)))`)
	p.until("the tool is not in the composer", `/tools\/call/.test(eyes.bytes())`)
	p.key("Ctrl+Enter")
	p.until("what the server says is not on the wire", `eyes.rows().some((r) => /elicitation/.test(r.text))`)
	p.see("button", "/question/")
	p.shot("questions")
	p.judge("hostile")
	// View everything once.
	for range 40 {
		p.key("Alt+3")
		p.key("j")
	}
	p.plain("the rows")
	p.clickOn(onRow(`tools\/call`))
	p.until("the result is not shown", `/pwned/.test(eyes.text(eyes.first("complementary", "Selected message")))`)
	p.plain("the selected message")
	p.key("p")
	p.see("button", "Unpin")
	p.plain("the pin")
	p.key("t")
	p.until("the call is not in the waterfall", `/pwned/.test(eyes.text(eyes.first("region", "Waterfall")))`)
	p.until("the call is not in the sequence", `/pwned/.test(eyes.text(eyes.first("region", "Sequence diagram")))`)
	p.shot("timeline")
	p.plain("the timeline")
	p.innocent()
	p.key("t")
	p.key("Ctrl+k")
	p.write("pwned")
	p.see("dialog", "Commands")
	p.shot("palette")
	p.plain("the commands")
	p.key("Esc")
	p.innocent()
	if n := ask[int](p, `[...document.querySelectorAll("a[href], area[href], iframe, object, embed, img[src], form[action]")].filter((e) => !/^(https?:|#|$)/.test(e.getAttribute("href") ?? e.getAttribute("src") ?? e.getAttribute("action") ?? "")).length`); n != 0 {
		t.Errorf("%d things lead to something that is no web address", n)
	}
}

// plain fails if the page contains an unescaped character that reorders text or is invisible, in a
// text, a tooltip or an accessible name. Text that a person edits is not changed.
func (p *tab) plain(where string) {
	p.t.Helper()
	raw := ask[[]string](p, `(() => {
		const bad = /[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u{e0000}-\u{e007f}]/u;
		const out = [];
		for (const e of document.querySelectorAll("body *")) {
			for (const n of e.childNodes) if (n.nodeType === 3 && bad.test(n.data)) out.push(e.outerHTML.slice(0, 160));
			for (const a of e.attributes) if (bad.test(a.value)) out.push(a.name + " of " + e.outerHTML.slice(0, 160));
		}
		return out;
	})()`)
	if len(raw) > 0 {
		p.t.Errorf("%s: characters that turn text around are on the page as they are, in %d places: %s", where, len(raw), raw[0])
	}
}

// innocent fails if a foreign script ran, or if the policy had to block one.
func (p *tab) innocent() {
	p.t.Helper()
	if n := ask[int](p, "eyes.seen.ran"); n != 0 {
		p.t.Errorf("a script of a string ran %d times", n)
	}
	if policy := ask[[]string](p, "eyes.seen.policy"); len(policy) != 0 {
		p.t.Errorf("the policy had to stop something: %q", policy)
	}
}

// TestHostileInput types the same strings into every field of the page, and opens them in a link.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "target="+"javascript:pwned()"+"&filter=%3Cimg+src%3Dx+onerror%3Dpwned()%3E&row=%22%3E%3Cscript%3Epwned()&view=%3Cscript%3E&lesson=%3Csvg+onload%3Dpwned()%3E")
	p.see("region", "Wire")
	p.innocent()
	p.visit(u.at(draftLink("@demo", `{"jsonrpc":"2.0","id":`+asJSON(hostile)+`,"method":`+asJSON(hostile)+`,"params":{`+asJSON(hostile)+`:`+asJSON(hostile)+`}}`)))
	p.see("region", "Composer")
	p.key("Ctrl+Enter")
	p.row("pwned.*-32601")
	p.click("button", "/^Save$/")
	fields := ask[int](p, `eyes.all("textbox").concat(eyes.all("combobox"), eyes.all("searchbox")).length`)
	if fields < 3 {
		t.Errorf("there are %d fields to type into", fields)
	}
	for i := range fields {
		if ask[bool](p, `!eyes.all("textbox").concat(eyes.all("combobox"), eyes.all("searchbox"))[`+itoa(i)+`]`) {
			continue
		}
		ask[bool](p, `(eyes.all("textbox").concat(eyes.all("combobox"), eyes.all("searchbox"))[`+itoa(i)+`].focus(), true)`)
		p.write(strings.ReplaceAll(hostile, "\n", ""))
		p.key("Tab")
	}
	p.until("the page is gone", thing("region", "Wire"))
	p.shot("typed")
	p.innocent()
}
