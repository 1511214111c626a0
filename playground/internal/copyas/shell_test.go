//go:build unix

package copyas

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/shelltest"
)

// words are texts that a shell could misinterpret.
var words = []string{
	"plain", "", " ", "two words", "it's", `a"b`, `back\slash`, "$HOME", "$(id)", "`id`", "; echo harm", "&& harm", "|harm", ">harm", "<harm", "*", "?", "[a-z]", "{a,b}", "~", "~root",
	"#comment", "!history", "-flag", "--", "=word", "A=b", "line\nbreak", "ends\n\n", "tab\there", "ü", "\x1b[31m", "\x03\x15", "\u202e", "\u200b", "\U000e0041", "%s", "\\n", "-e",
}

// TestCopiedCommands checks that a shell parses a copied command into the same words, runs it in
// the same folder and starts nothing else.
func TestCopiedCommands(t *testing.T) {
	run := shelltest.New(t)
	dir := filepath.Join(t.TempDir(), "a folder; $(id) 'x'")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	program := append([]string{"sh"}, words...)
	request := `{"jsonrpc":"2.0","id":1,"method":"x"}`
	for _, c := range []struct {
		name, text string
		spec       Target
		want       []string
		stdin, dir string
	}{
		{"a program", request, Target{Command: program}, append([]string{"call", "x", "--"}, program...), "", ""},
		{"a program of a file", request, Target{Command: program, Dir: dir}, append([]string{"call", "x", "--"}, program...), "", dir},
		{"a batch to a program", "[1]", Target{Command: program, Dir: dir}, append([]string{"call", "--raw", "-d", "-", "--"}, program...), "[1]", dir},
		{"bytes to a program", "\xff\x00%\n", Target{Command: program}, append([]string{"call", "--raw", "-d", "-", "--"}, program...), "\xff\x00%\n", ""},
		{"keys in a text", "[\"\x03\u202e\"]", Target{Address: "tcp://127.0.0.1:1"}, []string{"call", "tcp://127.0.0.1:1", "--raw", "-d", "-"}, "[\"\x03\u202e\"]", ""},
	} {
		// The format curl supports only HTTP, so both are parley commands.
		for _, as := range []string{"parley", "curl"} {
			m := New(c.spec, []byte(c.text), nil, false)
			line := map[string]func() string{"parley": m.Parley, "curl": m.Curl}[as]()
			if strings.ContainsAny(line, "\x1b\x03\x15\u202e\u200b\U000e0041") {
				t.Errorf("%s as %s has keys or hidden characters in it: %q", c.name, as, line)
			}
			argv, stdin, at := run(line)
			if !slices.Equal(argv, c.want) {
				t.Errorf("%s as %s starts\n%q, want\n%q\nby\n%s", c.name, as, argv, c.want, line)
			}
			if stdin != c.stdin || c.dir != "" && at != c.dir {
				t.Errorf("%s as %s reads %q in %q, want %q in %q", c.name, as, stdin, at, c.stdin, c.dir)
			}
		}
	}

	// Each word in each position of a message, an address or a header.
	for _, w := range words {
		method := string(jsonrpc.AppendString(nil, w))
		for _, params := range []string{"", `,"params":[` + method + `]`, `,"params":{"a":` + method + `}`, `,"params":{` + method + `:1}`} {
			text := `{"jsonrpc":"2.0","id":` + method + `,"method":` + method + params + `}`
			m := New(Target{Address: "http://127.0.0.1:1/rpc?a=[1-3]{b}"}, []byte(text), [][2]string{{"X-A", strings.Map(printable, w)}, {"X-Empty", ""}, {"Authorization", "$AUTHORIZATION"}}, false)
			argv, stdin, _ := run(m.Parley())
			if m.one && !strings.HasPrefix(w, "-") {
				if !slices.Contains(argv, w) || !slices.Contains(argv, "Authorization: Bearer mine") || !slices.Contains(argv, "X-A: "+strings.Map(printable, w)) {
					t.Errorf("%q is called by %q", text, argv)
				}
			} else if stdin != text {
				t.Errorf("parley gets %q, want %q", stdin, text)
			}
			argv, stdin, _ = run(m.Curl())
			if !slices.Contains(argv, text) && stdin != text {
				t.Errorf("curl gets %q, want %q", argv, text)
			}
			if !slices.Contains(argv, "-g") || !slices.Contains(argv, m.target.URL()) || !slices.Contains(argv, "X-Empty;") || !slices.Contains(argv, "Authorization: Bearer mine") {
				t.Errorf("curl gets %q", argv)
			}
		}
	}
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return -1
	}
	return r
}

// TestCopiedWithoutSecrets checks that a copy contains neither the secrets of the file nor what
// looks like a secret. The other words are unchanged.
func TestCopiedWithoutSecrets(t *testing.T) {
	program := Target{Command: []string{"srv", "x CANARY-three y", "--token", "CANARY-one", "--all the", "--api-key=CANARY-two"}, Secrets: []string{"CANARY-three"}}
	web := Target{Address: "http://127.0.0.1:1/rpc?api_key=CANARY-four&x=CANARY-three", Secrets: []string{"CANARY-three"}}
	for _, spec := range []Target{program, web} {
		m := New(spec, []byte(`{"jsonrpc":"2.0","id":1,"method":"x"}`), nil, false)
		for as, f := range map[string]func() string{"curl": m.Curl, "parley": m.Parley, "go": m.Go, "python": m.Python} {
			text := f()
			if strings.Contains(text, "CANARY") {
				t.Errorf("as %s:\n%s", as, text)
			}
			if len(spec.Command) > 0 && (!strings.Contains(text, "srv") || !strings.Contains(text, "--all the")) {
				t.Errorf("as %s, words are missing:\n%s", as, text)
			}
		}
		m.secrets = true
		if text := m.Parley(); !strings.Contains(text, "CANARY-three") {
			t.Errorf("secrets were wanted: %s", text)
		}
	}
}
