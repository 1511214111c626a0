package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// A loader ensures that the data of earlier processes in the store is loaded once, before anything
// else.
type loader struct {
	done atomic.Bool
	turn chan struct{} // capacity one
}

// Load loads the data of earlier processes from Options.Store. Runs that were active then have
// failed. If Load is not called, the first request calls it and waits for it.
func (s *Server) Load(ctx context.Context) error {
	if s.loads.done.Load() {
		return nil
	}
	select {
	case s.loads.turn <- struct{}{}:
		defer func() { <-s.loads.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.loads.done.Load() {
		return nil
	}
	if err := s.loadRuns(ctx); err != nil {
		return stored(err)
	}
	if err := s.loadSessions(ctx); err != nil {
		return stored(err)
	}
	s.loads.done.Store(true)
	return nil
}

// A survivor is a run of an earlier process in the store.
type survivor struct {
	entry *entry
	bytes int64
	at    time.Time
}

// loadRuns finds all runs, ends those that were active, and adds them in the order in which they
// ended.
func (s *Server) loadRuns(ctx context.Context) error {
	var all []survivor
	for after := runsPrefix; ; {
		page, err := s.store.Heads(ctx, runsPrefix, after, 0)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		after = page[len(page)-1].Key
		for _, head := range page {
			one, err := s.survivor(ctx, head)
			if err != nil {
				return err
			}
			if one != nil {
				all = append(all, *one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b survivor) int { return a.at.Compare(b.at) })
	for _, one := range all {
		s.forgetRun(ctx, s.index.found(one.entry, one.bytes))
	}
	return nil
}

// survivor reads one run; nil means that it cannot be restored.
func (s *Server) survivor(ctx context.Context, head store.Head) (*survivor, error) {
	owner, id, ok := strings.Cut(strings.TrimPrefix(head.Key, runsPrefix), "/")
	if !ok || !isUUID(id) || head.Last == 0 {
		s.report(jsonrpc.ReportStore, fmt.Errorf("acp: %s is not a run", head.Key))
		return nil, nil
	}
	run, output, err := s.readRun(ctx, head)
	if err != nil {
		return nil, err
	}
	if run == nil {
		s.report(jsonrpc.ReportStore, fmt.Errorf("acp: %s does not start like a run", head.Key))
		return nil, nil
	}
	if !run.Status.Terminal() {
		before := *run
		before.Output = output
		run.Status, run.AwaitRequest, run.FinishedAt, run.Output = RunFailed, nil, timestamp(), output
		run.Error = Errorf("The server was stopped during the run.")
		size, err := s.endSurvivor(ctx, head, before, run)
		if errors.Is(err, store.ErrLimit) { // the others are more important
			s.report(jsonrpc.ReportStore, fmt.Errorf("acp: the last event of %s: %w", head.Key, err))
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		head.Bytes += int64(size)
		s.report(ReportRunCutOff, fmt.Errorf("acp: %s", head.Key))
	}
	return &survivor{entry: &entry{id: id, owner: owner, session: run.SessionID}, bytes: head.Bytes, at: run.FinishedAt}, nil
}

// endSurvivor writes the last event of a run that was cut off, and returns its length. before is
// the run without its end. If the log is full, its oldest events are removed, and if that is not
// enough, the output is left out.
func (s *Server) endSurvivor(ctx context.Context, head store.Head, before Run, run *Run) (size int, err error) {
	end := func() error {
		last := Event{Type: EventRunFailed, Run: run}
		text, err := last.encodeText()
		if err != nil {
			return err
		}
		size = len(text)
		_, err = s.store.Append(ctx, head.Key, head.Last, text)
		return err
	}
	if err = end(); !errors.Is(err, store.ErrLimit) {
		return size, err
	}
	// If this process ends before the last event is written, the next one finds the output here.
	text, err := encodeValue(waypoint{Seq: int64(head.Last), Run: before})
	if err != nil {
		return 0, err
	}
	if _, err = s.store.Put(ctx, head.Key, store.Any, text, 0); err != nil && !errors.Is(err, store.ErrLimit) {
		return 0, err
	}
	for part := uint64(1); part < 10; part++ {
		if err = s.store.Trim(ctx, head.Key, head.First-1+(head.Last-head.First+1)*part/10); err != nil {
			return 0, err
		}
		if err = end(); !errors.Is(err, store.ErrLimit) {
			break
		}
	}
	if errors.Is(err, store.ErrLimit) {
		run.Output, run.Error = []Message{}, Errorf("The server was stopped during the run, and the storage has no room for the output.")
		err = end()
	}
	if err == nil { // the last event contains everything
		if err := s.store.Delete(ctx, head.Key, store.Any); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.report(jsonrpc.ReportStore, removedError(head.Key, err))
		}
	}
	return size, err
}

// readRun returns the newest state of a run according to its events, and the output that they
// contain.
func (s *Server) readRun(ctx context.Context, head store.Head) (*Run, []Message, error) {
	newest, err := s.eventAt(ctx, head.Key, head.Last)
	if err != nil {
		return nil, nil, err
	}
	if newest.Run != nil && newest.Run.Status.Terminal() {
		return newest.Run, nil, nil
	}
	run, seen, err := s.waypoint(ctx, head.Key)
	if err != nil {
		return nil, nil, err
	}
	output := []Message{}
	if run != nil {
		output = run.Output
	}
	for stored, err := range s.store.Read(ctx, head.Key, head.First-1) {
		if err != nil {
			return nil, nil, err
		}
		var e Event
		if err := jsonrpc.Raw(stored.Data).Decode(&e); err != nil {
			return nil, nil, fmt.Errorf("acp: event %d of %s: %w", stored.Seq, head.Key, err)
		}
		switch {
		case e.Run != nil:
			run = e.Run
			if len(run.Output) > len(output) {
				output = run.Output
			}
		case e.Type == EventMessageCompleted && e.Message != nil && int64(stored.Seq) > seen:
			output = append(output, *e.Message)
		}
	}
	return run, output, nil
}

// A waypoint is what is stored of a run whose oldest events were removed: the run when Seq was its
// newest event.
type waypoint struct {
	Seq int64 `json:"seq"`
	Run Run   `json:"run"`
}

// waypoint reads the waypoint of a run, or returns nil if it has no waypoint.
func (s *Server) waypoint(ctx context.Context, key string) (*Run, int64, error) {
	value, err := s.store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var w waypoint
	err = jsonrpc.Raw(value.Data).Decode(&w)
	return &w.Run, w.Seq, err
}

func (s *Server) eventAt(ctx context.Context, key string, seq uint64) (e Event, err error) {
	for stored, err := range s.store.Read(ctx, key, seq-1) {
		if err != nil {
			return e, err
		}
		return e, jsonrpc.Raw(stored.Data).Decode(&e)
	}
	return e, nil
}

func (s *Server) loadSessions(ctx context.Context) error {
	for after := sessionsPrefix; ; {
		page, err := s.store.List(ctx, sessionsPrefix, after, 0)
		if err != nil || len(page) == 0 {
			return err
		}
		after = page[len(page)-1].Key
		for _, value := range page {
			if owner, id, ok := strings.Cut(strings.TrimPrefix(value.Key, sessionsPrefix), "/"); ok {
				var record sessionRecord
				if err := jsonrpc.Raw(value.Data).Decode(&record); err != nil {
					return err
				}
				s.forgetRun(ctx, s.index.foundSession(owner, id, int64(len(value.Data))+record.Bytes))
			}
		}
	}
}
