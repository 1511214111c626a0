package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

// killedDemo starts a demo in a separate process, and returns its HTTP address and a function that
// kills it with SIGKILL.
func killedDemo(t *testing.T, state string) (root string, kill func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	// TestMain dispatches by this name.
	cmd.Args = []string{"parley", "demo", "--listen", "http://127.0.0.1:0", "--state", state}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	t.Cleanup(kill)
	all := ""
	for scan := bufio.NewScanner(out); scan.Scan(); {
		all += scan.Text() + "\n"
		if _, page, ok := strings.Cut(scan.Text(), "All methods are listed at "); ok {
			root, _, _ = strings.Cut(page, "/. ")
			return root, kill
		}
	}
	t.Fatalf("the demo did not come up:\n%s", all)
	return "", nil
}

// TestKilledDemoKeepsQuestions checks that a task of the demo that waits for an answer continues
// after kill -9.
func TestKilledDemoKeepsQuestions(t *testing.T) {
	t.Parallel()
	talk := func(kills bool, words ...string) *a2a.Task {
		state := t.TempDir()
		root, kill := killedDemo(t, state)
		defer func() { kill() }()
		r := &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text(words[0]))}
		var task *a2a.Task
		for i := range words {
			c, _, err := a2ahttp.Dial(t.Context(), root, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Send(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			if task = got.Task; i+1 == len(words) {
				break
			}
			if task.Status.State != a2a.StateInputRequired {
				t.Fatalf("%s: %+v", words[i], task.Status)
			}
			if kills {
				kill()
				root, kill = killedDemo(t, state)
			}
			r = &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text(words[i+1]))}
			r.Message.TaskID = task.ID
		}
		return task
	}
	for _, words := range [][]string{{"/scribe water the plants", "Yes"}, {"/scribe water the plants", "No"}, {"/ask good morning", "Ada"}} {
		want, got := talk(false, words...), talk(true, words...)
		if got.Status.State != a2a.StateCompleted || got.Status.State != want.Status.State || got.Text() != want.Text() || len(got.Artifacts) != len(want.Artifacts) || len(got.History) != len(want.History) {
			t.Errorf("%q: %s %q, want %s %q", words, got.Status.State, got.Text(), want.Status.State, want.Text())
		}
	}
}
