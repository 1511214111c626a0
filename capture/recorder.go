package capture

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options tune New. The zero value is ready for use.
type Options struct {
	// File is the session file to write; what is there is replaced. Empty means files of the Recorder's own in the folder for
	// temporary files, of which the oldest are removed when they pass MaxDisk, and all of them at the end.
	File string

	// MaxMemory bounds the payloads in memory, in bytes. Zero means 32 MiB. What is older is read from disk.
	MaxMemory int64

	// MaxDisk bounds what is on disk, in bytes. Zero means 1 GiB without File and 16 GiB with it; negative, without File, means
	// that nothing is written, and what does not fit MaxMemory is gone. A File that is full takes no more; Err tells,
	// and what comes then is kept as far as MaxMemory goes.
	MaxDisk int64

	// MaxPayload bounds one payload, in bytes. Zero means 4 MiB. Of a longer one its beginning is kept.
	MaxPayload int

	// MaxRows bounds the rows in memory. Zero means 250,000, at some 500 bytes each. The oldest go first.
	MaxRows int

	// Redact says what is never kept.
	Redact Redaction

	// Judges look at each message.
	Judges []Judge
}

const (
	defaultMemory  = 32 << 20
	defaultPayload = 4 << 20
	defaultRows    = 250_000
	blockBytes     = 64 << 10
	pause          = 20 * time.Millisecond // how long the clerk lets events gather
)

// A Recorder records. Its Log may be read all the while. It is safe for concurrent use.
//
// Recording does not wait for the disk: when events come faster than they are written for so long that MaxMemory is full, the next ones
// are lost, counted, and an event of KindLost stands in their place.
type Recorder struct {
	*Log

	maxPending int64
	maxPayload int
	clerk      clerk

	conns, exchanges atomic.Int64
	wake             chan struct{} // there is something to do
	full             chan struct{} // and it is much
	done             chan struct{}

	hot     sync.Mutex // guards what is below
	pending []Event
	spare   []Event // what pending was before, emptied
	arena   []byte  // where their data is copied to
	bytes   int64   // of pending
	seq     int64
	missed  int64
	closed  bool
}

// New makes a Recorder and starts its goroutine. Close ends it.
func New(o *Options) (*Recorder, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.MaxMemory <= 0 {
		opts.MaxMemory = defaultMemory
	}
	if opts.MaxPayload <= 0 {
		opts.MaxPayload = defaultPayload
	}
	if opts.MaxRows <= 0 {
		opts.MaxRows = defaultRows
	}
	hide, err := opts.Redact.compile()
	if err != nil {
		return nil, err
	}
	disk, err := newDisk(opts.File, opts.MaxDisk)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		Log: newLog(opts.MaxRows), maxPending: opts.MaxMemory, maxPayload: opts.MaxPayload,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.clerk = clerk{log: r.Log, book: NewBook(opts.Judges...), hide: hide, disk: disk, maxMemory: opts.MaxMemory, base: time.Now()}
	go r.work()
	return r, nil
}

// Add records an event and returns its number, 0 if it was lost. Its Seq is set, its Time if that is zero; Data is copied.
func (r *Recorder) Add(e Event) int64 {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Size = max(e.Size, len(e.Data))
	if len(e.Data) > r.maxPayload {
		e.Data = e.Data[:r.maxPayload]
	}
	r.hot.Lock()
	if r.closed {
		r.hot.Unlock()
		return 0
	}
	if r.bytes > r.maxPending {
		r.missed++
		r.hot.Unlock()
		return 0
	}
	if r.missed > 0 {
		r.seq++
		r.pending = append(r.pending, Event{Seq: r.seq, Time: e.Time, Kind: KindLost, Size: int(r.missed), Text: fmt.Sprintf("%d events were not recorded", r.missed)})
		r.missed = 0
	}
	r.seq++
	e.Seq = r.seq
	if e.Data != nil {
		// A full arena is left to the events that point into it.
		if len(r.arena)+len(e.Data) > cap(r.arena) {
			r.arena = make([]byte, 0, max(blockBytes, len(e.Data)))
		}
		start := len(r.arena)
		r.arena = append(r.arena, e.Data...)
		e.Data = r.arena[start:len(r.arena):len(r.arena)]
	}
	first := len(r.pending) == 0
	r.pending = append(r.pending, e)
	before := r.bytes
	r.bytes += int64(len(e.Data)) + 256
	much := before < blockBytes*16 && r.bytes >= blockBytes*16
	seq := r.seq
	r.hot.Unlock()
	if first {
		poke(r.wake)
	}
	if much {
		poke(r.full)
	}
	return seq
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work is the goroutine of the Recorder.
func (r *Recorder) work() {
	defer close(r.done)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for range r.wake {
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-r.full:
		}
		if !r.turn() {
			return
		}
	}
}

// turn hands what is pending to the clerk, and reports whether more may come.
func (r *Recorder) turn() bool {
	r.hot.Lock()
	events, missed, closed := r.pending, r.missed, r.closed
	r.pending, r.spare, r.arena = r.spare, nil, nil
	held := r.bytes
	if closed && missed > 0 {
		r.seq++
		events = append(events, Event{Seq: r.seq, Time: time.Now(), Kind: KindLost, Size: int(missed), Text: fmt.Sprintf("%d events were not recorded", missed)})
	}
	r.hot.Unlock()
	r.clerk.take(events)
	clear(events) // what they point to is free
	r.hot.Lock()
	if cap(events) <= 8192 {
		r.spare = events[:0]
	}
	r.bytes -= held // only now: what the clerk holds counts too
	more := len(r.pending) > 0
	r.hot.Unlock()
	if more {
		poke(r.wake)
	}
	return !closed
}

// Flush returns when all that was added before is in the Log and in the file.
func (r *Recorder) Flush() {
	r.hot.Lock()
	seq, closed := r.seq, r.closed
	r.hot.Unlock()
	if closed {
		<-r.done
		return
	}
	for {
		r.mu.RLock()
		there, changed := r.last >= seq, r.changed
		r.mu.RUnlock()
		if there {
			return
		}
		poke(r.wake)
		poke(r.full)
		select {
		case <-changed:
		case <-r.done:
			return
		}
	}
}

// Close records what is pending and ends the Recorder. What is added later is dropped. The Log can be read on, as far as it is in memory
// or in Options.File. It returns what went wrong with the file.
func (r *Recorder) Close() error {
	r.hot.Lock()
	again := r.closed
	r.closed = true
	r.hot.Unlock()
	if !again {
		poke(r.wake)
		poke(r.full)
	}
	<-r.done
	if again {
		return nil
	}
	err := r.clerk.disk.close()
	r.mu.Lock()
	r.ended = true
	r.tellLocked()
	r.mu.Unlock()
	return errors.Join(r.Err(), err)
}

// Name is the session file, or "".
func (r *Recorder) Name() string { return r.clerk.disk.name }
