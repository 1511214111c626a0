package orchestrator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/store"
)

// A countingStore counts writes of events.
type countingStore struct {
	store.Store
	mu     sync.Mutex
	writes int
	slow   time.Duration
}

func (s *countingStore) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	s.mu.Lock()
	s.writes++
	s.mu.Unlock()
	if s.slow > 0 {
		time.Sleep(s.slow) // in a synctest bubble
	}
	return s.Store.Append(ctx, key, after, events...)
}

func saysAlways(text string) func(context.Context, *agent.Run) error {
	return func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, text) }
}

// Events that occur at the same time are stored together, in the order in which they are reported,
// with consecutive numbers.
func TestEventsAreStoredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countingStore{Store: store.NewMemory(store.Limits{}), slow: time.Millisecond}
		defer s.Close()
		var told []Event
		r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"a": saysAlways("x")}), Store: s, OnEvent: func(e Event) { told = append(told, e) }}
		plan, err := ParsePlan("p", []byte("input: {l: {}}\nsteps: [{id: m, map: \"{{ input.l }}\", limit: 64, do: [{agent: a, prompt: x}]}]"))
		if err != nil {
			t.Fatal(err)
		}
		id := NewID()
		report, err := r.RunAs(t.Context(), id, plan, map[string]any{"l": make([]int, 640)})
		if err != nil || report.State != OK {
			t.Fatal(report, err)
		}
		seq := uint64(0)
		for _, e := range told {
			if e.Seq == 0 {
				continue
			}
			if seq++; e.Seq != seq {
				t.Fatalf("event %d is told as number %d", e.Seq, seq)
			}
		}
		n := uint64(0)
		for e, err := range Events(t.Context(), s, id, 0) {
			if n++; err != nil || e.Seq != n {
				t.Fatal(e, err)
			}
		}
		if n != seq || n < 1280 || s.writes > 200 {
			t.Errorf("%d events told, %d stored, in %d writes", seq, n, s.writes)
		}
	})
}

// A run that reaches a bound ends as failed, and the error names the bound. The same holds for a
// run whose store is full, and its end is still stored.
func TestBoundsOfARun(t *testing.T) {
	list := make([]int, 300)
	nested := "input: {l: {}}\nsteps: [{id: m, map: \"{{ input.l }}\", do: [{map: \"{{ input.l }}\", do: [{agent: a, prompt: x}]}]}]"
	flat := "input: {l: {}}\nsteps: [{id: m, map: \"{{ input.l }}\", join: collect, do: [{agent: a, prompt: x, optional: true}]}]"
	for _, one := range []struct {
		name, plan string
		bounds     Bounds
		limits     store.Limits
		want       string
	}{
		{"steps", nested, Bounds{Steps: 5000}, store.Limits{}, "bounds: a run can have at most 5000 steps"},
		{"steps of loops", "input: {l: {}}\nsteps: [{loop: [{loop: [{agent: a, prompt: x}], times: 1000}], times: 1000}]", Bounds{Steps: 500}, store.Limits{}, "bounds: a run can have at most 500 steps"},
		{"calls", flat, Bounds{Calls: 20}, store.Limits{}, "bounds: a run can have at most 20 calls"},
		{"events", flat, Bounds{Events: 50}, store.Limits{}, "bounds: a run can have at most 50 events"},
		{"bytes", flat, Bounds{Bytes: 1000}, store.Limits{}, "bounds: a run can have at most 1000 bytes of output"},
		{"events of the store", flat, Bounds{}, store.Limits{LogEvents: 100}, "storage: cannot store the run: store: more than 100 events of one log"},
		{"bytes of the store", flat, Bounds{}, store.Limits{LogBytes: 20_000}, "storage: cannot store the run: store: more than 20000 bytes of one log"},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := store.NewMemory(one.limits)
			defer s.Close()
			plan, err := ParsePlan("p", []byte(one.plan))
			if err != nil {
				t.Fatal(err)
			}
			r := &Runner{Team: local(map[string]func(context.Context, *agent.Run) error{"a": saysAlways(strings.Repeat("x", 100))}), Store: s, Bounds: one.bounds,
				Report: func(what string, err error) { t.Error(what, err) }}
			id := NewID()
			report, err := r.RunAs(t.Context(), id, plan, map[string]any{"l": list})
			if err != nil || report.State != Failed || fmt.Sprint(report.Error) != one.want {
				t.Fatalf("%v %v, %v", report.State, report.Error, err)
			}
			info, kept, err := ReadRun(t.Context(), s, id)
			if err != nil || info.State != Failed || info.Text != one.want || kept.State != Failed || fmt.Sprint(kept.Error) != one.want {
				t.Errorf("stored: %+v %+v, %v", info, kept, err)
			}
			last := Event{}
			for e, err := range Follow(t.Context(), s, id, 0) {
				if last = e; err != nil {
					t.Fatal(err)
				}
			}
			if last.Kind != EventRunEnded {
				t.Errorf("the last event is %s", last.Kind)
			}
		})
	}
}

// Waiting for the user counts towards the timeout of an ask step, whether the plan or the step sets
// it.
func TestTimeOfQuestions(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"steps: [{id: q, ask: sure?, timeout: 1s}]":                   time.Second,
		"deadline: 3s\nsteps: [{id: q, ask: sure?}]":                  3 * time.Second,
		"deadline: 3s\nsteps: [{id: q, ask: sure?, timeout: 5s}]":     3 * time.Second,
		"steps: [{id: g, timeout: 2s, steps: [{id: q, ask: sure?}]}]": 2 * time.Second,
		"steps: [{id: q, ask: sure?}]":                                time.Hour,
	} {
		synctest.Test(t, func(t *testing.T) {
			plan, err := ParsePlan("p", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			report, err := (&Runner{Ask: func(ctx context.Context, _ *Question) (*agent.Answer, error) {
				select {
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				case <-time.After(time.Hour):
					return agent.Reply("yes"), nil
				}
			}}).Run(t.Context(), plan, nil)
			state := TimedOut
			if want == time.Hour {
				state = OK
			}
			if took := time.Since(begun); err != nil || report.State != state || took < want || took > want+time.Second {
				t.Errorf("%s: %v %v after %v, %v", text, report.State, report.Error, took, err)
			}
		})
	}
}
