package page

import "testing"

// TestLint checks that the lint supports a method that accepts any number of values. It shows each
// error with its rule and the response of a conforming server, and never prevents sending: a
// doubtful message is sent, and gets the predicted response.
func TestLint(t *testing.T) {
	t.Parallel()
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@demo"})
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2,3]}`))
	p.says("Valid JSON-RPC 2.0")
	p.fill("textbox", "numbers 4", "4") // the form has a field for one more value
	p.until("the form does not add a value", `/\[1, ?2, ?3, ?4\]/.test(eyes.bytes())`)
	p.says("Valid JSON-RPC 2.0")
	p.click("button", "/^Send/")
	p.row("sum .*10")
	p.judgeBoth("variadic")

	p.fill("textbox", "numbers 4", "many")
	p.says("/params/3 is a string, but must be a number.")
	p.says("A conforming server responds with -32602")
	p.says("Sent as written.")
	p.judgeBoth("doubt")
	p.click("button", "/^Send/")
	p.row("sum .*-32602")

	p.bytes(`{"jsonrpc":"2.0","id":[],"method":"sum"`)
	p.says("is not JSON")
	p.key("Ctrl+Enter")
	p.row("-32700")
	p.bytes(`{"jsonrpc":"2.0","id":[],"method":"sum"}`)
	p.says("An id must be a string, a number or null")
	p.says("JSON-RPC 2.0, section 4")
	p.key("Ctrl+Enter")
	p.row("-32600")
}
