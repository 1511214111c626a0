package page

import (
	"strings"
	"testing"
)

// chosen waits until the option of that name is the one that Enter selects, and selects it.
func (p *tab) chosen(label string) {
	p.t.Helper()
	option := `eyes.all("option").find((e) => e.querySelector(".cm-completionLabel")?.textContent === ` + quoted(label) + `)`
	p.until("there is no option "+label, option)
	// Fast typing must not select an option: the list accepts keys only after it has been shown for
	// a moment.
	p.until("the options do not come to rest", `((text) => { if (window.optionsText !== text) { window.optionsText = text; window.optionsSince = performance.now() } return performance.now() - window.optionsSince > 150 })(eyes.all("option").map(eyes.text).join())`)
	for range 40 {
		if ask[bool](p, option+`?.getAttribute("aria-selected") === "true"`) {
			break
		}
		p.key("Down")
	}
	p.until("the option "+label+" cannot be reached", option+`?.getAttribute("aria-selected") === "true"`)
	// The accessibility tree: the editor owns the list and refers to the active option.
	p.until("the editor does not point at the option", `(() => { const e = eyes.first("textbox", /^Bytes/); return e.getRootNode().getElementById(e.getAttribute("aria-activedescendant")) === `+option+` && eyes.first("listbox", "What could stand here") })()`)
	p.key("Enter")
	p.until("the options are still there", `!eyes.all("option").some((e) => e.querySelector(".cm-completionLabel")?.textContent === `+quoted(label)+`)`)
}

// endsWith waits until the text ends with text.
func (p *tab) endsWith(text string) {
	p.t.Helper()
	p.until("the bytes do not end with "+text, "eyes.bytes().endsWith("+quoted(text)+")")
}

// TestCompleteATool checks that a tool call is written with a few keys, from the protocol's methods
// to the tool's arguments. The options can be reached by keyboard alone, and have names.
func TestCompleteATool(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@table"})
	p := u.page(t, desk, draftLink("@table", `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	p.bytes(`{"jsonrpc": "2.0", "id": 7, "method": `)
	p.write(`"tools/c`)
	p.chosen("tools/call")
	p.endsWith(`"method": "tools/call"`)
	p.write(`, "par`)
	p.chosen("params")
	p.endsWith(`"params": {}`)
	p.chosen("name") // requested immediately
	p.endsWith(`"params": {"name": ""}`)
	p.chosen("book-table")
	p.endsWith(`"params": {"name": "book-table"}`)
	p.key("Ctrl+Space")
	p.chosen("arguments")
	p.endsWith(`{"name": "book-table", "arguments": {}}`)
	p.until("the arguments of the tool are not proposed, with their types", `((e) => e && /^restaurant.*string, required/.test(eyes.clean(eyes.text(e))))(eyes.all("option")[0])`)
	p.guideImage("complete")
	p.judgeBoth("complete")
	p.chosen("restaurant")
	p.write("Zur Linde")
	p.key("Esc") // closes an open list only
	p.key("End")
	if got := ask[string](p, "eyes.bytes()"); !strings.Contains(got, `"arguments": {"restaurant": "Zur Linde"}`) {
		t.Errorf("the composer holds %s", got)
	}
	p.see("region", "Composer")
}

// TestCompleteByTheServer checks that options that only the server has are requested from it: the
// argument of a prompt, a variable of a resource template. The request is recorded.
func TestCompleteByTheServer(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@table"})
	p := u.page(t, desk, draftLink("@table", `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	p.bytes(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"plan-evening","arguments":{"city":`)
	p.write(`"Os`)
	p.chosen("Oslo")
	p.endsWith(`"city":"Oslo"`)
	p.row(`completion\/complete`)
	p.bytes(`[{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":`)
	p.write(`"table://menus/b`)
	p.chosen("table://menus/blue-door")
	p.endsWith(`"uri":"table://menus/blue-door"`)
}

// TestProposalsInTheForm checks that the form of a prompt also has the server's options.
func TestProposalsInTheForm(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@table"})
	p := u.page(t, desk, draftLink("@table", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"plan-evening","arguments":{"city":""}}}`))
	p.click("textbox", "/^restaurant/")
	p.until("the restaurants are not proposed", `[...(eyes.first("combobox", /^restaurant/)?.list?.options ?? [])].some((o) => o.value === "Blue Door")`)
	p.write("Os")
	p.until("the proposals do not follow what is typed", `[...(eyes.first("combobox", /^restaurant/)?.list?.options ?? [])].map((o) => o.value).join() === "Osteria Bella"`)
	p.until("the form does not change the bytes", `/"restaurant": ?"Os"/.test(eyes.bytes())`)
}

// TestCompleteOnTheFirstPage checks that the first page also has completion.
func TestCompleteOnTheFirstPage(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "")
	p.until("@demo has not introduced itself", "eyes.rows().some((r) => /rpc.discover.*result/.test(r.text))")
	p.bytes(`{"jsonrpc":"2.0","id":1,"method":`)
	p.write(`"get_d`)
	p.chosen("get_data")
	p.write("}")
	p.key("Ctrl+Enter")
	p.row("get_data .*result")
}

// TestCompleteInTheMiddle checks that a draft that is invalid JSON is completed, too, and the
// chosen option leaves the rest unchanged.
func TestCompleteInTheMiddle(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@demo"})
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"echo"}`))
	p.bytes("{\"text\": \"𝄞é\",\n \"method\": \n \"params\": [1,}")
	for range 2 {
		p.key("Up")
	}
	p.key("Down")
	p.key("End")
	p.key("Ctrl+Space")
	p.chosen("subtract")
	p.until("the rest has changed", "eyes.bytes() === "+quoted("{\"text\": \"𝄞é\",\n \"method\": \"subtract\",\n \"params\": [1,}"))
	p.key("Ctrl+Enter") // sent, valid or not
	p.row("-32700")
}

// TestCompleteOnAPhone checks that on a phone the options stay on the screen, and a tap selects
// one.
func TestCompleteOnAPhone(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@table"})
	p := u.page(t, phone, draftLink("@table", `{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	p.click("button", "Open the composer")
	p.bytes(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":`)
	p.write(`"book`)
	p.see("option", "/^book-table/")
	p.until("the proposals leave the screen", `(() => { const r = eyes.first("listbox", "What could stand here")?.getBoundingClientRect(); return r && r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight })()`)
	p.judgeBoth("complete")
	p.clickOn(thing("option", "/^book-table/"))
	p.endsWith(`"name":"book-table"`)
}
