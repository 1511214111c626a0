package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// TestRunScripts runs testdata/run/*.txtar, each with its own demo: "plan" copies a plan of
// examples/plans into the script's folder, "address" points files of the script to the demo, whose
// web address is in $HOST, and "spoil" changes bytes of a file.
func TestRunScripts(t *testing.T) {
	t.Parallel()
	const dir = "testdata/run"
	if scripts, err := filepath.Glob(dir + "/*.txtar"); err != nil || len(scripts) == 0 {
		t.Fatalf("there are no scripts: %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			if err := startDemo(nil, env.Setenv, env.Defer, env.T().Fatal); err != nil {
				return err
			}
			env.Setenv("HOST", strings.TrimSuffix(env.Getenv("HTTP"), "/rpc"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"saved": saved,
			"exits": exits,
			"plan": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, name := range args {
					text, err := os.ReadFile(filepath.Join("../../examples/plans", name))
					ts.Check(err)
					ts.Check(os.WriteFile(ts.MkAbs(name), toDemo(text, ts.Getenv("HTTP")), 0o600))
				}
			},
			// FILE OLD NEW: replaces once, like a disk error.
			"spoil": func(ts *testscript.TestScript, _ bool, args []string) {
				text := ts.ReadFile(args[0])
				if len(args[1]) != len(args[2]) || !strings.Contains(text, args[1]) {
					ts.Fatalf("%s has no %s", args[0], args[1])
				}
				ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, args[1], args[2], 1)), 0o600))
			},
			"address": func(ts *testscript.TestScript, _ bool, args []string) {
				for _, name := range args {
					ts.Check(os.WriteFile(ts.MkAbs(name), toDemo([]byte(ts.ReadFile(name)), ts.Getenv("HTTP")), 0o600))
				}
			},
		},
	})
}

// toDemo replaces the demo's default address in text by the actual one, given as the address of its
// methods.
func toDemo(text []byte, methods string) []byte {
	host := strings.TrimSuffix(strings.TrimPrefix(methods, "http://"), "/rpc")
	return bytes.ReplaceAll(text, []byte("127.0.0.1:3000"), []byte(host))
}

// demoFor starts a demo for a test and returns its environment.
func demoFor(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	if err := startDemo(nil, func(name, value string) { env[name] = value }, t.Cleanup, t.Error); err != nil {
		t.Fatal(err)
	}
	return env
}

func writePlan(t *testing.T, methods, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(file, toDemo([]byte(text), methods), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// busyPlan takes long enough to be killed in the middle.
const busyPlan = `
name: busy
team: {calc: {target: "http://127.0.0.1:3000/rpc", protocol: jsonrpc}}
steps:
  - id: each
    times: 300
    loop:
      - id: two
        parallel:
          - {id: a, call: calc/add, args: [1, "{{ loop.index }}"]}
          - {id: b, call: calc/add, args: [2, "{{ loop.index }}"]}
`

// TestKilledRunIsKept repeatedly kills runs in one folder with SIGKILL. It checks that every
// printed event is stored byte for byte, that the run is listed as interrupted, and that earlier
// runs are unchanged. PARLEY_KILLS=20 repeats it 20 times.
func TestKilledRunIsKept(t *testing.T) {
	kills := 4
	if n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS")); err == nil {
		kills = n
	}
	methods := demoFor(t)["HTTP"]
	plan, state := writePlan(t, methods, busyPlan), t.TempDir()
	told := map[string][]string{} // the acknowledged events by run
	for i := range kills {
		id, lines := killedAfter(t, 3+37*i%400, plan, state)
		if told[id] != nil {
			t.Fatalf("two runs are called %s", id)
		}
		told[id] = lines
		keptAsTold(t, state, told)
	}
}

// killedAfter runs a plan, kills it after it has printed the given number of events, and returns
// its ID and its output.
func killedAfter(t *testing.T, events int, plan, state string) (id string, lines []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	// TestMain dispatches by this name.
	cmd.Args = []string{"parley", "run", plan, "--state", state, "-o", "ndjson"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for scan := bufio.NewScanner(out); scan.Scan(); {
		// The last line may be incomplete.
		if strings.HasPrefix(scan.Text(), `{"seq":`) && strings.HasSuffix(scan.Text(), "}") {
			lines = append(lines, scan.Text())
		}
		if len(lines) == events {
			_ = cmd.Process.Kill() // the output written before is still read to the end
		}
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Success() || len(lines) < events {
		t.Fatalf("the run ended by itself after %d events: %v\n%s", len(lines), err, &stderr)
	}
	var first orchestrator.Event
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
		t.Fatal(err)
	}
	return first.Run, lines
}

// keptAsTold checks that a folder contains every run and every printed event.
func keptAsTold(t *testing.T, state string, told map[string][]string) {
	t.Helper()
	a := &app{stderr: io.Discard}
	all, broken, err := a.storedRuns(t.Context(), state)
	if err != nil || broken != nil {
		t.Fatal(err, broken)
	}
	listed := map[string]orchestrator.State{}
	stores := map[string]*sqlite.Store{}
	for _, run := range all {
		listed[run.ID] = run.State
		s, err := run.open(a)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores[run.ID] = s
	}
	for id, lines := range told {
		if listed[id] != orchestrator.Interrupted {
			t.Errorf("%s is listed as %q", id, listed[id])
		}
		var kept []string
		for e, err := range orchestrator.Events(t.Context(), stores[id], id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			kept = append(kept, string(b))
		}
		if len(kept) < len(lines) {
			t.Errorf("of %d events of %s that were told, %d are kept", len(lines), id, len(kept))
			continue
		}
		if diff := cmp.Diff(lines, kept[:len(lines)]); diff != "" {
			t.Errorf("events of %s, told and kept:\n%s", id, diff)
		}
	}
	if len(listed) != len(told) {
		t.Errorf("%d runs are listed, %d were begun", len(listed), len(told))
	}
}

// TestInterruptedRunReports checks that Ctrl-C cancels the running steps remotely, and that the
// report is still printed.
func TestInterruptedRunReports(t *testing.T) {
	methods := demoFor(t)["HTTP"]
	plan := writePlan(t, methods, `
team: {slow: {target: "http://127.0.0.1:3000/acp", protocol: acp, agent: slow}}
steps:
  - {id: late, agent: slow, prompt: 100 steps of 1s}
`)
	ctx, cancel := context.WithCancelCause(t.Context())
	stdout := &watcher{want: `"kind":"progress"`, seen: make(chan struct{})}
	go func() {
		<-stdout.seen
		cancel(errInterrupted)
	}()
	var stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: stdout, stderr: &stderr, getenv: func(string) string { return "" }}
	if code := a.main(ctx, []string{"run", plan, "--state", "none", "-o", "ndjson"}); code != exitCancelled {
		t.Errorf("exit code %d, want %d", code, exitCancelled)
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var ended, last orchestrator.Event
	for i, to := range []*orchestrator.Event{&ended, &last} {
		if err := json.Unmarshal([]byte(lines[len(lines)-2+i]), to); err != nil {
			t.Fatal(err)
		}
	}
	if ended.Path != "late" || ended.Report.State != orchestrator.Cancelled || ended.Report.Remote == "" || last.Report.State != orchestrator.Cancelled {
		t.Errorf("it ends with\n%s", strings.Join(lines[len(lines)-2:], "\n"))
	}
	if got := stderr.String(); got != "parley: interrupted; the running steps were cancelled at the agents\n" {
		t.Errorf("stderr is %q", got)
	}
	// The agent received the cancellation, and its run has ended.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(methods, "/rpc")+"/acp/runs/"+ended.Report.Remote, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), `"status":"cancelled"`) {
		t.Errorf("at the agent the run is %s, %v", body, err)
	}
}
