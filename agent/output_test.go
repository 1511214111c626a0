package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/internal/x/heap"
)

// A babbler is a Link whose run sends n parts, also after the caller refused one and after it was
// cancelled, as a careless agent does.
type babbler struct {
	agent.Link
	n    int
	part agent.Part
}

func (l *babbler) Do(ctx context.Context, _ *agent.Request, c agent.Caller) (*agent.Result, error) {
	r := agent.NewRemote(ctx, c, func(context.Context, string) {})
	for range l.n {
		r.Tell(agent.Event{Kind: agent.EventOutput, Parts: []agent.Part{l.part}})
	}
	select {
	case <-ctx.Done():
		return &agent.Result{State: agent.Cancelled}, nil
	default:
	}
	return &agent.Result{State: agent.Completed}, nil
}

// TestOutputIsBounded checks that Run stores at most MaxOutput, by what it costs in memory, and
// that the error is clear.
func TestOutputIsBounded(t *testing.T) {
	for _, c := range []struct {
		n    int
		most int64
		part agent.Part
		want error
	}{
		{100, 0, agent.Part{Text: strings.Repeat("x", 1<<20)}, agent.ErrTooLarge},
		{70_000, 0, agent.Part{URL: "u"}, agent.ErrTooLarge}, // 1 KiB for each
		{63, 0, agent.Part{Text: strings.Repeat("x", 1<<20)}, nil},
		{100, -1, agent.Part{Text: strings.Repeat("x", 1<<20)}, nil},
		{3, 1 << 10, agent.Part{Data: []byte("x")}, agent.ErrTooLarge},
	} {
		client := &agent.Client{Link: &babbler{n: c.n, part: c.part}, MaxOutput: c.most}
		_, err := client.Run(t.Context(), &agent.Request{}, nil)
		if !errors.Is(err, c.want) {
			t.Errorf("%d parts, limit %d: %v, want %v", c.n, c.most, err, c.want)
		}
	}
}

// TestOutputOfAnAgentThatIgnoresItsEnd checks that the context of the run ends with the limit, so
// that a Link that waits for the agent does not wait without a bound.
func TestOutputOfAnAgentThatIgnoresItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := linkFunc(func(ctx context.Context, c agent.Caller) (*agent.Result, error) {
			_ = c.Tell(ctx, agent.Event{Kind: agent.EventOutput, Parts: []agent.Part{{Text: "too long"}}})
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		if _, err := (&agent.Client{Link: link, MaxOutput: 1}).Run(t.Context(), &agent.Request{}, nil); !errors.Is(err, agent.ErrTooLarge) {
			t.Errorf("got %v, want ErrTooLarge", err)
		}
	})
}

type linkFunc func(ctx context.Context, c agent.Caller) (*agent.Result, error)

func (f linkFunc) Agents(context.Context) ([]agent.Card, error) { return nil, nil }
func (f linkFunc) Close() error                                 { return nil }
func (f linkFunc) Do(ctx context.Context, _ *agent.Request, c agent.Caller) (*agent.Result, error) {
	return f(ctx, c)
}

func (f linkFunc) Attach(ctx context.Context, _ string, c agent.Caller) (*agent.Result, error) {
	return f(ctx, c)
}

// TestOutputIsJoinedOnce checks that many small parts take memory in proportion to their length: if
// each were appended to a string, 100,000 parts of 10 bytes would be 50 GB.
func TestOutputIsJoinedOnce(t *testing.T) {
	const parts = 100_000
	part := agent.Part{Text: "0123456789"}
	client := &agent.Client{Link: &babbler{n: parts, part: part}}
	var r *agent.Result
	var err error
	if n := heap.Allocated(func() { r, err = client.Run(t.Context(), &agent.Request{}, nil) }); n > 100<<20 {
		t.Errorf("Run allocates %d MiB", n>>20)
	}
	if err != nil || len(r.Output) != 1 || len(r.Output[0].Text) != 10*parts {
		t.Fatalf("%d parts, %v", len(r.Output), err)
	}
	more := make([]agent.Part, parts)
	for i := range more {
		more[i] = part
	}
	if n := heap.Allocated(func() { more = agent.Join([]agent.Part{{Text: "begin"}}, more...) }); n > 50<<20 {
		t.Errorf("Join allocates %d MiB", n>>20)
	}
	if len(more) != 1 || more[0].Text != "begin"+strings.Repeat(part.Text, parts) {
		t.Error("Join returns another text")
	}
}

// TestOutputParts checks which parts are joined, also after Parts was called.
func TestOutputParts(t *testing.T) {
	var o agent.Output
	add := func(message string, texts ...string) {
		e := &agent.Event{Kind: agent.EventOutput, Message: message}
		for _, text := range texts {
			e.Parts = append(e.Parts, agent.Part{Text: text})
		}
		if err := o.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	texts := func() string {
		var all []string
		for _, p := range o.Parts() {
			all = append(all, p.Text)
		}
		return strings.Join(all, "|")
	}
	add("", "a", "b")
	if got := texts(); got != "ab" {
		t.Errorf("got %s", got)
	}
	add("", "c")
	add("m", "d", "e")
	add("m")
	add("", "f")
	if got := texts(); got != "abc|de|f" {
		t.Errorf("got %s", got)
	}
	if err := o.Add(&agent.Event{Parts: []agent.Part{{Name: "n", Text: "g"}, {Name: "n", Text: "h"}, {JSON: []byte("1")}, {Text: "i"}}}); err != nil || texts() != "abc|de|f|gh||i" {
		t.Errorf("got %s, %v", texts(), err)
	}
	small := agent.Output{Max: 1<<10 + 4}
	if err := small.Add(&agent.Event{Parts: []agent.Part{{Text: "abcd"}}}); err != nil {
		t.Error(err)
	}
	if err := small.Add(&agent.Event{Parts: []agent.Part{{Text: "e"}}}); !errors.Is(err, agent.ErrTooLarge) || len(small.Parts()) != 1 || small.Parts()[0].Text != "abcd" {
		t.Errorf("over the limit: %v", err)
	}
}
