package orchestrator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/store/sqlite"
)

// The stored events equal the reported events, and reading them gives the same report.
func TestJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{})
		var told []Event
		r := &Runner{
			Store: s, OnEvent: func(e Event) { told = append(told, e) },
			Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo, "fails": fails, "slow": after(time.Second, "slow", nil, nil)}),
			Ask:  func(context.Context, *Question) (*agent.Answer, error) { return agent.Reply("yes"), nil },
		}
		rep, err := r.RunAs(t.Context(), "run-1", plan(t, `
name: journal
input: {topic: cats}
steps:
  - {id: a, agent: echo, prompt: "{{ input.topic }}"}
  - {id: b, agent: fails, prompt: x, optional: true, idempotent: true, retries: 1}
  - id: p
    join: any
    parallel: [{id: c, agent: slow, prompt: x}, {agent: echo, prompt: x}]
  - {id: l, times: 2, loop: [{agent: echo, prompt: x}]}
  - {id: q, ask: "Is it?"}
  - {id: z, agent: echo, prompt: x, when: "false"}
output: done
`), nil)
		if err != nil || rep.State != OK {
			t.Fatal(err, summary(rep))
		}
		info, read, err := ReadRun(t.Context(), s, "run-1")
		if err != nil {
			t.Fatal(err)
		}
		if info.State != OK || info.Plan != "journal" || info.Text != "done" || info.Ended.Before(info.Started) {
			t.Errorf("%+v", info)
		}
		read.Output = rep.Output // the stored end of a run has only its text
		if d := cmp.Diff(outline(rep), outline(read)); d != "" {
			t.Errorf("-ran +read\n%s", d)
		}
		var kinds []string
		n := uint64(0)
		for e, err := range Follow(t.Context(), s, "run-1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; e.Seq != n {
				t.Errorf("event %d has number %d", n, e.Seq)
			}
			kinds = append(kinds, e.Kind+" "+e.Path)
		}
		var want []string
		for _, e := range told {
			if kept[e.Kind] {
				want = append(want, e.Kind+" "+e.Path)
			}
		}
		if d := cmp.Diff(want, kinds); d != "" {
			t.Errorf("-told +kept\n%s", d)
		}
		all, err := Runs(t.Context(), s, "", 0)
		if err != nil || len(all) != 1 || all[0] != info {
			t.Errorf("Runs = %v, %v", all, err)
		}
		if _, _, err := ReadRun(t.Context(), s, "run-2"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("ReadRun of none: %v", err)
		}
		if _, err := r.RunAs(t.Context(), "run-1", plan(t, "steps: [{agent: echo, prompt: x}]"), nil); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a run with an id that is taken: %v", err)
		}
	})
}

// outline is the summary without the fields that only a live report has. It is sorted, because a
// log has branches in the order in which they started.
func outline(r *Report) string {
	var lines []string
	for line := range strings.Lines(summary(r)) {
		path, rest, _ := strings.Cut(line, " ")
		state, _, _ := strings.Cut(rest, " ")
		lines = append(lines, path+" "+strings.TrimSpace(state))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// A run is stored for its Keep time and then removed.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{})
		p := plan(t, "steps: [{agent: echo, prompt: x}]")
		team := local(map[string]func(context.Context, *agent.Run) error{"echo": echo})
		for _, keep := range []time.Duration{time.Hour, 0, -1} {
			r := &Runner{Store: s, Keep: keep, Team: team}
			if rep, err := r.Run(t.Context(), p, nil); err != nil || rep.State != OK {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{0, 3}, {time.Hour, 2}, {29 * 24 * time.Hour, 2}, {24 * time.Hour, 1}, {1000 * time.Hour, 1}} {
			time.Sleep(c.wait)
			infos, err := Runs(t.Context(), s, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			logs, err := s.Heads(t.Context(), "", "", 0)
			if err != nil || len(infos) != c.want || len(logs) != c.want {
				t.Errorf("after %v: %d runs, %d logs, %v; want %d", c.wait, len(infos), len(logs), err, c.want)
			}
		}
	})
}

// A step is stored before it is called, and its result before it is used.
func TestWrittenBeforeUsed(t *testing.T) {
	s := store.NewMemory(store.Limits{})
	var id string
	check := func(want string) func(context.Context, *agent.Run) error {
		return func(ctx context.Context, r *agent.Run) error {
			var last string
			for e, err := range events(s.Read(ctx, logKey(id), 0)) {
				if err != nil {
					return err
				}
				last += e.Kind + " " + e.Path + ", "
			}
			if last != want {
				return agent.Errorf("%q, want %q", last, want)
			}
			return nil
		}
	}
	id = NewID()
	r := &Runner{Store: s, Team: local(map[string]func(context.Context, *agent.Run) error{
		"one": check("run_started , started a, "), "two": check("run_started , started a, ended a, started b, "),
	})}
	rep, err := r.RunAs(t.Context(), id, plan(t, "steps: [{id: a, agent: one, prompt: x}, {id: b, agent: two, prompt: x}]"), nil)
	if err != nil || rep.State != OK {
		t.Fatal(err, summary(rep))
	}
}

// A store that fails during a run ends the run with an error. If the store is only full, the run
// waits for space.
func TestStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			fault *store.Fault
			state State
			took  time.Duration
		}{
			{&store.Fault{Reason: store.ReasonFailed, Err: errors.New("disk on fire")}, Failed, 0},
			{&store.Fault{Reason: store.ReasonFull, Err: errors.New("full")}, OK, 5 * time.Second},
		} {
			f := &failing{Store: store.NewMemory(store.Limits{}), from: 4, times: 5, fault: c.fault}
			var complaints bytes.Buffer
			r := &Runner{
				Store: f, Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo}),
				Report: func(what string, err error) { fmt.Fprintln(&complaints, what, err) },
			}
			begun := time.Now()
			rep, err := r.Run(t.Context(), plan(t, "steps: [{id: a, agent: echo, prompt: x}, {id: b, agent: echo, prompt: x}]"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if (rep.State == OK) != (c.state == OK) || time.Since(begun) != c.took {
				t.Errorf("%v: after %v\n%s%s", c.fault, time.Since(begun), summary(rep), &complaints)
			}
			if rep.State != OK && (rep.Error.Kind != KindStorage && !strings.Contains(rep.Error.Text, "cannot store the run")) {
				t.Errorf("%v: %s", c.fault, summary(rep))
			}
		}
	})
}

type failing struct {
	store.Store
	from, times int
	fault       error
	n           int
}

func (f *failing) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	if f.n++; f.n >= f.from && f.n < f.from+f.times {
		return 0, f.fault
	}
	return f.Store.Append(ctx, key, after, events...)
}

// A run that another process has taken over ends in this one.
func TestTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store.NewMemory(store.Limits{})
		r := &Runner{Store: s, Team: local(map[string]func(context.Context, *agent.Run) error{"never": never})}
		time.AfterFunc(time.Second, func() {
			if _, err := s.Put(t.Context(), leaseKey("run"), store.Any, []byte("2"), time.Hour); err != nil {
				t.Error(err)
			}
		})
		begun := time.Now()
		rep, err := r.RunAs(t.Context(), "run", plan(t, "steps: [{agent: never, prompt: x}]"), nil)
		if err != nil || rep.State != Cancelled || time.Since(begun) != leaseEvery {
			t.Errorf("%v after %v\n%s", err, time.Since(begun), summary(rep))
		}
	})
}

func init() { children["runs"] = runForEver }

var children = map[string]func(dir string) error{}

const childEnv = "PARLEY_ORCHESTRATOR_CHILD"

// runForEver is the child process that is killed: it runs plan after plan and prints the reported
// events.
func runForEver(dir string) error {
	s, err := sqlite.Open(dir, nil)
	if err != nil {
		return err
	}
	p, err := ParsePlan("", []byte(`
steps:
  - {id: a, agent: echo, prompt: x}
  - {id: p, parallel: [{id: b, agent: echo, prompt: x}, {id: c, agent: echo, prompt: x}]}
  - {id: m, map: "[1, 2, 3]", do: [{agent: echo, prompt: x}]}
`))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	r := &Runner{Store: s, Team: local(map[string]func(context.Context, *agent.Run) error{"echo": echo}), OnEvent: func(e Event) {
		if kept[e.Kind] {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(e.Run, e.Seq, e.Kind)
		}
	}}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			for errs[i] == nil {
				_, errs[i] = r.Run(context.Background(), p, nil)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// A process that is killed during runs must not lose a run or an event that it reported.
// PARLEY_KILLS is the number of kills; the default is 3.
func TestKill(t *testing.T) {
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv("PARLEY_KILLS")); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	told, ended := map[string]uint64{}, map[string]bool{}
	interrupted := 0
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], dir)
		cmd.Env = append(os.Environ(), childEnv+"=runs")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			var id, what string
			var seq uint64
			if _, err := fmt.Sscan(lines.Text(), &id, &seq, &what); err != nil {
				t.Fatal(lines.Text(), err)
			}
			told[id] = seq
			ended[id] = what == EventRunEnded
			if n == 50+37*round {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		interrupted = checkRuns(t, dir, told, ended)
	}
	t.Logf("%d kills, %d runs, %d of them interrupted, none lost", rounds, len(told), interrupted)
}

func checkRuns(t *testing.T, dir string, told map[string]uint64, ended map[string]bool) (interrupted int) {
	t.Helper()
	s, err := sqlite.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for id, seq := range told {
		h, err := s.Head(t.Context(), logKey(id))
		if err != nil || h.Last < seq {
			t.Errorf("run %s: %d events were told, %d are there, %v", id, seq, h.Last, err)
		}
		info, rep, err := ReadRun(t.Context(), s, id)
		if err != nil {
			t.Fatal(err)
		}
		if ended[id] && rep.State != OK {
			t.Errorf("run %s was told to be done, and is %s", id, rep.State)
		}
		if info.State != OK {
			interrupted++
		}
	}
	listed, after := map[string]bool{}, ""
	for {
		page, err := Runs(t.Context(), s, after, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, info := range page {
			listed[info.ID], after = true, info.ID
		}
	}
	for id := range told {
		if !listed[id] {
			t.Errorf("run %s is not listed", id)
		}
	}
	return interrupted
}
