package acp

import (
	"context"
	"errors"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// What a binding needs of a Server is here and in sessions.go. Errors are an [*Error], or ctx's cause, or private.

// Create starts a run and returns it as it began, whatever the mode. It goes on by itself. The request is the server's from now on.
func (s *Server) Create(ctx context.Context, q *RunCreateRequest) (Run, error) {
	if err := q.check(); err != nil {
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
	past, err := s.open(ctx, owner, q)
	if err != nil {
		return Run{}, err
	}
	r := newRun(s, agent, owner, q)
	r.past = past
	created, _ := r.snapshot()
	gone, err := s.index.begin(r.entry)
	s.forget(ctx, gone)
	if err != nil {
		return Run{}, err
	}
	if q.Session != nil {
		err = s.replace(ctx, owner, q.SessionID, past)
	}
	if err == nil {
		err = stored(r.begin(ctx))
	}
	if err != nil {
		r.cancel(ErrOver)
		s.index.drop(r.entry)
		return Run{}, err
	}
	s.running.Go(r.work)
	return created, nil
}

// Run returns a run as it is now, or [ErrNotFound].
func (s *Server) Run(ctx context.Context, id string) (Run, error) {
	e, live, err := s.find(ctx, id)
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

// find looks for a run of whoever asks.
func (s *Server) find(ctx context.Context, id string) (*entry, *run, error) {
	if err := s.Load(ctx); err != nil {
		return nil, nil, err
	}
	e, live := s.index.run(s.owner(ctx), id)
	if e == nil {
		return nil, nil, notFound("run")
	}
	return e, live, nil
}

// ended returns a run that has ended, and the number of its last event, from the store: the last event has all.
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
		return Run{}, 0, notFound("run") // it was forgotten at this moment
	}
	return Run{}, 0, stored(err)
}

// Resume answers a run that is awaiting, and returns it as it is then, with the number of the last event before that.
func (s *Server) Resume(ctx context.Context, q *RunResumeRequest) (Run, int64, error) {
	if err := q.check(); err != nil {
		return Run{}, 0, err
	}
	_, live, err := s.find(ctx, q.RunID)
	switch {
	case err != nil:
		return Run{}, 0, err
	case live == nil:
		return Run{}, 0, refuse(ErrNotAwaiting, CodeServerError, "The run does not await an answer.")
	}
	return live.resume(&q.AwaitResume)
}

// Cancel begins to cancel a run and returns it as cancelling. The context of its agent has ended by then. A run that is over is [ErrOver].
func (s *Server) Cancel(ctx context.Context, id string) (Run, error) {
	_, live, err := s.find(ctx, id)
	switch {
	case err != nil:
		return Run{}, err
	case live == nil:
		return Run{}, refuse(ErrOver, CodeServerError, "The run is over.")
	}
	return live.stop()
}

// Wait returns a run once it has ended, or awaits an answer.
func (s *Server) Wait(ctx context.Context, id string) (Run, error) {
	e, live, err := s.find(ctx, id)
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

// A Record is an event of a run as it is kept and sent: JSON text, with its number.
type Record struct {
	Seq   int64
	Event jsonrpc.Raw // not to be changed
}

// Events returns what has happened in a run behind the event with the number after. 0 is from the beginning, -1 nothing. Events that are not kept
// any more are [ErrNotKept].
func (s *Server) Events(ctx context.Context, id string, after int64) ([]Record, error) {
	e, live, err := s.find(ctx, id)
	if err != nil {
		return nil, err
	}
	f, err := s.follow(ctx, e, live, after)
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

// Ahead tells how many events there are behind the one with the number after, as in [Server.Events], without reading them.
func (s *Server) Ahead(ctx context.Context, id string, after int64) (int64, error) {
	e, live, err := s.find(ctx, id)
	if err != nil {
		return 0, err
	}
	f, err := s.follow(ctx, e, live, after)
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

// notKept refuses events that have been forgotten.
func notKept(oldest uint64) *Error {
	e := refuse(ErrNotKept, CodeServerError, "The events are not kept any more.")
	e.Data = jsonrpc.Raw(append(appendInt([]byte(`{"oldest":`), int64(oldest)), '}'))
	return e
}

// Follow hands over what happens in a run behind the event with the number after, as in [Server.Events], as it happens, some events
// at a time. It returns the run once on has had the last event, or the one with which the run awaits an answer. An error of on ends it.
// A slow on holds up nobody else.
func (s *Server) Follow(ctx context.Context, id string, after int64, on func([]Record) error) (Run, error) {
	e, live, err := s.find(ctx, id)
	if err != nil {
		return Run{}, err
	}
	f, err := s.follow(ctx, e, live, after)
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

// A follower reads the log of a run, from any place to its end.
type follower struct {
	s    *Server
	key  string
	live *run
	at   int64 // the number of the last event that was read

	run     Run // as it was when last was the newest event
	last    int64
	changed <-chan struct{} // closed when there is more
}

// follow begins behind an event.
func (s *Server) follow(ctx context.Context, e *entry, live *run, after int64) (*follower, error) {
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
		return nil, invalid("after is the number of an event of the run, or -1.")
	}
	return f, nil
}

// look finds out how far the run is.
func (f *follower) look() {
	f.live.mu.Lock()
	defer f.live.mu.Unlock()
	f.run, f.last, f.changed = f.live.copyLocked(), f.live.last, f.live.changed
}

// next waits for more, and reports whether there is none.
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

// page returns some events behind at, one at least, from memory if they are there.
func (f *follower) page(ctx context.Context) ([]Record, error) {
	var out []Record
	if f.live != nil {
		f.live.mu.Lock()
		// What is not kept any more is refused, whether or not it happens to be here still.
		if from := f.at - (f.live.last - int64(len(f.live.tail))); from >= 0 && f.at+1 >= f.live.first {
			for i, text := range f.live.tail[from:min(int64(len(f.live.tail)), from+f.last-f.at)] {
				out = append(out, Record{f.at + int64(i) + 1, text})
			}
		}
		f.live.mu.Unlock()
	}
	if out == nil {
		var err error
		if out, err = f.read(ctx); err != nil {
			return nil, err
		}
	}
	f.at += int64(len(out))
	return out, nil
}

// read is page from the store.
func (f *follower) read(ctx context.Context) ([]Record, error) {
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
		return nil, notFound("run") // it was forgotten at this moment
	}
	return out, nil
}
