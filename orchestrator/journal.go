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

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/store"
)

// Keys in a store: a run's log, what is told of it in lists, and the sign of life of the process that does it.
func logKey(id string) string   { return "runs/" + id + "/events" }
func infoKey(id string) string  { return infoPrefix + id }
func leaseKey(id string) string { return "leases/runs/" + id }

const (
	infoPrefix = "runs/"

	leaseTime  = 30 * time.Second
	leaseEvery = 10 * time.Second
	writeTime  = 10 * time.Second
)

// NewID makes an id for a run. Ids sort by the time when they were made.
func NewID() string {
	var b [16]byte
	ms := time.Now().UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	_, _ = rand.Read(b[6:]) // it does not fail
	return hex.EncodeToString(b[:])
}

// An Info is what a list of runs tells of one.
type Info struct {
	ID      string    `json:"id"`
	Plan    string    `json:"plan,omitzero"`
	State   State     `json:"state"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
	Text    string    `json:"text,omitzero"` // the first kilobyte of what came of it, or why it failed
}

// Runs returns up to n runs of a store, oldest first, behind the one with the id after, which is empty at the beginning. After the
// last page it returns none. A run whose process is gone is Interrupted.
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

// ReadRun returns what a store has of a run: what a list tells, and its report as far as it came. Steps that had begun and not
// ended are Running or Interrupted. It returns [store.ErrNotFound] if there is none.
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
	for e, err := range Events(ctx, s, id, 0) {
		if err != nil {
			return info, nil, err
		}
		root.take(e, byPath, info.State)
	}
	return info, root, nil
}

// take adds an event to a report that is made from a log.
func (r *Report) take(e Event, byPath map[string]*Report, open State) {
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

// parentOf finds the nearest report around a path.
func parentOf(path string, byPath map[string]*Report) *Report {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' && byPath[path[:i]] != nil {
			return byPath[path[:i]]
		}
	}
	return byPath[""]
}

// Follow yields the events of a run that are kept, behind the one numbered after, and then waits for more until the run has
// ended or ctx does. Of a run that was interrupted nothing comes any more.
func Follow(ctx context.Context, s store.Store, id string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range events(s.Tail(ctx, logKey(id), after)) {
			if !yield(e, err) || err != nil || e.Kind == EventRunEnded {
				return
			}
		}
	}
}

// Events yields the events of a run that are kept now, behind the one numbered after. Of a run that is not there it yields none.
func Events(ctx context.Context, s store.Store, id string, after uint64) iter.Seq2[Event, error] {
	return events(s.Read(ctx, logKey(id), after))
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

// A journal writes a run down. A nil journal writes nothing.
type journal struct {
	s    store.Store
	id   string
	keep time.Duration // 0: for ever
	info Info
	last uint64
	rev  uint64

	lease uint64 // revision
	stop  context.CancelFunc
	done  chan struct{}
}

// begin writes that a run exists, and keeps its sign of life until end. lost is called when somebody else has it.
func begin(ctx context.Context, s store.Store, keep time.Duration, info Info, lost func(error)) (*journal, error) {
	j := &journal{s: s, id: info.ID, keep: keep, info: info, done: make(chan struct{})}
	var err error
	if j.lease, err = s.Put(ctx, leaseKey(j.id), 0, []byte("1"), leaseTime); err != nil {
		return nil, err
	}
	if err := j.tell(ctx, 0); err != nil {
		return nil, err
	}
	ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx))
	go j.renew(ctx, lost)
	return j, nil
}

// renew says every 10 s that the process is there.
func (j *journal) renew(ctx context.Context, lost func(error)) {
	defer close(j.done)
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
			lost(&StepError{Kind: KindStorage, Text: "another process has taken the run"})
			return
		}
		if err == nil { // else there is time for two more
			j.lease = rev
		}
	}
}

// tell writes what lists tell, for as long as ttl, or for ever if that is 0.
func (j *journal) tell(ctx context.Context, ttl time.Duration) error {
	b, err := json.Marshal(j.info)
	if err != nil {
		return err
	}
	j.rev, err = j.s.Put(ctx, infoKey(j.id), j.rev, b, ttl)
	return err
}

// write adds an event. While the disk is full it waits for room, until ctx ends.
func (j *journal) write(ctx context.Context, e *Event) error {
	if j == nil {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	for {
		one, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
		last, err := j.s.Append(one, logKey(j.id), j.last, b)
		cancel()
		if err == nil {
			j.last, e.Seq = last, last
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

// end writes how the run ended, and gives the sign of life up.
func (j *journal) end(ctx context.Context, r *Report) error {
	if j == nil {
		return nil
	}
	j.stop()
	<-j.done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	j.info.State, j.info.Ended, j.info.Text = r.State, time.Now().UTC(), clipTo(r.Text(), 1024)
	if r.Error != nil {
		j.info.Text = clipTo(r.Error.Error(), 1024)
	}
	var expire error
	if j.keep > 0 && j.last > 0 {
		expire = j.s.Expire(ctx, logKey(j.id), time.Now().Add(j.keep))
	}
	return errors.Join(j.tell(ctx, j.keep), expire, j.s.Delete(ctx, leaseKey(j.id), j.lease))
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
