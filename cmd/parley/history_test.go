package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

// replOn returns a session with a target whose state is in a folder.
func replOn(t *testing.T, state, target string) *repl {
	t.Helper()
	at, err := parley.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	text := jsonrpc.Raw(`{"type":"string"}`)
	return &repl{
		target:  at,
		app:     &app{secrets: secret.New(nil), getenv: func(name string) string { return map[string]string{"XDG_STATE_HOME": state}[name] }},
		offered: &openrpc.Document{Methods: []openrpc.Method{{Name: "login", Params: []openrpc.ContentDescriptor{{Name: "user", Schema: text}, {Name: "password", Schema: text}}}}},
	}
}

func linesOf(h *history) (lines []string) {
	for i := range h.Len() {
		lines = append(lines, h.At(i))
	}
	return lines
}

// TestHistory checks that lines are stored for each target, newest first, without repetitions, and
// in a file that only its user can read.
func TestHistory(t *testing.T) {
	state := t.TempDir()
	h := replOn(t, state, ":3000/rpc").openHistory()
	for _, line := range []string{"sum 1 2", "", "sum 1 2", "  ", "echo é", " hidden by a blank"} {
		h.Add(line)
	}
	if got, want := linesOf(h), []string{" hidden by a blank", "echo é", "sum 1 2"}; !slices.Equal(got, want) {
		t.Errorf("in the session: %q, want %q", got, want)
	}
	again := replOn(t, state, "http://127.0.0.1:3000/rpc").openHistory() // the same target
	if got, want := linesOf(again), []string{"echo é", "sum 1 2"}; !slices.Equal(got, want) {
		t.Errorf("in the next session: %q, want %q", got, want)
	}
	if other := replOn(t, state, "tcp://127.0.0.1:3000").openHistory(); other.Len() != 0 {
		t.Errorf("another target has %q", linesOf(other))
	}
	info, err := os.Stat(h.file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if folder, err := os.Stat(filepath.Dir(h.file)); err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", folder.Mode(), err)
	}
	without := replOn(t, "", ":3000/rpc")
	without.app.getenv = func(string) string { return "" }
	without.openHistory().Add("sum 1 2") // wherever the system's folder is, it does not fail
}

// TestHistoryHasNoSecrets checks that lines with secrets are recalled in their session, and never
// written.
func TestHistoryHasNoSecrets(t *testing.T) {
	r := replOn(t, t.TempDir(), ":3000/rpc")
	r.app.hide("known-credential-of-the-command-line")
	h := r.openHistory()
	secrets := []string{
		`login ada hunter2`, `login user=ada password=hunter2`, `x password:="hunter2"`, `x {"token":"abcdefgh"}`, `x [{"api_key":"abcdefgh"}]`,
		`x a:={"password":"hunter2"}`, `x https://ada:hunter2@example.com/`, `x "Bearer 4f9a8b7c6d5e4f3a2b1c0d9e"`, `x known-credential-of-the-command-line`,
		`.notify x secret=abcdefgh`, `x token=abcdefgh &`, `x 'password=hunter2`,
	}
	for _, line := range secrets {
		h.Add(line)
	}
	h.Add("login")
	h.Add("sum 1 2 &")
	if h.Len() != len(secrets)+2 {
		t.Errorf("the session has %d lines, want %d", h.Len(), len(secrets)+2)
	}
	text, err := os.ReadFile(h.file)
	if err != nil || string(text) != "login\nsum 1 2 &\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// TestHistoryIsBounded checks the bounds of a file and of the folder, and that nothing in a file
// can harm the terminal.
func TestHistoryIsBounded(t *testing.T) {
	state := t.TempDir()
	r := replOn(t, state, ":3000/rpc")
	h := r.openHistory()
	var all []string
	for i := range 2 * maxHistory {
		all = append(all, fmt.Sprintf("sum %d", i))
	}
	if err := os.WriteFile(h.file, []byte("evil\x1b[2J\n"+strings.Repeat("x", maxHistoryLine+1)+"\n"+strings.Join(all, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h = r.openHistory()
	if h.Len() != len(all) || h.At(h.Len()-1) != "sum 0" {
		t.Errorf("%d lines, the oldest is %q", h.Len(), h.At(h.Len()-1))
	}
	h.Add(strings.Repeat("y", maxHistoryLine+1))
	h.Add("newest")
	text, err := os.ReadFile(h.file)
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != maxHistory || lines[maxHistory-1] != "newest" || lines[0] != fmt.Sprintf("sum %d", maxHistory+1) {
		t.Errorf("the file has %d lines, %v", len(lines), err)
	}
	if info, err := os.Stat(h.file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for i := range maxHistoryFiles + 20 {
		if err := os.WriteFile(filepath.Join(filepath.Dir(h.file), fmt.Sprintf("old%d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replOn(t, state, "tcp://127.0.0.1:1").openHistory()
	if files, err := os.ReadDir(filepath.Dir(h.file)); err != nil || len(files) != maxHistoryFiles {
		t.Errorf("there are %d files, %v", len(files), err)
	}
}

// TestTwoHistories checks that two sessions write one file without losing a line.
func TestTwoHistories(t *testing.T) {
	r := replOn(t, t.TempDir(), ":3000/rpc")
	var sessions sync.WaitGroup
	const each = 50
	for n := range 2 {
		h := r.openHistory()
		sessions.Go(func() {
			for i := range each {
				h.Add(fmt.Sprintf("sum %d %d", n, i))
			}
		})
	}
	sessions.Wait()
	if all := r.openHistory(); all.Len() != 2*each {
		t.Errorf("%d lines, want %d: %q", all.Len(), 2*each, linesOf(all))
	}
}

// TestHistorySearch checks Ctrl-R: it finds lines that contain what is typed, the newest first.
func TestHistorySearch(t *testing.T) {
	r := &repl{past: &history{lines: []string{"sum 1 2", "echo a", "sum 3 4", "echo b"}}}
	line := "sum"
	for _, want := range []string{"sum 3 4", "sum 1 2", "sum 1 2"} {
		got, at, ok := r.complete(line, len(line), keyCtrlR)
		if got != want || at != len(want) || !ok {
			t.Errorf("after %q: %q, want %q", line, got, want)
		}
		line = got
	}
	if got, _, _ := r.complete("echo", 4, keyCtrlR); got != "echo b" {
		t.Errorf("a new search finds %q", got)
	}
	if got, _, _ := r.complete("nothing", 7, keyCtrlR); got != "nothing" {
		t.Errorf("no result is %q", got)
	}
}
