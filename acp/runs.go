package acp

import (
	"context"
	"errors"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// This file and sessions.go contain the methods of a Server that a binding needs. Errors are an
// [*Error], ctx's cause, or private.

// Create starts a run and returns its initial state, whatever the mode. The run continues on its
// own. The server owns the request from then on.
func (s *Server) Create(ctx context.Context, q *RunCreateRequest) (Run, error) {
	if err := q.checkRequest(); err != nil {
		return Run{}, err
	}
	if err := s.Load(ctx); err != nil {
		return Run{}, err
	}
	agent, err := s.agent(q.AgentName)
	if err != nil {
		return Run{}, err
	}
	owner := s.owner(ctx)
	past, err := s.openSession(ctx, owner, q)
	if err != nil {
		return Run{}, err
	}
	r := newRun(s, agent, owner, q)
	r.past = past
	created, _ := r.snapshot()
	gone, err := s.index.addRun(r.entry)
	s.forgetRun(ctx, gone)
	if err != nil {
		return Run{}, err
	}
	if q.Session != nil {
		err = s.replace(ctx, owner, q.SessionID, past)
	}
	if err == nil {
		err = stored(r.writeFirstEvent(ctx))
	}
	if err != nil {
		r.cancel(ErrOver)
		s.index.dropEntry(r.entry)
		return Run{}, err
	}
	s.running.Go(r.work)
	return created, nil
}

// Run returns the current state of a run, or [ErrNotFound].
func (s *Server) Run(ctx context.Context, id string) (Run, error) {
	e, live, err := s.findRun(ctx, id)
	if err != nil {
		return Run{}, err
	}
	if live != nil {
		run, _ := live.snapshot()
		return run, nil
	}
	run, _, err := s.ended(ctx, e)
	return run, err
}

// findRun returns a run of the caller.
func (s *Server) findRun(ctx context.Context, id string) (*entry, *run, error) {
	if err := s.Load(ctx); err != nil {
		return nil, nil, err
	}
	e, live := s.index.liveRun(s.owner(ctx), id)
	if e == nil {
		return nil, nil, notFound("run")
	}
	return e, live, nil
}

// ended returns an ended run, and the number of its last event, from the store. The last event
// contains the complete run.
func (s *Server) ended(ctx context.Context, e *entry) (Run, int64, error) {
	key := runKey(e.owner, e.id)
	head, err := s.store.Head(ctx, key)
	if err == nil {
		var event Event
		for stored, readErr := range s.store.Read(ctx, key, head.Last-1) {
			if err = readErr; err == nil {
				err = jsonrpc.Raw(stored.Data).Decode(&event)
			}
		}
		if err == nil && event.Run != nil {
			return *event.Run, int64(head.Last), nil
		}
	}
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrTrimmed) {
		return Run{}, 0, notFound("run") // it was removed just now
	}
	return Run{}, 0, stored(err)
}

// Resume sends the awaited input to a run, and returns the run after that, with the number of the
// last event before it.
func (s *Server) Resume(ctx context.Context, q *RunResumeRequest) (Run, int64, error) {
	if err := q.checkRequest(); err != nil {
		return Run{}, 0, err
	}
	_, live, err := s.findRun(ctx, q.RunID)
	switch {
	case err != nil:
		return Run{}, 0, err
	case live == nil:
		return Run{}, 0, newRefusal(ErrNotAwaiting, CodeServerError, "The run is not waiting for an answer.")
	}
	return live.resume(&q.AwaitResume)
}

// Cancel starts to cancel a run and returns it as cancelling. The context of its agent is canceled
// by then. If the run is over, the error is [ErrOver].
func (s *Server) Cancel(ctx context.Context, id string) (Run, error) {
	_, live, err := s.findRun(ctx, id)
	switch {
	case err != nil:
		return Run{}, err
	case live == nil:
		return Run{}, newRefusal(ErrOver, CodeServerError, "The run has ended.")
	}
	return live.stopRun()
}

// Wait returns a run once it has ended or awaits input.
func (s *Server) Wait(ctx context.Context, id string) (Run, error) {
	e, live, err := s.findRun(ctx, id)
	if err != nil {
		return Run{}, err
	}
	if live == nil {
		run, _, err := s.ended(ctx, e)
		return run, err
	}
	for {
		live.mu.Lock()
		settled, run, changed := live.state.settled(), live.copyLocked(), live.changed
		live.mu.Unlock()
		if settled {
			return run, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Run{}, context.Cause(ctx)
		}
	}
}

// A Record is an event of a run as it is stored and sent: JSON text, with its number.
type Record struct {
	Seq   int64
	Event jsonrpc.Raw // must not be modified
}

// Events returns the events of a run after the event with the number after. 0 means from the
// beginning; -1 returns no events. If the events are no longer stored, the error is [ErrNotKept].
func (s *Server) Events(ctx context.Context, id string, after int64) ([]Record, error) {
	e, live, err := s.findRun(ctx, id)
	if err != nil {
		return nil, err
	}
	f, err := s.followRun(ctx, e, live, after)
	if err != nil {
		return nil, err
	}
	var all []Record
	for f.at < f.last {
		page, err := f.page(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}

// Ahead returns how many events follow the one with the number after, as in [Server.Events],
// without reading them.
func (s *Server) Ahead(ctx context.Context, id string, after int64) (int64, error) {
	e, live, err := s.findRun(ctx, id)
	if err != nil {
		return 0, err
	}
	f, err := s.followRun(ctx, e, live, after)
	if err != nil || f.at == f.last {
		return 0, err
	}
	first := uint64(1)
	if live != nil {
		live.mu.Lock()
		first = uint64(live.first)
		live.mu.Unlock()
	} else if head, err := s.store.Head(ctx, f.key); err == nil {
		first = head.First
	}
	if uint64(f.at)+1 < first {
		return 0, notKept(first)
	}
	return f.last - f.at, nil
}

// notKept returns the error for events that were removed.
func notKept(oldest uint64) *Error {
	e := newRefusal(ErrNotKept, CodeServerError, "The events are no longer stored.")
	e.Data = jsonrpc.Raw(append(appendInt([]byte(`{"oldest":`), int64(oldest)), '}'))
	return e
}

// Follow calls on with the events of a run after the event with the number after, as in
// [Server.Events], as they happen, with several events per call. It returns the run after on has
// received the last event, or the one with which the run awaits input. An error from on ends it. A
// slow on does not delay others.
func (s *Server) Follow(ctx context.Context, id string, after int64, on func([]Record) error) (Run, error) {
	e, live, err := s.findRun(ctx, id)
	if err != nil {
		return Run{}, err
	}
	f, err := s.followRun(ctx, e, live, after)
	if err != nil {
		return Run{}, err
	}
	for {
		for f.at < f.last {
			page, err := f.page(ctx)
			if err != nil {
				return Run{}, err
			}
			if err := on(page); err != nil {
				return Run{}, err
			}
		}
		if done, err := f.next(ctx); done || err != nil {
			return f.run, err
		}
	}
}

// A follower reads the log of a run, from any event to its end.
type follower struct {
	s    *Server
	key  string
	live *run
	at   int64 // the number of the last event that was read

	run     Run // the state when last was the newest event
	last    int64
	changed <-chan struct{} // closed when there are more events
}

// followRun returns a follower that begins after an event.
func (s *Server) followRun(ctx context.Context, e *entry, live *run, after int64) (*follower, error) {
	f := &follower{s: s, key: runKey(e.owner, e.id), live: live, at: after}
	if live != nil {
		f.look()
	} else {
		var err error
		if f.run, f.last, err = s.ended(ctx, e); err != nil {
			return nil, err
		}
	}
	switch {
	case after == -1:
		f.at = f.last
	case after < -1 || after > f.last:
		return nil, invalid("after must be the number of an event of the run, or -1.")
	}
	return f, nil
}

// look reads the current state of the run.
func (f *follower) look() {
	f.live.mu.Lock()
	defer f.live.mu.Unlock()
	f.run, f.last, f.changed = f.live.copyLocked(), f.live.last, f.live.changed
}

// next waits for more events. done reports that there will be none until the run is resumed.
func (f *follower) next(ctx context.Context) (done bool, err error) {
	if f.run.settled() {
		return true, nil
	}
	select {
	case <-f.changed:
		f.look()
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// page returns some events after at, at least one, from memory if possible.
func (f *follower) page(ctx context.Context) ([]Record, error) {
	var out []Record
	if f.live != nil {
		f.live.mu.Lock()
		// Events that are no longer stored are an error, even if they happen to be in memory.
		if from := f.at - (f.live.last - int64(len(f.live.tail))); from >= 0 && f.at+1 >= f.live.first {
			for i, text := range f.live.tail[from:min(int64(len(f.live.tail)), from+f.last-f.at)] {
				out = append(out, Record{f.at + int64(i) + 1, text})
			}
		}
		f.live.mu.Unlock()
	}
	if out == nil {
		var err error
		if out, err = f.readRecords(ctx); err != nil {
			return nil, err
		}
	}
	f.at += int64(len(out))
	return out, nil
}

// readRecords is page from the store.
func (f *follower) readRecords(ctx context.Context) ([]Record, error) {
	var out []Record
	size := 0
	for event, err := range f.s.store.Read(ctx, f.key, uint64(f.at)) {
		if trimmed, ok := errors.AsType[*store.TrimmedError](err); ok {
			return nil, notKept(trimmed.First)
		}
		if err != nil {
			return nil, stored(err)
		}
		out = append(out, Record{int64(event.Seq), slices.Clip(jsonrpc.Raw(event.Data))})
		if size += len(event.Data); len(out) == tailEvents || size > tailBytes || int64(event.Seq) == f.last {
			return out, nil
		}
	}
	if len(out) == 0 {
		return nil, notFound("run") // it was removed just now
	}
	return out, nil
}
