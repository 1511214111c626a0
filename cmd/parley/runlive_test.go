package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// on runs a command in this process, and returns its exit code and its output.
func on(ctx context.Context, words ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code = a.main(ctx, words)
	return code, out.String(), errs.String()
}

// TestRunsAreReadWhileTheyRun checks that other processes can list, show and watch active runs, and
// that more runs can be stored beside them.
func TestRunsAreReadWhileTheyRun(t *testing.T) {
	methods := demoFor(t)["HTTP"]
	plan := writePlan(t, methods, `
name: slow
team: {slow: {target: "http://127.0.0.1:3000/acp", protocol: acp, agent: slow}}
steps:
  - {id: late, agent: slow, prompt: 100 steps of 1s}
`)
	state := t.TempDir()
	ends := make(chan int, 2)
	cancels := map[string]context.CancelCauseFunc{}
	for _, name := range []string{"first", "second"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancels[name] = cancel
		stdout := &watcher{want: `"kind":"started"`, seen: make(chan struct{})}
		go func() {
			a := &app{stdin: strings.NewReader(""), stdout: stdout, stderr: io.Discard, getenv: func(string) string { return "" }}
			ends <- a.main(ctx, []string{"run", plan, "--state", state, "-o", "ndjson"})
		}()
		<-stdout.seen
	}
	code, stdout, stderr := on(t.Context(), "run", "list", "--state", state, "-o", "json")
	var all []orchestrator.Info
	if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 || len(all) != 2 || all[0].State != orchestrator.Running || all[1].State != orchestrator.Running {
		t.Fatalf("list: %d %s %s", code, stdout, stderr)
	}
	if code, stdout, stderr := on(t.Context(), "run", "show", all[0].ID, "--state", state); code != 0 || !strings.Contains(stdout, all[0].ID+"  running  ") {
		t.Errorf("show: %d %s %s", code, stdout, stderr)
	}
	if code, _, stderr := on(t.Context(), "run", "delete", all[0].ID, "--state", state); code != exitUsage || !strings.Contains(stderr, "is running") {
		t.Errorf("delete: %d %s", code, stderr)
	}
	watched := make(chan string, 1)
	seen := &watcher{want: "started     late", seen: make(chan struct{})}
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: seen, stderr: io.Discard, getenv: func(string) string { return "" }}
		_ = a.main(t.Context(), []string{"run", "watch", all[0].ID, "--state", state, "-o", "text"})
		watched <- seen.String()
	}()
	<-seen.seen
	for _, cancel := range cancels {
		cancel(errInterrupted)
	}
	for range cancels {
		if code := <-ends; code != exitCancelled {
			t.Errorf("a run ends with %d", code)
		}
	}
	if text := <-watched; !strings.Contains(text, "run_ended   ") || !strings.Contains(text, "cancelled") {
		t.Errorf("watch prints\n%s", text)
	}
	if code, _, stderr := on(t.Context(), "run", "delete", all[0].ID, "last", "--state", state); code != 0 {
		t.Errorf("delete: %d %s", code, stderr)
	}
	if entries, err := os.ReadDir(filepath.Join(state, "runs")); err != nil || len(entries) != 0 {
		t.Errorf("%d folders are left, %v", len(entries), err)
	}
}

// TestRunsOfTheOldLayout checks that runs of the previous layout can be listed, shown, watched and
// deleted, also beside new ones and while a server holds the folder.
func TestRunsOfTheOldLayout(t *testing.T) {
	state := t.TempDir()
	s, err := sqlite.Open(state, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := orchestrator.ParsePlan("p.yaml", []byte("name: old\nsteps: [{id: q, ask: sure?, optional: true}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	id := orchestrator.NewID()
	if _, err := (&orchestrator.Runner{Store: s}).RunAs(t.Context(), id, plan, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(state, "new.yaml")
	if err := os.WriteFile(file, []byte("name: new\nsteps: [{when: \"false\", ask: sure?}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// While s is open.
	if code, _, stderr := on(t.Context(), "run", file, "--state", state); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	if code, stdout, stderr := on(t.Context(), "run", "list", "--state", state, "--jq", ".[].plan"); code != 0 || stdout != "\"old\"\n\"new\"\n" {
		t.Errorf("list: %d %s %s", code, stdout, stderr)
	}
	if code, stdout, stderr := on(t.Context(), "run", "show", id, "--state", state); code != 0 || !strings.Contains(stdout, id+"  ok") {
		t.Errorf("show: %d %s %s", code, stdout, stderr)
	}
	if code, stdout, stderr := on(t.Context(), "run", "watch", id, "--state", state, "-o", "text"); code != 0 || !strings.Contains(stdout, "run_ended") {
		t.Errorf("watch: %d %s %s", code, stdout, stderr)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := on(t.Context(), "run", "delete", id, "--state", state); code != 0 {
		t.Errorf("delete: %d %s", code, stderr)
	}
	if code, stdout, stderr := on(t.Context(), "run", "list", "--state", state, "--jq", ".[].plan"); code != 0 || stdout != "\"new\"\n" {
		t.Errorf("list: %d %s %s", code, stdout, stderr)
	}
}

// TestRunsExpire checks that runs without a write for 30 days, including interrupted ones, are
// deleted when the next run begins.
func TestRunsExpire(t *testing.T) {
	state := t.TempDir()
	file := filepath.Join(state, "p.yaml")
	if err := os.WriteFile(file, []byte("steps: [{when: \"false\", ask: sure?}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		if code, _, stderr := on(t.Context(), "run", file, "--state", state); code != 0 {
			t.Fatal(stderr)
		}
	}
	run()
	old, err := filepath.Glob(filepath.Join(state, "runs", "*"))
	if err != nil || len(old) != 1 {
		t.Fatal(old, err)
	}
	if err := os.Remove(filepath.Join(old[0], infoFile)); err != nil { // as after a kill
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(old[0], "*"))
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-keepTime - time.Hour)
	for _, name := range append(files, old[0]) {
		if err := os.Chtimes(name, before, before); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if _, err := os.Stat(old[0]); !os.IsNotExist(err) {
		t.Errorf("the old run is still there: %v", err)
	}
}
