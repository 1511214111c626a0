package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"parley": main})
}

// TestScripts runs testdata/*.txtar. Each script has a demo of its own, whose addresses are in $HTTP, $WS, $TCP and $UNIX.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               startDemo,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits runs a command that must end with the exit code: exits 2 parley call
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND …")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// startTime bounds how long a demo may take to come up.
const startTime = 20 * time.Second

// startDemo runs a demo in this process until the script ends, and puts its addresses into the environment.
func startDemo(env *testscript.Env) error {
	socket := filepath.Join(env.WorkDir, ".demo.sock")
	if len(socket) > 100 { // the system takes no longer path
		dir, err := os.MkdirTemp("", "parley")
		if err != nil {
			return err
		}
		env.Defer(func() { _ = os.RemoveAll(dir) })
		socket = filepath.Join(dir, "s")
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	said, stderr := io.Pipe()
	done := make(chan int, 1)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: stderr, getenv: func(string) string { return "" }}
		done <- a.main(ctx, []string{"demo", "--listen", "http://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0", "--listen", "unix:" + socket})
		_ = stderr.Close()
	}()
	env.Defer(func() {
		cancel(errInterrupted)
		if code := <-done; code != 0 {
			panic("the demo ends with an exit code")
		}
	})
	time.AfterFunc(startTime, func() { cancel(errInterrupted) })

	lines := bufio.NewScanner(said)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		for i, word := range words {
			if i > 0 && words[i-1] == "call" {
				scheme, _, _ := strings.Cut(word, ":")
				env.Setenv(strings.ToUpper(scheme), word)
			}
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, said) }() // ends with the demo
	return lines.Err()
}
