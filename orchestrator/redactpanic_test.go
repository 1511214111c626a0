package orchestrator

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/store"
)

// TestTheNameOfAPlanIsRedacted: the name of a plan is redacted in every stored value.
func TestTheNameOfAPlanIsRedacted(t *testing.T) {
	s := store.NewMemory(store.Limits{})
	defer s.Close()
	p := plan(t, "name: the canary plan\nsteps: [{agent: a, prompt: x}]")
	team := new(Team)
	team.Add("a", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "a"}, Run: echo})})
	r := &Runner{Team: team, Store: s, Redact: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("canary"), []byte("[gone]")) }}
	if _, err := r.RunAs(t.Context(), "one", p, nil); err != nil {
		t.Fatal(err)
	}
	names := 0
	for e, err := range Events(t.Context(), s, "one", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(e.Plan, "canary") {
			t.Errorf("the event %s has the name %q", e.Kind, e.Plan)
		}
		if e.Plan == "the [gone] plan" {
			names++
		}
	}
	if info, _, err := ReadRun(t.Context(), s, "one"); err != nil || info.Plan != "the [gone] plan" || names != 1 {
		t.Errorf("the run is %+v, %v, with %d names in its events", info, err, names)
	}
}

// TestABranchThatPanics: a branch on whose goroutine a function of the user panics has failed, with
// its path and its kind, in the report and in the store; the branches that wait for it are skipped.
func TestABranchThatPanics(t *testing.T) {
	long := strings.Repeat("why? ", 100)
	for name, c := range map[string]struct{ text, path, kind, others string }{
		"parallel": {"steps: [{id: p, parallel: [{id: b, agent: a, prompt: x}, {id: c, after: [b], agent: e, prompt: x}, {id: d, agent: e, prompt: x}], join: collect}]",
			"p/b", "agent", "p/c skipped, p/d ok"},
		"map": {`steps: [{id: m, map: '["x", "y"]', do: [{id: b, agent: a, prompt: x}], join: collect}]`, "m/1", "steps", "m/2 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMemory(store.Limits{})
			defer s.Close()
			team := new(Team)
			// a gets no answer, and its question is longer than what an error shows of it
			team.Add("a", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "a"}, Run: func(ctx context.Context, r *agent.Run) error {
				_, err := r.Ask(ctx, &agent.Question{Text: long})
				return err
			}})})
			team.Add("e", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "e"}, Run: echo})})
			r := &Runner{Team: team, Store: s, Report: func(string, error) {}, Redact: func(b []byte) []byte {
				if strings.Contains(string(b), "why?") {
					panic("in Redact")
				}
				return b
			}}
			report, err := r.RunAs(t.Context(), "one", plan(t, c.text), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, stored, err := ReadRun(t.Context(), s, "one")
			if err != nil {
				t.Fatal(err)
			}
			for _, rep := range []*Report{report, stored} {
				b := rep.Find(c.path)
				if b == nil || b.State != Failed || b.Kind != c.kind || b.Error == nil || b.Error.Text != "it panicked" || b.Started.IsZero() {
					t.Errorf("the branch is %+v", b)
				}
				for _, other := range strings.Split(c.others, ", ") {
					path, state, _ := strings.Cut(other, " ")
					if o := rep.Find(path); o == nil || string(o.State) != state {
						t.Errorf("%s is %+v, want %s", path, o, state)
					}
				}
			}
		})
	}
}

// TestAnAgentKeepsTheOptionsOfItsRunner: a plan that is served as an agent has the redaction and
// the bounds of its Runner.
func TestAnAgentKeepsTheOptionsOfItsRunner(t *testing.T) {
	s := store.NewMemory(store.Limits{})
	defer s.Close()
	team := new(Team)
	team.Add("a", &Worker{Agents: agent.Local(&agent.Agent{Card: agent.Card{Name: "a"}, Run: echo})})
	r := &Runner{Team: team, Store: s, Keep: time.Hour, Bounds: Bounds{Steps: 1}, Redact: func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte("canary"), []byte("[gone]"))
	}}
	served := new(Team)
	served.Add("one", &Worker{Agents: agent.Local(r.Agent(agent.Card{Name: "one"}, plan(t, "steps: [{agent: a, prompt: the canary}]")))})
	served.Add("two", &Worker{Agents: agent.Local(r.Agent(agent.Card{Name: "two"}, plan(t, "steps: [{agent: a, prompt: x}, {agent: a, prompt: y}]")))})
	outer := &Runner{Team: served}
	report, err := outer.Run(t.Context(), plan(t, "steps: [{id: p, join: collect, parallel: [{id: one, agent: one, prompt: x}, {id: two, agent: two, prompt: x}]}]"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if one, two := report.Steps[0].Steps[0], report.Steps[0].Steps[1]; one.State != OK || two.State == OK {
		t.Errorf("a plan of one step is %s, one of two is %s; want only the first within the bound of one", one.State, two.State)
	}
	runs := 0
	for after := ""; ; {
		heads, err := s.Heads(t.Context(), "", after, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(heads) == 0 {
			break
		}
		for _, head := range heads {
			after = head.Key
			runs++
			for e, err := range s.Read(t.Context(), head.Key, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Contains(e.Data, []byte("canary")) {
					t.Errorf("stored is %s", e.Data)
				}
			}
		}
	}
	if runs != 2 {
		t.Errorf("%d runs are stored, want 2", runs)
	}
}
