// Package orchestrator_test runs plans with a team of agents of other projects: the echo of
// a2a-go's command, and an agent based on @agentclientprotocol/sdk in a child process. Our own
// agents complete the team to five protocols.
package orchestrator_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	"github.com/da1ed7bb/parley/agent/editoragent"
	"github.com/da1ed7bb/parley/agent/mcpagent"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/orchestrator"
	"github.com/da1ed7bb/parley/store/sqlite"
	"github.com/da1ed7bb/parley/transport/stdio"
)

const victim = "PARLEY_INTEROP_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" { // this binary again, as an agent that exits on request
		a := &agent.Agent{Card: agent.Card{Name: "victim", Description: "Dies."}, Run: func(context.Context, *agent.Run) error {
			return errors.Join(kill(os.Getpid()), errors.New("still there"))
		}}
		if err := editoragent.New(a, nil).Serve(context.Background(), stdio.New(nil)); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return errors.Join(p.Kill(), p.Release())
}

// echo returns an agent of ours.
func echo(name string) *agent.Agent {
	return &agent.Agent{Card: agent.Card{Name: name, Description: "Says it again."}, Run: func(ctx context.Context, r *agent.Run) error {
		return r.Say(ctx, r.Text())
	}}
}

// a2aEcho starts `a2a serve --echo` and returns its address.
func a2aEcho(t *testing.T) string {
	t.Helper()
	program := harness.GoTool(t, "a2a")
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := harness.Command(t.Context(), t, []string{program, "serve", "--echo", "--transport", "jsonrpc", "--port", fmt.Sprint(port)})
	harness.KeepStderr(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's context is canceled by then
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			_ = c.Close()
			return fmt.Sprint("http://127.0.0.1:", port)
		}
		if time.Now().After(deadline) {
			t.Fatal("a2a serve does not listen: ", err)
		}
		runtime.Gosched()
	}
}

// A peerLog counts the messages of the JavaScript agent on stderr.
type peerLog struct {
	mu      sync.Mutex // guards the fields below
	lines   map[string]int
	changed chan struct{}
}

func (l *peerLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines[line]++
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *peerLog) count(line string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[line]
}

func (l *peerLog) wait(t *testing.T, line string, times int) {
	t.Helper()
	timeout := time.After(60 * time.Second)
	for {
		l.mu.Lock()
		n, changed := l.lines[line], l.changed
		l.mu.Unlock()
		if n >= times {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Errorf("the agent said %q %d times, want %d", line, n, times)
			return
		}
	}
}

// team returns a team of five agents in five protocols.
func team(t *testing.T, log *peerLog) *orchestrator.Team {
	t.Helper()
	harness.Need(t, "@agentclientprotocol/sdk", filepath.Join("..", "editor", "node", "node_modules", "@agentclientprotocol", "sdk"))
	ibm := acp.NewServer(nil)
	t.Cleanup(func() { _ = ibm.Close() })
	ibm.Add(acpagent.New(echo("ibm")))
	rest, err := acphttp.NewREST(ibm, nil)
	if err != nil {
		t.Fatal(err)
	}
	acpWeb := httptest.NewServer(rest)
	t.Cleanup(acpWeb.Close)

	tools := mcp.NewServer(mcp.Implementation{Name: "tools", Version: "1"}, nil)
	t.Cleanup(tools.Close)
	agents := mcpagent.Add(tools, echo("tool"))
	t.Cleanup(agents.Close)
	overHTTP := mcphttp.NewHandler(tools, nil)
	t.Cleanup(func() { _ = overHTTP.Close() })
	mcpWeb := httptest.NewServer(overHTTP)
	t.Cleanup(mcpWeb.Close)

	demo := harness.Demo(t, "tcp://127.0.0.1:0")
	script, err := filepath.Abs("agent.mjs")
	if err != nil {
		t.Fatal(err)
	}
	crew, err := orchestrator.Dial(t.Context(), map[string]orchestrator.Member{
		"ibm":    {Target: acpWeb.URL, Protocol: "acp"},
		"go":     {Target: a2aEcho(t), Protocol: "a2a"},
		"js":     {Command: []string{"node", script}, Protocol: "editor"},
		"tools":  {Target: mcpWeb.URL, Protocol: "mcp"},
		"parley": {Target: demo[0], Protocol: "jsonrpc"},
	}, &orchestrator.DialOptions{
		Stderr: func(_, line string) { log.add(line) },
		Report: func(what string, err error) { t.Error(what, err) },
		Dialer: &parley.Dialer{Limits: jsonrpc.Limits{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return crew
}

const work = `
name: five protocols
deadline: 1m
steps:
  - id: all
    join: collect
    parallel:
      - id: vote
        join: quorum 3
        agree: true
        parallel:
          - {id: slow, agent: js, prompt: wait}
          - {id: ibm, agent: ibm, prompt: cats, after: []}
          - {id: go, agent: go, prompt: cats}
          - {id: tools, agent: tools, prompt: cats}
      - {id: permission, agent: js, prompt: "may I?"}
      - {id: dead, agent: victim, prompt: die}
      - {id: number, call: parley/subtract, args: [42, 23]}
output: "{{ all.results.vote }} {{ all.results.permission }} {{ all.results.number }} {{ all.results.dead.state }}"
`

// TestFiftyPlans runs fifty concurrent plans with five agents in five protocols, two of them of
// other projects: a quorum, a slow loser that is cancelled on the wire, a question with human
// input, an agent that is killed. All events are recorded, and no resources leak.
func TestFiftyPlans(t *testing.T) {
	const runs = 50
	children(t) // opens what the runtime opens once, for networks and processes
	if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil || l.Close() != nil {
		t.Fatal(err)
	}
	files := openFiles(t)
	t.Cleanup(func() { // runs last
		goleak.VerifyNone(t)
		if now := openFiles(t); now > files {
			t.Errorf("%d files are open, %d were before:\n%s", now, files, openNames())
		}
	})
	log := &peerLog{lines: map[string]int{}, changed: make(chan struct{})}
	crew := team(t, log)
	plan, err := orchestrator.ParsePlan("work.yaml", []byte(work))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := sqlite.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		asked   int
		reports []*orchestrator.Report
	)
	begun := time.Now()
	for range runs {
		wg.Go(func() {
			own, err := orchestrator.Dial(t.Context(), map[string]orchestrator.Member{
				"victim": {Command: []string{os.Args[0]}, Protocol: "editor", Env: []string{victim + "=1"}},
			}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer own.Close()
			all := &orchestrator.Team{}
			for _, name := range crew.Names() {
				all.Add(name, crew.Worker(name))
			}
			all.Add("victim", own.Worker("victim"))
			r := &orchestrator.Runner{Team: all, Store: kept, Ask: func(_ context.Context, q *orchestrator.Question) (*agent.Answer, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				if len(q.Options) != 2 || q.Path != "all/permission" {
					t.Errorf("%+v", q)
				}
				return agent.Choose("y"), nil
			}}
			report, err := r.Run(t.Context(), plan, nil)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, report)
		})
	}
	wg.Wait()
	took := time.Since(begun)
	log.wait(t, "cancelled", log.count("waiting"))
	bad := 0
	for _, r := range reports {
		if r.State != orchestrator.OK || r.Text() != "cats I may 19 failed" ||
			r.Find("all/vote/slow").State != orchestrator.Cancelled || r.Find("all/dead").Error.Kind != orchestrator.KindUnreachable {
			if bad++; bad == 1 {
				t.Errorf("%s %q %v; slow %s, dead %v", r.State, r.Text(), r.Error, r.Find("all/vote/slow").State, r.Find("all/dead").Error)
				for _, s := range append(r.Steps[0].Steps, r.Find("all/vote").Steps...) {
					t.Logf("%s %s %d ms %q %v", s.Path, s.State, s.Ms, s.Text(), s.Error)
				}
			}
		}
	}
	if bad > 0 || len(reports) != runs || asked != runs {
		t.Errorf("%d of %d runs are wrong, %d questions", bad, len(reports), asked)
	}
	listed, err := orchestrator.Runs(t.Context(), kept, "", 0)
	if err != nil || len(listed) != runs {
		t.Errorf("%d runs are listed, %v", len(listed), err)
	}
	t.Logf("%d plans at once in %v; the slow one was begun %d times and cancelled %d times", runs, took, log.count("waiting"), log.count("cancelled"))
	if err := errors.Join(kept.Close(), crew.Close()); err != nil {
		t.Error(err)
	}
	if left := children(t); left != "" {
		t.Errorf("processes are left:\n%s", left)
	}
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func openNames() string {
	var b strings.Builder
	entries, _ := os.ReadDir("/proc/self/fd") // used only in a message
	for _, e := range entries {
		name, _ := os.Readlink("/proc/self/fd/" + e.Name()) // it may be closed
		fmt.Fprintln(&b, e.Name(), name)
	}
	return b.String()
}

// children lists the victims and Node programs that this process has started and not waited for.
func children(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "ppid=,stat=,args=", "-A").Output()
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && fields[0] == fmt.Sprint(os.Getpid()) && (strings.Contains(lines.Text(), "agent.mjs") || fields[2] == os.Args[0]) {
			left = append(left, lines.Text())
		}
	}
	return strings.Join(left, "\n")
}
