//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestKilled checks that all processes that parley has started, directly or indirectly, end soon
// after parley is killed. PARLEY_KILLS is the number of repetitions; the default is 10.
func TestKilled(t *testing.T) {
	t.Parallel()
	n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS"))
	if err != nil {
		n = 10
	}
	program := parleyProgram(t)
	trees := []string{
		`sleep 345 & echo ready >&9; sleep 346`,
		// Like npx: a program that starts a program.
		`trap "" TERM; sh -c "sleep 345; true" & echo ready >&9; while :; do sleep 1; done`,
	}
	kinds := []struct {
		name  string
		words func(dir, tree string) []string
	}{
		{"tap", func(_, tree string) []string { return []string{"tap", "--", "sh", "-c", tree} }},
		{"call", func(_, tree string) []string { return []string{"call", "x", "1", "--", "sh", "-c", tree} }},
		{"mcp", func(_, tree string) []string { return []string{"mcp", "tools", "--", "sh", "-c", tree} }},
		{"acp", func(_, tree string) []string { return []string{"acp", "agents", "--", "sh", "-c", tree} }},
		{"run", func(dir, tree string) []string {
			plan := fmt.Sprintf("name: p\nteam:\n  bob: {command: [sh, -c, %q], protocol: editor}\nsteps:\n  - {agent: bob, prompt: hello}\n", tree)
			if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plan), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"run", filepath.Join(dir, "plan.yaml")}
		}},
	}
	for i := range n {
		kind, tree := kinds[i%len(kinds)], trees[i/len(kinds)%len(trees)]
		dir := t.TempDir()
		held := newHold(t, dir)
		cmd := exec.CommandContext(context.Background(), program, kind.words(dir, held.script+tree)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "GORACE=atexit_sleep_ms=0")
		in, err := cmd.StdinPipe() // stays open
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr, cmd.Stdout = &stderr, &stderr
		cmd.WaitDelay = time.Minute
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !held.ready() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("%s: the child does not start:\n%s", kind.name, stderr.String())
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		_ = in.Close()
		held.awaitEmpty(kind.name)
	}
}

// A hold is a pipe that all processes of a tree have open, so that it closes when the last of them
// ends.
type hold struct {
	*testing.T
	script string // opens the pipe; precedes the command that starts the tree
	file   *os.File
	lines  *bufio.Reader
}

func newHold(t *testing.T, dir string) *hold {
	t.Helper()
	name := filepath.Join(dir, "hold")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return &hold{T: t, script: "exec 9>'" + name + "'; ", file: f, lines: bufio.NewReader(f)}
}

// ready waits for the tree.
func (h *hold) ready() bool {
	for late := time.Now().Add(60 * time.Second); time.Now().Before(late); {
		// Without a writer, EOF arrives at once.
		if line, _ := h.lines.ReadString('\n'); line == "ready\n" {
			return true
		}
	}
	return false
}

// awaitEmpty waits until no process has the pipe open.
func (h *hold) awaitEmpty(what string) {
	h.Helper()
	_ = h.file.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := h.lines.ReadString('\n'); err == nil || os.IsTimeout(err) {
		h.Errorf("%s: what parley has started is still there: %v", what, err)
	}
}

// TestKilledRecording checks that a recording whose parley is killed can be read up to its last
// whole line, that the next tap adds a session to it, also after half a line, and that the killed
// tap's children end.
func TestKilledRecording(t *testing.T) {
	t.Parallel()
	program := parleyProgram(t)
	file := filepath.Join(t.TempDir(), "session.jsonl")
	const kills = 5
	for i := range kills {
		dir := t.TempDir()
		held := newHold(t, dir)
		start := func(script string) (*exec.Cmd, io.WriteCloser, *bufio.Reader, *strings.Builder) {
			cmd := exec.CommandContext(context.Background(), program, "tap", "--record", file, "--", "sh", "-c", script)
			cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "GORACE=atexit_sleep_ms=0")
			stderr := new(strings.Builder)
			cmd.Stderr, cmd.WaitDelay = stderr, time.Minute
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			return cmd, in, bufio.NewReader(out), stderr
		}
		cmd, in, out, stderr := start(held.script + "sleep 347 & echo ready >&9; cat")
		if !held.ready() {
			_ = cmd.Process.Kill()
			t.Fatalf("the child does not start:\n%s", stderr)
		}
		// The host writes until something is in the file, goes on, and parley is killed meanwhile.
		late := time.Now().Add(time.Minute)
		for n, recorded := 0, false; !recorded; n++ {
			if time.Now().After(late) {
				t.Fatalf("nothing is recorded for 30 s:\n%s", stderr)
			}
			content, _ := os.ReadFile(file)
			recorded = strings.Contains(string(content), fmt.Sprintf(`"id":"%d-0"`, i))
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"%d-%d","method":"x","params":[%q]}`+"\n", i, n, strings.Repeat("y", n%1000)); err != nil {
				t.Fatal(err)
			}
			if _, err := out.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				t.Fatalf("%v\n%s", err, stderr)
			}
		}
		go func() {
			for n := 0; ; n++ { // until the pipe is broken
				if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":"late-%d","method":"x","params":[%q]}`+"\n", n, strings.Repeat("z", 10_000)); err != nil {
					return
				}
			}
		}()
		if _, err := out.ReadSlice('\n'); err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // it was killed
		held.awaitEmpty("tap --record")
		checkRecording(t, program, file, 2*i+1)

		// Half a line, as a process leaves it that is killed while it writes.
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"seq":99,"time":"2026-11-20T12:00:0`); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		next, in2, out2, stderr2 := start("cat") // the goroutine above still reads in
		if _, err := fmt.Fprintf(in2, `{"jsonrpc":"2.0","id":1,"method":"after-%d"}`+"\n", i); err != nil {
			t.Fatal(err)
		}
		_ = in2.Close()
		_, _ = io.Copy(io.Discard, out2)
		if err := next.Wait(); err != nil {
			t.Fatalf("the next tap: %v\n%s", err, stderr2)
		}
		checkRecording(t, program, file, 2*i+2)
		content, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(content), fmt.Sprintf("after-%d", i)) || !strings.HasSuffix(string(content), "\n") {
			t.Errorf("the next tap records nothing, or not whole lines: %v", err)
		}
	}
}

// checkRecording checks that each whole line of a session file is JSON, except halves that a kill
// left before a header, that the file has this number of sessions, and that it can be replayed.
func checkRecording(t *testing.T, program, file string, sessions int) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(content), "\n")
	headers, halves := 0, 0
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, `{"parley":"session"`):
			headers++
		case i == len(lines)-1, json.Valid([]byte(line)):
		default:
			if halves++; i+1 == len(lines) || !strings.HasPrefix(lines[i+1], `{"parley":"session"`) {
				t.Errorf("line %d is not JSON, and no session begins after it: %.200q", i+1, line)
			}
		}
	}
	if headers != sessions || halves > sessions {
		t.Errorf("%d sessions, want %d; %d halves of lines", headers, sessions, halves)
	}
	cmd := exec.CommandContext(t.Context(), program, "replay", file)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
	if stderr, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(stderr), " x ") {
		t.Errorf("parley replay: %v\n%.2000s", err, stderr)
	}
}
