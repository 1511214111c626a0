package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
)

// TestPage checks the page that a browser gets, and that nothing in it executes or is loaded from
// elsewhere.
func TestPage(t *testing.T) {
	p := &page{service: demo.New("test"), prefix: "parley", firstMCP: 3}
	for _, text := range []string{"http://127.0.0.1:3000/rpc", "tcp://127.0.0.1:3001", "unix:/run/a b.sock", "unix:/run/mcp.sock"} {
		target, err := parley.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		p.targets = append(p.targets, target)
	}
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}
	index := get("GET", "/")
	body := index.Body.String()
	for _, want := range []string{
		"parley call http://127.0.0.1:3000/rpc subtract 42 23",
		"parley call ws://127.0.0.1:3000/rpc ask",
		"parley call tcp://127.0.0.1:3001 countdown 3 200 --stream",
		"parley call &#39;unix:/run/a b.sock&#39; sum 1 2 4",
		"parley mcp tools http://127.0.0.1:3000/mcp",
		"parley mcp prompts sse&#43;http://127.0.0.1:3000/sse",
		"parley mcp call unix:/run/mcp.sock book-table restaurant=&#34;Zur Linde&#34; guests:=4",
		"curl http://127.0.0.1:3000/rpc",
		"subtract(minuend, subtrahend)",
		"countdown(from, interval_ms?)",
		"sum(numbers…)",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	for _, unwanted := range []string{"<script", "http-equiv", "style=", "onclick", `src="http`, `href="http`} {
		if strings.Contains(body, unwanted) {
			t.Errorf("the page holds %q", unwanted)
		}
	}
	if policy := index.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the page's policy is %q", policy)
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/style.css", http.StatusOK},
		{"HEAD", "/", http.StatusOK},
		{"PUT", "/", http.StatusMethodNotAllowed},
		{"GET", "/other", http.StatusNotFound},
	} {
		if got := get(c.method, c.path).Code; got != c.status {
			t.Errorf("%s %s = %d, want %d", c.method, c.path, got, c.status)
		}
	}
}

// TestPageShowsWhatRuns checks that each command on the page prints the output shown there.
func TestPageShowsWhatRuns(t *testing.T) {
	p := &page{service: demo.New("test"), prefix: "parley", firstMCP: 1, targets: []parley.Target{serveDemo(t, "ws://127.0.0.1:0")}}
	methods, err := p.methods()
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, m := range methods {
		if len(m.Calls) == 0 {
			t.Errorf("%s has no line to paste", m.Name)
		}
		for _, call := range m.Calls {
			var stdout, stderr bytes.Buffer
			a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
			code := a.main(t.Context(), shellWords(strings.TrimPrefix(call.Command, "parley ")))
			if want := m.Name == "fail" || m.Name == "panic" || strings.Contains(call.Command, "TOKEN"); (code != 0) != want {
				t.Errorf("%s\nexit code %d, stderr %s", call.Command, code, &stderr)
			}
			if call.Result != "" && !strings.Contains(call.Command, "TOKEN") && strings.TrimSpace(stdout.String()) != call.Result {
				t.Errorf("%s\nprints %swant %s", call.Command, &stdout, call.Result)
			}
			shown++
		}
	}
	if shown < 18 {
		t.Errorf("only %d lines were tried", shown)
	}
}

// TestHelpOpensWithWhatRuns checks that the examples of --help work unchanged, except for the
// ports, which may be in use.
func TestHelpOpensWithWhatRuns(t *testing.T) {
	web, stream := serveDemo(t, "http://127.0.0.1:0"), serveDemo(t, "tcp://127.0.0.1:0")
	real := strings.NewReplacer("127.0.0.1:3000", web.Address, "127.0.0.1:3001", stream.Address)
	opening, _, _ := strings.Cut(rootHelp, "Targets:")
	ran := 0
	for line := range strings.Lines(opening) {
		command, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "  parley ")
		if !ok {
			continue
		}
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
		if code := a.main(t.Context(), shellWords(real.Replace(command))); code != 0 || stdout.Len() == 0 {
			t.Errorf("%sexit code %d, stdout %q, stderr %s", line, code, &stdout, &stderr)
		}
		ran++
	}
	if ran != 3 {
		t.Errorf("%d examples, want 3", ran)
	}
}

// TestHelpWidth checks that no line of a help text is wider than a terminal of 100 columns.
func TestHelpWidth(t *testing.T) {
	commands := 0
	var walk func(words []string)
	walk = func(words []string) {
		var stdout, stderr bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
		if code := a.main(t.Context(), append(words, "--help")); code != 0 || stdout.Len() == 0 {
			t.Fatalf("%q: exit code %d, %s", words, code, &stderr)
		}
		commands++
		below := false
		for line := range strings.Lines(stdout.String()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > helpWidth {
				t.Errorf("%q: %d columns: %s", words, n, line)
			}
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "  "), " ")
			switch {
			case line == "Commands:":
				below = true
			case !strings.HasPrefix(line, "  "):
				below = false
			case below && name != "help" && name != "completion": // cobra describes the shells
				walk(append(slices.Clone(words), name))
			}
		}
	}
	walk(nil)
	if commands < 40 {
		t.Errorf("only %d commands were tried", commands)
	}
}

// shellWords splits a command of ours like a shell: at blanks, with both kinds of quotes, without
// escapes.
func shellWords(line string) (words []string) {
	var word strings.Builder
	quote, inside := rune(0), false
	for _, r := range line + " " {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, inside = r, true
		case r == ' ':
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	return words
}
