package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// sitting returns a command whose terminal is in memory: the input is typed, the returned buffer is
// the output.
func sitting(typed string) (*agentCommand, *bytes.Buffer) {
	var stderr bytes.Buffer
	v := &agentCommand{app: &app{stdin: strings.NewReader(typed), stderr: &stderr, getenv: func(string) string { return "" }}}
	v.screen = &screen{w: &stderr}
	v.printer = &printer{w: &stderr}
	_, v.patience, _ = newPatience(context.Background(), 0, func() []jsonrpc.ID { return nil })
	return v, &stderr
}

func permission() *agent.Question {
	return &agent.Question{Text: "Write it?", Options: []agent.Option{
		{ID: "a", Name: "Yes", Kind: agent.AllowOnce}, {ID: "A", Name: "Always", Kind: agent.AllowAlways}, {ID: "r", Name: "No", Kind: agent.RejectOnce},
	}}
}

// TestAgentDialogue checks that the dialogue repeats until an answer is valid, and that the end of
// the input counts as no answer.
func TestAgentDialogue(t *testing.T) {
	form := &agent.Question{Text: "Who?", Form: jsonrpc.Raw(`{"type":"object","properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer"}},"required":["name"]}`)}
	for _, tt := range []struct {
		q           *agent.Question
		typed, want string
	}{
		{&agent.Question{Text: "Name?"}, "Ada\n", "Ada"},
		{&agent.Question{Text: "Name?"}, "", "declined"},
		{permission(), "9\nperhaps\n3\n", "r"},
		{permission(), "always\n", "A"},
		{permission(), "y\n", "a"},
		{permission(), "no\n", "r"},
		{form, "A\nAda\nold\n36\n", `{"name":"Ada","age":36}`},
		{form, "Ada\n\n", `{"name":"Ada"}`},
		{form, "Ada\n", "declined"},
	} {
		v, stderr := sitting(tt.typed)
		a, err := v.dialogue(t.Context(), tt.q)
		if err != nil {
			t.Errorf("%s %q: %v", tt.q.Text, tt.typed, err)
			continue
		}
		got := a.Text()
		if a.Declined {
			got = "declined"
		} else if a.Option != "" {
			got = a.Option
		}
		if got != tt.want || !strings.HasPrefix(stderr.String(), "the agent asks: "+tt.q.Text) {
			t.Errorf("%s %q: %q, want %q; the terminal shows:\n%s", tt.q.Text, tt.typed, got, tt.want, stderr)
		}
	}
}

// TestAgentIsAnsweredWithoutATerminal checks that --yes and --no answer only permission questions,
// that --answer values are used in order, and that nothing waits for an absent user.
func TestAgentIsAnsweredWithoutATerminal(t *testing.T) {
	v, _ := sitting("typed\n") // but stdin is not a terminal
	v.yes, v.answers = true, []string{"Ada", "2"}
	for i, want := range []struct {
		q    *agent.Question
		said string
	}{
		{permission(), "a"},
		{&agent.Question{Text: "Name?"}, "Ada"},
		{&agent.Question{Text: "Which?", Options: []agent.Option{{ID: "x", Name: "X"}, {ID: "y", Name: "Y"}}}, "y"},
	} {
		a, err := v.ask(t.Context(), want.q)
		if err != nil || a.Option != want.said && a.Text() != want.said {
			t.Errorf("question %d: %+v, %v; want %q", i, a, err, want.said)
		}
	}
	if a, err := v.ask(t.Context(), &agent.Question{Text: "More?"}); !errors.Is(err, agent.ErrNoAnswer) {
		t.Errorf("one more question: %+v, %v", a, err)
	}
	v.answers, v.asked, v.yes = []string{"perhaps"}, 0, false
	if a, err := v.ask(t.Context(), permission()); !is[*usageError](err) {
		t.Errorf("an answer that is no choice: %+v, %v", a, err)
	}
}

// TestTextForTheTerminalIsHarmless checks that an agent cannot control the terminal, neither by its
// output nor by a question.
func TestTextForTheTerminalIsHarmless(t *testing.T) {
	v, out := sitting("x\n")
	v.printer.terminal = true
	if err := v.printParts([]agent.Part{agent.Text("a\x1b[2Jb"), agent.Value(map[string]string{"x": "\x1b]0;title\a"}).Named("\x1b[31m")}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.dialogue(t.Context(), &agent.Question{Text: "\x1b[8mhidden", Options: []agent.Option{{ID: "x", Name: "\x1b[8m"}}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\a") {
		t.Errorf("the terminal gets %q", out)
	}
}

func TestSplitCommand(t *testing.T) {
	for text, want := range map[string][]string{
		"tr a-z A-Z":            {"tr", "a-z", "A-Z"},
		"  a\tb\n":              {"a", "b"},
		`sh -c 'echo "x y"' ""`: {"sh", "-c", `echo "x y"`, ""},
		`a\ b "c\"d" 'e\f'`:     {"a b", `c"d`, `e\f`},
		"":                      nil,
		"$HOME;rm *":            {"$HOME;rm", "*"}, // no shell is involved
	} {
		if got, err := splitCommand(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`a "b`, "a 'b", `a \`} {
		if got, err := splitCommand(text); !errors.Is(err, errQuote) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// TestFolder checks that the agent reads and writes only in the working folder, whatever paths and
// links it uses.
func TestFolder(t *testing.T) {
	outside := t.TempDir()
	dir := t.TempDir()
	for name, content := range map[string]string{
		filepath.Join(outside, "secret"): "secret", filepath.Join(dir, "notes"): "one\ntwo\nthree\n", filepath.Join(dir, "last"): "a\nb",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{"out": filepath.Join(outside, "secret"), "dir": outside} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	v, stderr := sitting("")
	f := &folder{dir: dir, root: root, command: v}
	for _, tt := range []struct {
		path        string
		line, limit int
		want        string
	}{
		{filepath.Join(dir, "notes"), 0, 0, "one\ntwo\nthree\n"},
		{filepath.Join(dir, "notes"), 2, 1, "two\n"},
		{filepath.Join(dir, "notes"), 2, 0, "two\nthree\n"},
		{filepath.Join(dir, "notes"), 9, 1, ""},
		{filepath.Join(dir, "last"), 2, 5, "b"},
		{filepath.Join(dir, "x", "..", "notes"), 1, 1, "one\n"},
	} {
		got, err := f.read(t.Context(), &editor.ReadTextFileParams{Path: tt.path, Line: tt.line, Limit: tt.limit})
		if err != nil || got != tt.want {
			t.Errorf("read %s from %d, %d lines: %q, %v; want %q", tt.path, tt.line, tt.limit, got, err, tt.want)
		}
	}
	for _, path := range []string{
		filepath.Join(outside, "secret"), filepath.Join(dir, "..", filepath.Base(outside), "secret"), "notes", "../secret", dir, "",
		filepath.Join(dir, "out"), filepath.Join(dir, "dir", "secret"), dir + "\x00",
	} {
		if got, err := f.read(t.Context(), &editor.ReadTextFileParams{Path: path}); err == nil {
			t.Errorf("read %q: %q", path, got)
		}
		if err := f.write(t.Context(), &editor.WriteTextFileParams{Path: path, Content: "changed"}); err == nil {
			t.Errorf("wrote %q", path)
		}
	}
	if _, err := f.read(t.Context(), &editor.ReadTextFileParams{Path: filepath.Join(dir, "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := f.write(t.Context(), &editor.WriteTextFileParams{Path: filepath.Join(dir, "new", "deep", "file"), Content: "x"}); err != nil {
		t.Errorf("a file in new folders: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(got) != "secret" {
		t.Errorf("the file outside is now %q, %v", got, err)
	}
	if !strings.Contains(stderr.String(), "outside the working folder") || !strings.Contains(stderr.String(), "[wrote "+filepath.Join("new", "deep", "file")) {
		t.Errorf("the terminal shows:\n%s", stderr)
	}
}
