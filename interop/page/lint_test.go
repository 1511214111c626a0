package page

import "testing"

// The lint knows a method that takes any number of values. It names what is wrong, with the rule and what a right server answers, and
// never stands in the way: what it doubts goes out, and is answered as it said.
func TestLint(t *testing.T) {
	u := start(t)
	u.call(t, "describe", map[string]any{"target": "@demo"})
	p := u.page(t, desk, draftLink("@demo", `{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2,3]}`))
	p.says("Valid JSON-RPC 2.0")
	p.fill("textbox", "numbers 4", "4") // the form has a field for one value more
	p.until("the form does not add a value", `/\[1, ?2, ?3, ?4\]/.test(eyes.bytes())`)
	p.says("Valid JSON-RPC 2.0")
	p.click("button", "/^Send/")
	p.row("sum .*10")
	p.judgeBoth("variadic")

	p.fill("textbox", "numbers 4", "many")
	p.says("/params/3 is a string; a number is wanted.")
	p.says("A right server answers -32602")
	p.says("It goes out as written.")
	p.judgeBoth("doubt")
	p.click("button", "/^Send/")
	p.row("sum .*-32602")

	p.bytes(`{"jsonrpc":"2.0","id":[],"method":"sum"`)
	p.says("is not JSON")
	p.key("Ctrl+Enter")
	p.row("-32700")
	p.bytes(`{"jsonrpc":"2.0","id":[],"method":"sum"}`)
	p.says("An id is a string, a number or null")
	p.says("JSON-RPC 2.0, section 4")
	p.key("Ctrl+Enter")
	p.row("-32600")
}
