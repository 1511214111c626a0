package capture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
)

const (
	maxOpenRows = 2_000_000 // rows of a file that is opened
	maxFaults   = 8         // lines that cannot be read and are told one by one
	stepLines   = 512       // lines that are read while nobody can look
	firstLines  = 2_000     // lines that Begin reads
)

// Open reads a session file, which may still be written to: what is there is read once. The rows are kept in memory, the payloads are read from the
// file when they are wanted. A line that cannot be read is left out, and [Log.Err] tells which.
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

// Begin is [Open] for somebody who wants to look while the file is read: it reads the first 2,000 lines, and rest, which must be called once,
// reads the others, or stops when ctx ends. Until rest has returned the Log grows like that of a [Recorder].
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

// Read is [Open] for a session that is no file, such as one that was dropped on a page. All of it is kept in memory.
func Read(in io.Reader, judges ...Judge) (*Log, error) {
	r := newReading(in, nil, judges)
	if err := r.all(context.Background(), true); err != nil {
		return nil, err
	}
	return r.log, nil
}

// A reading is a session file that is being read.
type reading struct {
	log  *Log
	book *Book
	in   *bufio.Reader
	file *segment // nil: the lines are kept in memory
	size int64    // of the file, about; 0 if it is not known

	headers     map[string]http.Header
	block       *block // the one that grows
	long        []byte
	offset      int64
	number, bad int
}

func newReading(in io.Reader, file *segment, judges []Judge) *reading {
	return &reading{log: newLog(maxOpenRows), book: NewBook(judges...), in: bufio.NewReaderSize(in, 256<<10), file: file, headers: map[string]http.Header{}}
}

// all reads to the end, if there is more, and ends the log.
func (r *reading) all(ctx context.Context, more bool) (err error) {
	for more && err == nil {
		if more, err = r.step(stepLines); err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.bad > maxFaults {
		r.log.faults = append(r.log.faults, fmt.Errorf("capture: %d lines could not be read", r.bad))
	}
	r.log.ended = true
	r.log.tellLocked()
	return err
}

// step reads some lines, and reports whether there may be more.
func (r *reading) step(lines int) (more bool, err error) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	defer r.log.tellLocked()
	r.block = nil // readers have it now: it grows no more
	for range lines {
		if more, err = r.lineLocked(); err != nil || !more {
			return false, err
		}
	}
	if left := r.size - r.offset; r.number == lines && left > 0 {
		// Rows are large, and growing moves them: make room at once for as many as there will be.
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
	case errors.Is(fault, errHeader):
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

// takeLocked adds an event that was read from text at an offset.
func (r *reading) takeLocked(e *Event, text []byte, at int64) {
	l := r.log
	if e.Seq <= l.last {
		e.Seq = l.last + 1
	}
	b := r.block
	if b == nil || b.size >= blockBytes || at != b.offset+int64(b.size) || e.Seq != b.last+1 {
		b = &block{first: e.Seq, file: r.file, offset: at}
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
	l.mergeLocked(r.book.Add(e))
}
