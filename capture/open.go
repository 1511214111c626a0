package capture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"time"
)

const (
	maxOpenRows = 2_000_000 // rows of an opened file
	maxFaults   = 8         // unreadable lines that are reported individually
	stepLines   = 512       // lines that are read while the Log is locked
	firstLines  = 2_000     // lines that Begin reads

	followTime = 250 * time.Millisecond // between two looks at a file that grows
)

// Open reads a session file once, up to its current end. The file may still be written to, and may
// contain several sessions. Events, connections and exchanges are numbered over all sessions. The
// rows are stored in memory; payloads are read from the file on demand. An unreadable line is
// skipped, and [Log.Err] reports which.
func Open(name string, judges ...Judge) (*Log, error) {
	l, rest, err := Begin(name, judges...)
	if err != nil {
		return nil, err
	}
	if err := rest(context.Background()); err != nil {
		return nil, err
	}
	return l, nil
}

// Begin is [Open] for a caller that uses the Log while the file is read. It reads the first 2,000
// lines. rest, which must be called once, reads the others, or stops when ctx ends. Until rest has
// returned, the Log grows like that of a [Recorder].
func Begin(name string, judges ...Judge) (l *Log, rest func(ctx context.Context) error, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("capture: %w", err)
	}
	r := newReading(f, &segment{name: name}, judges)
	if info, err := f.Stat(); err == nil {
		r.size = info.Size()
	}
	more, err := r.step(firstLines)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return r.log, func(ctx context.Context) error {
		defer f.Close()
		return r.all(ctx, more)
	}, nil
}

// BeginFile is [Begin] for an open file, which may be unnamed. The caller must close it after rest
// has returned; payloads can be read until then.
func BeginFile(f *os.File, judges ...Judge) (l *Log, rest func(ctx context.Context) error, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("capture: %w", err)
	}
	r := newReading(io.NewSectionReader(f, 0, info.Size()), &segment{file: f}, judges)
	r.size = info.Size()
	more, err := r.step(firstLines)
	if err != nil {
		return nil, nil, err
	}
	return r.log, func(ctx context.Context) error { return r.all(ctx, more) }, nil
}

// FollowFile is [BeginFile] for a file that another process may still write. At the end of the file
// rest waits for more, also for the end of a line, until live returns false or ctx ends. It looks
// four times a second.
func FollowFile(f *os.File, live func() bool, judges ...Judge) (l *Log, rest func(ctx context.Context) error, err error) {
	r := newReading(io.NewSectionReader(f, 0, math.MaxInt64), &segment{file: f}, judges)
	r.grows = true
	more, err := r.step(firstLines)
	if err != nil {
		return nil, nil, err
	}
	return r.log, func(ctx context.Context) error { return r.follow(ctx, f, live, more) }, nil
}

// Read is [Open] for a session that is not a file, such as one that was dropped on a page. It is
// stored in memory completely.
func Read(in io.Reader, judges ...Judge) (*Log, error) {
	r := newReading(in, nil, judges)
	if err := r.all(context.Background(), true); err != nil {
		return nil, err
	}
	return r.log, nil
}

// A reading is a session file that is being read.
type reading struct {
	log        *Log
	correlator *Book
	in         *bufio.Reader
	file       *segment // nil: the lines are stored in memory
	size       int64    // approximate size of the file; 0 if unknown

	headers     map[string]http.Header
	block       *block // the block that is being filled
	long        []byte
	grows       bool   // the file may get longer
	begun       []byte // of a file that grows: the beginning of its last line
	offset      int64
	number, bad int

	conns, exchanges       int64 // offsets of the numbers in this session
	lastConn, lastExchange int64 // the highest numbers so far, over all sessions
}

func newReading(in io.Reader, file *segment, judges []Judge) *reading {
	return &reading{log: newLog(maxOpenRows), correlator: NewBook(judges...), in: bufio.NewReaderSize(in, 256<<10), file: file, headers: map[string]http.Header{}}
}

// all reads to the end, if more, and ends the log.
func (r *reading) all(ctx context.Context, more bool) error { return r.end(r.some(ctx, more)) }

// some reads to the present end of the file, if more.
func (r *reading) some(ctx context.Context, more bool) (err error) {
	for more && err == nil {
		if more, err = r.step(stepLines); err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	return err
}

// follow reads f while it grows, and ends the log when live returns false.
func (r *reading) follow(ctx context.Context, f *os.File, live func() bool, more bool) error {
	tick := time.NewTicker(followTime)
	defer tick.Stop()
	for {
		r.grows = live() // before the end is read, so that nothing is missed
		if info, err := f.Stat(); !more && err == nil {
			more = info.Size() > r.offset+int64(len(r.begun))
		}
		if err := r.some(ctx, more || !r.grows); err != nil || !r.grows {
			return r.end(err)
		}
		more = false
		select {
		case <-tick.C:
		case <-ctx.Done():
			return r.end(context.Cause(ctx))
		}
	}
}

// end ends the log.
func (r *reading) end(err error) error {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.bad > maxFaults {
		r.log.faults = append(r.log.faults, fmt.Errorf("capture: cannot read %d lines", r.bad))
	}
	r.log.ended = true
	r.log.tellLocked()
	return err
}

// step reads some lines and reports whether there may be more.
func (r *reading) step(lines int) (more bool, err error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	defer r.log.tellLocked()
	r.block = nil // visible to readers now, so it must not grow
	for range lines {
		if more, err = r.lineLocked(); err != nil || !more {
			return false, err
		}
	}
	if left := r.size - r.offset; r.number == lines && left > 0 {
		// Rows are large, and growing the slice copies them: reserve the estimated total at once.
		r.log.rows = slices.Grow(r.log.rows, int(min(left*int64(len(r.log.rows))/r.offset*17/16, maxOpenRows)))
	}
	return true, nil
}

// lineLocked reads a line.
func (r *reading) lineLocked() (more bool, err error) {
	text, err := r.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.long = append(r.long[:0], text...)
		for errors.Is(err, bufio.ErrBufferFull) {
			text, err = r.in.ReadSlice('\n')
			r.long = append(r.long, text...)
		}
		text = r.long
	}
	ended := errors.Is(err, io.EOF)
	if err != nil && !ended {
		return false, fmt.Errorf("capture: %w", err)
	}
	if len(r.begun) > 0 {
		r.begun = append(r.begun, text...)
		text = r.begun
	}
	if ended && r.grows {
		r.begun = append(r.begun[:0], text...)
		return false, nil
	}
	r.begun = r.begun[:0]
	if ended && len(text) == 0 {
		return false, nil
	}
	more = !ended
	at := r.offset
	r.offset += int64(len(text))
	r.number++
	line := bytes.TrimSpace(text)
	if len(line) == 0 {
		return more, nil
	}
	e, fault := parseLine(line, r.headers)
	switch {
	case errors.Is(fault, errHeader): // another session of the same file, with its own connections
		r.block, r.conns, r.exchanges = nil, r.lastConn, r.lastExchange
	case fault != nil && r.number == 1:
		return false, fmt.Errorf("line 1: %w", fault)
	case fault != nil:
		r.bad++
		if len(r.log.faults) < maxFaults {
			r.log.faults = append(r.log.faults, fmt.Errorf("line %d: %w", r.number, fault))
		}
	default:
		r.takeLocked(&e, text, at)
	}
	return more, nil
}

// takeLocked adds an event that was parsed from text at an offset.
func (r *reading) takeLocked(e *Event, text []byte, at int64) {
	l := r.log
	if e.Seq <= l.last {
		e.Seq = l.last + 1
	}
	(&block{conns: r.conns, exchanges: r.exchanges}).number(e, e.Seq)
	r.lastConn, r.lastExchange = max(r.lastConn, e.Conn), max(r.lastExchange, e.Exchange)
	b := r.block
	if b == nil || b.size >= blockBytes || at != b.offset+int64(b.size) || e.Seq != b.last+1 {
		b = &block{first: e.Seq, file: r.file, offset: at, conns: r.conns, exchanges: r.exchanges}
		r.block = b
		l.blocks = append(l.blocks, b)
	}
	b.last, b.size = e.Seq, b.size+len(text)
	if r.file == nil {
		b.lines = append(b.lines, text...)
		l.memory += int64(len(text))
	}
	l.last = e.Seq
	if e.Kind == KindLost {
		l.lost += int64(e.Size)
	}
	l.mergeLocked(r.correlator.Add(e))
}
