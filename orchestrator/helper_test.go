package orchestrator

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
)

// local makes a team of functions.
func local(runs map[string]func(ctx context.Context, r *agent.Run) error) *Team {
	t := &Team{}
	for name, run := range runs {
		t.Add(name, &Worker{Agents: agent.Local(&agent.Agent{
			Card: agent.Card{Name: name, Description: name, Skills: []agent.Skill{{ID: "be-" + name, Name: name, Tags: []string{"any"}}}},
			Run:  run,
		})})
	}
	return t
}

func says(text string) func(context.Context, *agent.Run) error {
	return func(ctx context.Context, r *agent.Run) error { return r.Say(ctx, text) }
}

// after returns an agent that outputs text after d. If it is cancelled first, it records that in
// cancelled.
func after(d time.Duration, text string, cancelled *[]string, mu *sync.Mutex) func(context.Context, *agent.Run) error {
	return func(ctx context.Context, r *agent.Run) error {
		select {
		case <-time.After(d):
			return r.Say(ctx, text)
		case <-ctx.Done():
			if mu != nil {
				mu.Lock()
				*cancelled = append(*cancelled, text)
				mu.Unlock()
			}
			return ctx.Err()
		}
	}
}

func echo(ctx context.Context, r *agent.Run) error { return r.Say(ctx, r.Text()) }

func fails(ctx context.Context, r *agent.Run) error { return agent.Errorf("no luck") }

func never(ctx context.Context, r *agent.Run) error {
	<-ctx.Done()
	return ctx.Err()
}

func plan(t *testing.T, text string) *Plan {
	t.Helper()
	p, err := ParsePlan("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// summary returns a report as text, one line per step.
func summary(r *Report) string {
	var b strings.Builder
	var one func(r *Report)
	one = func(r *Report) {
		fmt.Fprintf(&b, "%s %s", or(r.Path, "plan"), r.State)
		if len(r.Steps) == 0 && r.State == OK {
			fmt.Fprintf(&b, " %q", r.Text())
		}
		if r.Error != nil {
			fmt.Fprintf(&b, " (%v)", r.Error)
		}
		b.WriteByte('\n')
		for _, s := range r.Steps {
			one(s)
		}
	}
	one(r)
	return b.String()
}

// do runs a plan in a synctest bubble and compares the summary and the duration.
func do(t *testing.T, r *Runner, text string, input map[string]any, took time.Duration, want string) *Report {
	t.Helper()
	begun := time.Now()
	rep, err := r.Run(t.Context(), plan(t, text), input)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.TrimLeft(want, "\n"), summary(rep)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	if got := time.Since(begun); got.Round(time.Millisecond) != took {
		t.Errorf("took %v, want %v", got, took)
	}
	return rep
}

// away is a member that cannot be reached.
type away struct{ err error }

func (a away) Agents(context.Context) ([]agent.Card, error) { return nil, a.err }

func (a away) Do(context.Context, *agent.Request, agent.Caller) (*agent.Result, error) {
	return nil, a.err
}

func (a away) Attach(context.Context, string, agent.Caller) (*agent.Result, error) {
	return nil, a.err
}

func (a away) Close() error { return nil }
