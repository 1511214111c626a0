package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// This file holds what the links and callers of all protocols share.

// LastWord is how long a link waits for the end of a run that it has cancelled.
const LastWord = 5 * time.Second

// Outlive returns a context for the communication about a run. When ctx ends, it calls stop to
// cancel the remote run; the returned context ends with ctx's cause LastWord later, so that the
// run's final events arrive. release ends the context and waits for stop, whose own context ends a
// LastWord after ctx: the final events may arrive before the response to the cancellation, and
// aborting that request would look like a server that did not respond.
func Outlive(ctx context.Context, stop func(ctx context.Context)) (_ context.Context, release func()) {
	out, end := context.WithCancelCause(context.WithoutCancel(ctx))
	over := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(over)
		late, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), LastWord, context.Cause(ctx))
		defer cancel()
		_ = rescue.Run(nil, func() { stop(late) }) // of a transport; the run ends in any case
		select {
		case <-late.Done():
		case <-out.Done():
		}
		end(context.Cause(ctx))
	})
	return out, func() {
		end(nil)
		if !unhook() {
			grace.Closed(over, LastWord+grace.Time) // stop may ignore its context
		}
	}
}

// Cancels returns a context that ends when ctx does. Its cause is ErrCancelled if ctx's cause is
// one of theirs, a protocol's own cancellation errors.
func Cancels(ctx context.Context, theirs ...error) (context.Context, context.CancelFunc) {
	return cancels(ctx, func(cause error) bool {
		for _, e := range theirs {
			if errors.Is(cause, e) {
				return true
			}
		}
		return false
	})
}

// cancels is like Cancels for all causes for which is returns true.
func cancels(ctx context.Context, is func(cause error) bool) (context.Context, context.CancelFunc) {
	out, end := context.WithCancelCause(context.WithoutCancel(ctx))
	over := func() {
		cause := context.Cause(ctx)
		if is(cause) {
			cause = fmt.Errorf("%w: %w", ErrCancelled, cause)
		}
		end(cause)
	}
	if ctx.Err() != nil {
		over()
	}
	unhook := context.AfterFunc(ctx, over)
	return out, func() {
		unhook()
		end(context.Canceled)
	}
}

// mostSessions bounds the conversations whose remote IDs a forwarding agent stores.
const mostSessions = 10_000

// sessions maps the conversation IDs of one protocol to those of another.
type sessions struct {
	mu    sync.Mutex // guards the fields below
	names map[string]string
	order []string // of names, oldest first
}

func (s *sessions) get(theirs string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[theirs]
}

func (s *sessions) put(theirs, ours string) {
	if theirs == "" || ours == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]string{}
	}
	if _, known := s.names[theirs]; !known {
		if len(s.order) >= mostSessions {
			delete(s.names, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, theirs)
	}
	s.names[theirs] = ours
}
