package orchestrator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-json-experiment/json"

	bound "github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/store"
)

// The keys of a run in a store: its log, its entry in lists, and the lease of the process that
// executes it.
func logKey(id string) string   { return "runs/" + id + "/events" }
func infoKey(id string) string  { return infoPrefix + id }
func leaseKey(id string) string { return "leases/runs/" + id }

const (
	infoPrefix = "runs/"

	leaseTime  = 30 * time.Second
	leaseEvery = 10 * time.Second
	writeTime  = 10 * time.Second
)

// NewID returns a new run ID. IDs sort by creation time.
func NewID() string {
	var b [16]byte
	ms := time.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	_, _ = rand.Read(b[6:]) // it never fails
	return hex.EncodeToString(b[:])
}

// An Info is a run's entry in a list of runs.
type Info struct {
	ID      string    `json:"id"`
	Plan    string    `json:"plan,omitzero"`
	State   State     `json:"state"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Text    string    `json:"text,omitzero"` // the first kilobyte of the result or of the error
}

// Runs returns up to n runs of a store, oldest first, starting after the run with the ID after; an
// empty after starts at the beginning. After the last page it returns no runs. A run whose process
// is gone is Interrupted.
func Runs(ctx context.Context, s store.Store, after string, n int) ([]Info, error) {
	from := ""
	if after != "" {
		from = infoKey(after)
	}
	values, err := s.List(ctx, infoPrefix, from, n)
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, v := range values {
		info, err := readInfo(ctx, s, v)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

func readInfo(ctx context.Context, s store.Store, v store.Value) (info Info, err error) {
	if err := json.Unmarshal(v.Data, &info); err != nil {
		return info, fmt.Errorf("orchestrator: %s: %w", v.Key, err)
	}
	if info.State == Running {
		if _, err := s.Get(ctx, leaseKey(info.ID)); errors.Is(err, store.ErrNotFound) {
			info.State = Interrupted
		} else if err != nil {
			return info, err
		}
	}
	return info, nil
}

// ReadRun returns the Info of a run and its report as far as it was stored. Steps that started but
// did not end are Running or Interrupted. It returns [store.ErrNotFound] if there is no such run.
func ReadRun(ctx context.Context, s store.Store, id string) (Info, *Report, error) {
	v, err := s.Get(ctx, infoKey(id))
	if err != nil {
		return Info{}, nil, err
	}
	info, err := readInfo(ctx, s, v)
	if err != nil {
		return info, nil, err
	}
	root := &Report{Kind: "plan", State: info.State, Started: info.Started}
	byPath := map[string]*Report{"": root}
	var last time.Time
	for e, err := range Events(ctx, s, id, 0) {
		if err != nil {
			return info, nil, err
		}
		root.applyEvent(e, byPath, info.State)
		last = e.Time
	}
	for _, r := range byPath {
		// The duration so far.
		if r.State == info.State && r.Ms == 0 && info.Ended.IsZero() && last.After(r.Started) {
			r.Ms = last.Sub(r.Started).Milliseconds()
		}
	}
	return info, root, nil
}

// applyEvent applies a logged event to the report.
func (r *Report) applyEvent(e Event, byPath map[string]*Report, open State) {
	switch e.Kind {
	case EventStarted:
		if byPath[e.Path] == nil {
			s := &Report{Path: e.Path, Kind: e.Step, State: open, Started: e.Time, Member: e.Member}
			byPath[e.Path] = s
			up := parentOf(e.Path, byPath)
			up.Steps = append(up.Steps, s)
		}
		byPath[e.Path].Tries = e.Try
	case EventEnded:
		s := byPath[e.Path]
		if s == nil {
			s = &Report{}
			byPath[e.Path] = s
			up := parentOf(e.Path, byPath)
			up.Steps = append(up.Steps, s)
		}
		steps := s.Steps
		*s = *e.Report
		s.Steps = steps
	case EventRunEnded:
		steps := r.Steps
		*r = *e.Report
		r.Steps = steps
	}
}

// parentOf returns the report of the nearest enclosing step of a path.
func parentOf(path string, byPath map[string]*Report) *Report {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' && byPath[path[:i]] != nil {
			return byPath[path[:i]]
		}
	}
	return byPath[""]
}

// Follow yields the stored events of a run after the event with number after. It then waits for
// more until the run or ctx ends. It ends after the last event of an interrupted run.
func Follow(ctx context.Context, s store.Store, id string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		tail := func(after uint64) iter.Seq2[store.Event, error] { return s.Tail(ctx, logKey(id), after) }
		for e, err := range untrimmed(after, tail) {
			if !yield(e, err) || err != nil || e.Kind == EventRunEnded {
				return
			}
		}
	}
}

// Events yields the events of a run that are stored now, after the event with number after. For an
// unknown run it yields none. If a run filled its store, its oldest events may have been trimmed to
// make room for its end; the sequence then starts at the oldest remaining event.
func Events(ctx context.Context, s store.Store, id string, after uint64) iter.Seq2[Event, error] {
	return untrimmed(after, func(after uint64) iter.Seq2[store.Event, error] { return s.Read(ctx, logKey(id), after) })
}

// untrimmed reads a log after an event, or from its oldest event if that one was trimmed.
func untrimmed(after uint64, read func(after uint64) iter.Seq2[store.Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range events(read(after)) {
			if trimmed, ok := errors.AsType[*store.TrimmedError](err); ok {
				for e, err := range events(read(trimmed.First - 1)) {
					if !yield(e, err) {
						return
					}
				}
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func events(log iter.Seq2[store.Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for stored, err := range log {
			var e Event
			if err == nil {
				err = json.Unmarshal(stored.Data, &e)
				e.Seq = stored.Seq
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// DeleteRun deletes everything a store has of a run. Do not delete a run that is running.
func DeleteRun(ctx context.Context, s store.Store, id string) error {
	var errs []error
	for _, err := range []error{s.Drop(ctx, logKey(id)), s.Delete(ctx, infoKey(id), store.Any), s.Delete(ctx, leaseKey(id), store.Any)} {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// A journal stores a run. A nil journal stores nothing.
type journal struct {
	s    store.Store
	r    *Runner
	id   string
	keep time.Duration // 0: without expiry
	info Info
	last uint64
	rev  uint64

	first uint64 // the last trimmed event

	lease uint64 // revision of the lease's value
	stop  context.CancelFunc
	done  chan struct{}
}

// errStoreStuck is the error of a run whose store does not return. The lease expires by itself.
var errStoreStuck = errors.New("orchestrator: the store does not return")

// errTaken cancels a run that another process has taken over, so the run has not failed.
var errTaken = errors.New(KindStorage + ": another process continues this run")

// startJournal stores that a run exists and renews its lease until end. It calls lost if another
// process takes the lease.
func startJournal(ctx context.Context, r *Runner, info Info, lost func(error)) (*journal, error) {
	j := &journal{s: r.Store, r: r, id: info.ID, keep: r.keep(), info: info, done: make(chan struct{})}
	var err error
	if j.lease, err = j.s.Put(ctx, leaseKey(j.id), 0, []byte("1"), leaseTime); err != nil {
		return nil, err
	}
	if err := j.putInfo(ctx, 0); err != nil {
		return nil, err
	}
	ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx))
	go j.renew(ctx, lost)
	return j, nil
}

// renew renews the lease every 10 s.
func (j *journal) renew(ctx context.Context, lost func(error)) {
	defer close(j.done)
	defer rescue.Catch(j.r.Report, lost) // of a Store: the lease would run out
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		rev, err := j.s.Put(ctx, leaseKey(j.id), j.lease, []byte("1"), leaseTime)
		if errors.Is(err, store.ErrConflict) {
			lost(errTaken)
			return
		}
		if err == nil { // after a failure there is time for two more tries
			j.lease = rev
		}
	}
}

// putInfo writes the run's list entry with the given TTL; 0 means no expiry.
func (j *journal) putInfo(ctx context.Context, ttl time.Duration) error {
	b, err := json.Marshal(j.info)
	if err != nil {
		return err
	}
	j.rev, err = j.s.Put(ctx, infoKey(j.id), j.rev, b, ttl)
	return err
}

// write stores events and sets their numbers. While the disk is full it waits for space until ctx
// ends. The events that end a run replace the oldest events if necessary.
func (j *journal) write(ctx context.Context, events []*Event) error {
	if j == nil || len(events) == 0 {
		return nil
	}
	texts := make([][]byte, len(events))
	for i, e := range events {
		var err error
		if texts[i], err = json.Marshal(j.r.stored(e)); err != nil {
			return err
		}
	}
	final := events[len(events)-1].Kind == EventRunEnded
	for trim := uint64(1); ; {
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
		last, err := j.s.Append(one, logKey(j.id), j.last, texts...)
		if final && errors.Is(err, store.ErrLimit) && j.last > 1 && j.first < j.last {
			j.first = min(j.first+trim, j.last)
			trim *= 4
			if err := j.s.Trim(one, logKey(j.id), j.first); err != nil {
				cancel()
				return err
			}
			cancel()
			continue
		}
		cancel()
		if err == nil {
			for i, e := range events {
				e.Seq = last - uint64(len(events)-1-i)
			}
			j.last = last
			return nil
		}
		if f, ok := errors.AsType[*store.Fault](err); !ok || !f.Retryable() {
			return err
		}
		if pause.For(ctx, time.Second) != nil {
			return err
		}
	}
}

// storeEnd stores how the run ended and releases the lease.
func (j *journal) storeEnd(ctx context.Context, r *Report) error {
	if j == nil {
		return nil
	}
	j.stop()
	if !bound.Closed(j.done, bound.Time) {
		return errStoreStuck
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	j.info.State, j.info.Ended, j.info.Text = r.State, time.Now().UTC(), r.Text()
	if r.Error != nil {
		j.info.Text = r.Error.Error()
	}
	j.info.Text = clipTo(j.r.redact(j.info.Text), 1024)
	var expire error
	if j.keep > 0 && j.last > 0 {
		expire = j.s.Expire(ctx, logKey(j.id), time.Now().Add(j.keep))
	}
	return errors.Join(j.putInfo(ctx, j.keep), expire, j.s.Delete(ctx, leaseKey(j.id), j.lease))
}

func clipTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}
