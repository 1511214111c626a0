package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/da1ed7bb/parley/agent"
)

// A talker is a Link whose run sends events of one size, as long as the job takes them.
type talker struct {
	agent.Link
	size int
	told chan struct{} // one for each event that was taken
}

func (l *talker) Do(ctx context.Context, _ *agent.Request, c agent.Caller) (*agent.Result, error) {
	for {
		e := agent.Event{Kind: agent.EventOutput, Parts: []agent.Part{{Text: strings.Repeat("x", l.size)}}}
		if err := c.Tell(ctx, e); err != nil {
			return nil, err
		}
		l.told <- struct{}{}
	}
}

// TestAJobIsBoundedInBytes: the run waits while 8 MiB of its events, or 256, are not received.
func TestAJobIsBoundedInBytes(t *testing.T) {
	for _, c := range []struct{ size, want int }{{1 << 20, 7}, {100, 256}, {9 << 20, 1}} {
		synctest.Test(t, func(t *testing.T) {
			l := &talker{size: c.size, told: make(chan struct{}, 1000)}
			j := (&agent.Client{Link: l}).Start(t.Context(), &agent.Request{})
			synctest.Wait()
			if n := len(l.told); n != c.want {
				t.Errorf("%d events of %d bytes wait, want %d", n, c.size, c.want)
			}
			got := 0
			for range j.Events() { // each makes room for one more
				if got++; got == 5 {
					break
				}
			}
			synctest.Wait()
			if n := len(l.told); n != c.want+got {
				t.Errorf("%d events after %d were received", n, got)
			}
			j.Close()
		})
	}
}

// A broken Link panics.
type broken struct{ agent.Link }

func (broken) Do(context.Context, *agent.Request, agent.Caller) (*agent.Result, error) {
	panic("in Do")
}

// A stubborn Link ignores its context.
type stubborn struct {
	agent.Link
	release chan struct{}
}

func (s stubborn) Do(context.Context, *agent.Request, agent.Caller) (*agent.Result, error) {
	<-s.release
	return nil, errors.New("late")
}

// TestALinkOfAUser: a job whose link panics fails, and Close does not wait for one that ignores its
// context.
func TestALinkOfAUser(t *testing.T) {
	j := (&agent.Client{Link: broken{}}).Start(t.Context(), &agent.Request{})
	if _, err := j.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "in Do") {
		t.Errorf("Wait = %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := stubborn{release: make(chan struct{})}
		j := (&agent.Client{Link: s}).Start(t.Context(), &agent.Request{})
		j.Close() // in fake time
		close(s.release)
		synctest.Wait()
	})
}
