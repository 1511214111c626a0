package page

import "testing"

// TestLesson checks that a lesson is passed by the recorded traffic, and each check links to the
// message that passed it.
func TestLesson(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "lesson=errors")
	p.see("navigation", "Lesson")
	p.see("heading", "/[Ee]rrors/")
	for i, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42`,
		`{"jsonrpc":"2.0","id":1,"params":[42,23]}`,
		`{"jsonrpc":"2.0","id":3,"method":"minus","params":[42,23]}`,
		`{"jsonrpc":"2.0","id":4,"method":"subtract","params":["a","b"]}`,
		`{"jsonrpc":"2.0","id":5,"method":"panic"}`,
		`{"jsonrpc":"2.0","id":6,"method":"fail","params":{"code":7,"message":"full"}}`,
	} {
		p.bytes(text)
		p.key("Ctrl+Enter")
		p.until("check "+itoa(i+1)+" is not passed", `eyes.all("button", /^passed by message/).length === `+itoa(i+1))
		if i == 2 {
			p.guideImage("lesson")
			p.judgeBoth("lesson")
		}
	}
	p.until("the lesson is not passed", `/Passed\./.test(eyes.text(eyes.first("navigation", "Lesson")))`)
	p.click("button", "/^passed by message/")
	p.until("the check does not lead to its message", `eyes.rows().some((r) => r.selected)`)
	p.shot("passed")
}

// TestLessonsOpen checks that every lesson opens, has text, and can be reached from the previous
// one.
func TestLessonsOpen(t *testing.T) {
	t.Parallel()
	u := start(t)
	p := u.page(t, desk, "lesson=request")
	p.see("navigation", "Lesson")
	seen := map[string]bool{}
	for {
		title := ask[string](p, `eyes.text(eyes.first("navigation", "Lesson").querySelector("h1")).trim()`)
		if title == "" || seen[title] {
			t.Fatalf("after %d lessons the title is %q", len(seen), title)
		}
		seen[title] = true
		if len(seen)%5 == 1 {
			p.judge("lesson " + title)
		}
		if !ask[bool](p, "!!"+thing("button", "Next")) {
			break
		}
		p.click("button", "Next")
		p.until("the next lesson does not open", `eyes.text(eyes.first("navigation", "Lesson").querySelector("h1")).trim() !== `+quoted(title))
	}
	if len(seen) < 16 {
		t.Errorf("%d lessons, want 16", len(seen))
	}
}
