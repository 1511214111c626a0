package capture

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
)

// Options configure [New]. The zero value is ready for use.
type Options struct {
	// File is the session file to write, with mode 0600. If it contains sessions already, this one
	// is appended. A file with other content is rejected with [ErrNoSession]. If another process is
	// writing it, the session is written to a separate file with this process's ID in its name,
	// session.1234.jsonl; [Recorder.Name] returns it. A link is rejected, and so is a file of
	// another user. /dev/stdout, /dev/stderr and /dev/fd/N are written to directly.
	//
	// If "", the Recorder uses temporary files, and removes the oldest when they exceed MaxDisk.
	// They are unnamed where the system supports that, so that nothing remains if the process is
	// killed.
	File string

	// MaxMemory limits the payloads in memory, in bytes. The default is 32 MiB. Half of it is for
	// events that wait to be written, which count with the length of their payload and other texts
	// plus 512 bytes each. A quarter is for written ones, because older ones are read from disk;
	// without a disk, all of it is.
	MaxMemory int64

	// MaxDisk limits the bytes on disk. The default is 1 GiB without File and 16 GiB with it. If
	// negative, and without File, nothing is written, and what exceeds MaxMemory is dropped. When
	// File is full, nothing more is written to it: Err returns an error, and later events are
	// stored within MaxMemory.
	MaxDisk int64

	// MaxPayload limits one payload, in bytes. The default is 4 MiB. A longer payload is truncated.
	MaxPayload int

	// MaxRows limits the rows in memory. The default is 50,000, at about 600 bytes each, and at most
	// about 4 KiB. The oldest are dropped first, and of stderr all but the last 2,000 lines.
	MaxRows int

	// Redact configures what is removed before anything is stored.
	Redact Redaction

	// Judges examine each message.
	Judges []Judge

	// Grace is how long Close and Flush wait for a Judge or the disk without progress. The default
	// is 5 s.
	Grace time.Duration
}

// ErrStuck is the error of a [Recorder.Close] that did not wait any longer for a [Judge] or the
// disk.
var ErrStuck = errors.New("capture: a judge or the disk does not return")

const (
	defaultMemory  = 32 << 20
	defaultPayload = 4 << 20
	defaultRows    = 50_000
	maxStderrRows  = 2_000
	eventBytes     = 512 // cost of an event in addition to its texts
	blockBytes     = 64 << 10
	pause          = 20 * time.Millisecond // how long the writer collects events
)

// A Recorder records events. Its Log may be read at any time. It is safe for concurrent use.
//
// Recording does not wait for the disk. If events arrive faster than they are written and
// MaxMemory is full, further events are lost and counted, and an event of KindLost replaces them.
type Recorder struct {
	*Log

	maxPending int64
	maxPayload int
	grace      time.Duration
	writer     writer

	conns, exchanges atomic.Int64
	wake             chan struct{} // there is work
	full             chan struct{} // there is much work
	done             chan struct{} // closed when the goroutine has ended, and the file is closed
	diskErr          error         // of closing the file; set before done is closed

	hot     sync.Mutex // guards the fields below
	pending []Event
	arena   []byte // the buffer that their data is copied to
	bytes   int64  // of pending, and of what the writer holds
	held    int64  // of what the writer holds
	seq     int64
	missed  int64
	closed  bool
}

// New makes a Recorder and starts its goroutine. Close stops it.
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
	if opts.Grace <= 0 {
		opts.Grace = grace.Time
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
		Log: newLog(opts.MaxRows), maxPending: opts.MaxMemory / 2, maxPayload: opts.MaxPayload, grace: opts.Grace,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}),
	}
	r.maxStderr = maxStderrRows
	r.writer = writer{log: r.Log, correlator: NewBook(opts.Judges...), hide: hide, disk: disk, maxMemory: opts.MaxMemory, base: time.Now()}
	if disk.max > 0 && !disk.blind {
		r.writer.maxMemory /= 4
	}
	go r.work()
	return r, nil
}

// Add records an event and returns its number, or 0 if it was lost. It sets Seq, and Time if that
// is zero, and copies Data.
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
		// The events that refer to a full arena keep it.
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
	r.bytes += e.weight()
	limit := min(blockBytes*16, r.maxPending/2)
	much := before < limit && r.bytes >= limit
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

// weight returns what the event counts in Options.MaxMemory while it waits to be written: all of
// its texts, because a peer chooses most of them.
func (e *Event) weight() int64 {
	n := eventBytes + len(e.Data) + len(e.Text) + len(e.EventID) + len(e.Method) + len(e.URL)
	for _, text := range e.fields {
		n += len(text)
	}
	return int64(n)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work is the Recorder's goroutine. It writes pending events before it makes the rows of the next
// block.
func (r *Recorder) work() {
	defer close(r.done)
	defer func() { r.diskErr = r.writer.disk.close() }()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for range r.wake {
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-r.full:
		}
		more := r.turn()
		for len(r.writer.written) > 0 {
			held := r.writer.tally()
			r.hot.Lock()
			r.bytes -= held // not earlier, because what the writer holds counts too
			r.held -= held
			r.hot.Unlock()
			more = r.turn() && more
		}
		if !more {
			return
		}
	}
}

// turn passes pending events to the writer, and reports whether there may be more.
func (r *Recorder) turn() bool {
	r.hot.Lock()
	events, missed, closed := r.pending, r.missed, r.closed
	if len(events) == 0 && !(closed && missed > 0) {
		r.hot.Unlock()
		return !closed
	}
	r.pending, r.arena = make([]Event, 0, min(len(events), 4096)), nil
	held := r.bytes - r.held
	r.held = r.bytes
	if closed && missed > 0 {
		r.missed = 0
		r.seq++
		events = append(events, Event{Seq: r.seq, Time: time.Now(), Kind: KindLost, Size: int(missed), Text: fmt.Sprintf("%d events were not recorded", missed)})
	}
	r.hot.Unlock()
	r.writer.write(events, held)
	return !closed
}

// Flush waits until all events that were added before are in the Log and in the file. It waits at
// most Options.Grace without progress: a Judge or the disk may not return.
func (r *Recorder) Flush() {
	r.hot.Lock()
	seq, closed := r.seq, r.closed
	r.hot.Unlock()
	if closed {
		r.await(func() bool { return false })
		return
	}
	r.await(func() bool {
		poke(r.wake)
		poke(r.full)
		return r.last >= seq
	})
}

// await waits until the goroutine of the Recorder has ended, or until there returns true, which is
// called with the lock of the Log after each change of it. It reports false after Options.Grace
// without a change.
func (r *Recorder) await(there func() bool) bool {
	timer := time.NewTimer(r.grace)
	defer timer.Stop()
	for {
		r.mu.RLock()
		ok, changed := there(), r.changed
		r.mu.RUnlock()
		if ok {
			return true
		}
		select {
		case <-changed:
			timer.Reset(r.grace)
		case <-r.done:
			return true
		case <-timer.C:
			return grace.Closed(r.done, 0)
		}
	}
}

// Close records pending events and stops the Recorder. Events added later are dropped. The Log
// remains readable, as far as it is in memory or in Options.File. Close returns the error of
// writing the file. If a Judge or the disk makes no progress for Options.Grace, the error wraps
// ErrStuck and has the number of events that are not in the file; the goroutine of the Recorder
// then continues in the background, and writes them if it can.
func (r *Recorder) Close() error {
	r.hot.Lock()
	again := r.closed
	r.closed = true
	r.hot.Unlock()
	if !again {
		poke(r.wake)
		poke(r.full)
	}
	var err error
	if r.await(func() bool { return false }) {
		err = r.diskErr
	} else {
		r.hot.Lock()
		err = fmt.Errorf("%w after %v; %d events are not recorded", ErrStuck, r.grace, int64(len(r.pending))+r.missed)
		r.hot.Unlock()
	}
	if again {
		return nil
	}
	r.mu.Lock()
	r.ended = true
	r.tellLocked()
	r.mu.Unlock()
	return errors.Join(r.Err(), err)
}

// Hide adds texts that are removed from the recording wherever they occur, as [Redaction].Values
// are. They are also removed from events that were added before but are not yet written. It is safe
// for concurrent use.
func (r *Recorder) Hide(values ...string) {
	if h := r.writer.hide; h != nil {
		h.set.Add(values...)
	}
}

// Name returns the name of the session file, or "". It differs from Options.File if another process
// is writing that file.
func (r *Recorder) Name() string { return r.writer.disk.name }
