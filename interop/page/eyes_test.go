package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEyes checks the basis of the other tests: names of elements, clicks that do not pass through
// a covering element, and a policy whose violations are counted.
func TestEyes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'")
		if r.URL.Path == "/s.js" {
			w.Header().Set("Content-Type", "text/javascript")
			io.WriteString(w, `
				const host = document.getElementById("host").attachShadow({mode: "open"});
				const b = document.createElement("button");
				b.textContent = "inside";
				b.onclick = () => document.title = "clicked";
				host.append(b);
				document.addEventListener("keydown", (e) => document.body.dataset.key = (e.ctrlKey ? "C-" : "") + e.key);`)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<!doctype html><title>x</title><button aria-label="Named">other</button><label>Field <input id="f"></label>
			<span aria-hidden="true">unseen</span><div id="host"></div><script src="/s.js"></script>`)
	}))
	defer server.Close()
	p := open(t, server.URL, desk)
	p.see("button", "Named")
	p.see("textbox", "Field")
	if text := ask[string](p, "eyes.clean(eyes.text(document.body))"); strings.Contains(text, "unseen") {
		t.Errorf("a screen reader would read %q", text)
	}
	p.click("button", "/^ins/")
	p.until("the button was not clicked", `document.title === "clicked"`)
	p.key("Ctrl+k")
	p.until("the key did not come", `document.body.dataset.key === "C-k"`)
	p.fill("textbox", "Field", "wörds\u202e")
	p.until("the text did not come", `document.getElementById("f").value === "wörds\u202e"`)

	ask[bool](p, `(document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='pwned()'>"), true)`)
	p.until("the policy is not counted", "eyes.seen.policy.length > 0")
	if n := ask[int](p, "eyes.seen.ran"); n != 0 {
		t.Errorf("a script ran %d times", n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.faults) == 0 {
		t.Error("the browser reported nothing")
	}
	p.faults = nil // they were expected
}
