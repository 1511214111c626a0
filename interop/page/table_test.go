package page

import "testing"

// TestFirstClickOnBookTable checks that the first click on the demo's tool works without changes:
// the composed call matches its schema. A response that does not match the question's form gets an
// error with the reason.
func TestFirstClickOnBookTable(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "target=@table")
	p.clickOn(`eyes.all("button").find((e) => /^\d+ tools$/.test(eyes.name(e)))`)
	p.see("region", "Composer")
	p.key("Ctrl+k")
	p.write("book-table")
	p.until("the tool is not found", `/book-table/.test(eyes.text(eyes.first("listbox", "Results")))`)
	p.key("Enter")
	p.until("the examples of the schema are not in the draft", `/"restaurant": ?"Zur Linde"/.test(eyes.bytes()) && /"guests": ?4/.test(eyes.bytes())`)
	p.key("Ctrl+Enter")
	p.row("elicitation")
	p.question()
	p.click("button", "/^Accept/") // without a name
	p.until("what is wrong is not told", `eyes.rows().some((r) => /tool error/.test(r.text) && /the answer does not match the form: at \/name: must have/.test(r.text))`)
	p.shot("misfit")
}
