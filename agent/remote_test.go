package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/agent"
)

// Whether the ID or the stop comes first, a stopped run is cancelled, once for each reason and by
// its own ID. Its caller receives events until its context ends or it returns an error.
func TestRemote(t *testing.T) {
	deaf := errors.New("deaf")
	for _, c := range []struct {
		name      string
		do        func(r *agent.Remote, leave func())
		deafTo    string // the kind of event for which the caller fails
		cancelled []string
		told      []string
		err       error
	}{
		{"stopped when it is known", func(r *agent.Remote, _ func()) {
			r.Started("a", "s")
			r.Stop(t.Context())
		}, "", []string{"a"}, []string{"started a s"}, nil},
		{"stopped before", func(r *agent.Remote, _ func()) {
			r.Stop(t.Context())
			r.Started("a", "s")
		}, "", []string{"a"}, []string{"started a s"}, nil},
		{"stopped, and never known", func(r *agent.Remote, _ func()) {
			r.Stop(t.Context())
			r.Started("", "s")
		}, "", nil, []string{"started  s"}, nil},
		{"known once", func(r *agent.Remote, _ func()) {
			r.Started("a", "s")
			r.Started("b", "s")
			r.Tell(agent.Event{Kind: agent.EventOther})
			r.Stop(t.Context())
		}, "", []string{"a"}, []string{"started a s", "other  "}, nil},
		{"the caller has gone", func(r *agent.Remote, leave func()) {
			leave()
			r.Stop(t.Context())
			r.Started("a", "s")
			r.Tell(agent.Event{Kind: agent.EventOther})
		}, "", []string{"a"}, nil, nil},
		{"the caller is deaf from the start", func(r *agent.Remote, _ func()) {
			r.Started("a", "s")
			r.Tell(agent.Event{Kind: agent.EventOther})
		}, agent.EventStarted, []string{"a"}, []string{"started a s"}, deaf},
		{"the caller is deaf later", func(r *agent.Remote, _ func()) {
			r.Started("a", "s")
			r.Tell(agent.Event{Kind: agent.EventOther})
			r.Tell(agent.Event{Kind: agent.EventOther})
		}, agent.EventOther, []string{"a"}, []string{"started a s", "other  "}, deaf},
		{"the caller goes, and nothing is to be stopped here", func(r *agent.Remote, leave func()) {
			r.Started("a", "s")
			leave()
			r.Tell(agent.Event{Kind: agent.EventOther})
		}, "", nil, []string{"started a s"}, nil},
	} {
		ctx, leave := context.WithCancel(t.Context())
		var cancelled, told []string
		caller := agent.Funcs{OnEvent: func(_ context.Context, e agent.Event) error {
			told = append(told, e.Kind+" "+e.ID+" "+e.Session)
			if e.Kind == c.deafTo {
				return deaf
			}
			return nil
		}}
		r := agent.NewRemote(ctx, caller, func(ctx context.Context, id string) {
			if ctx.Err() != nil {
				t.Errorf("%s: cancelled with a context that has ended", c.name)
			}
			cancelled = append(cancelled, id)
		})
		c.do(r, leave)
		if diff := cmp.Diff(c.cancelled, cancelled); diff != "" {
			t.Errorf("%s: cancelled (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.told, told); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", c.name, diff)
		}
		if !errors.Is(r.Err(), c.err) {
			t.Errorf("%s: Err = %v, want %v", c.name, r.Err(), c.err)
		}
		leave()
	}
}

// A caller whose context ends while it receives an event did not fail.
func TestRemoteOfACallerWhoLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	r := agent.NewRemote(ctx, agent.Funcs{OnEvent: func(ctx context.Context, _ agent.Event) error {
		leave()
		return ctx.Err()
	}}, func(context.Context, string) { t.Error("cancelled: Outlive does that") })
	r.Started("a", "s")
	if r.Err() != nil || !r.Gone() || r.ID() != "a" {
		t.Errorf("Err = %v, Gone = %v, ID = %q", r.Err(), r.Gone(), r.ID())
	}
	if _, err := r.Ask(&agent.Question{Text: "Well?"}); !errors.Is(err, agent.ErrNoAnswer) {
		t.Errorf("Ask = %v", err)
	}
}
