package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/private"
)

// A writer does the deferred part of recording on the Recorder's goroutine. It writes lines first
// and makes their rows later. Therefore the file is up to date even if making rows takes long, and
// survives kill -9.
type writer struct {
	log        *Log
	correlator *Book
	hide       *redactor
	disk       *disk
	maxMemory  int64
	base       time.Time
	rows       []Row     // rows of a block, reused for the next
	written    []written // written lines that have no rows yet, oldest first
}

// A written is a block of written lines with its events.
type written struct {
	b      block
	events []Event
	held   int64 // the events' share of Recorder.bytes
	err    error // error of the write
}

// write encodes events as lines and writes them. held is their share of Recorder.bytes.
func (c *writer) write(events []Event, held int64) {
	for len(events) > 0 {
		var w written
		w.b.lines = make([]byte, 0, min(300*len(events), blockBytes+4<<10))
		n := 0
		for n < len(events) && len(w.b.lines) < blockBytes {
			e := &events[n]
			// The wall time of the start plus the monotonic clock: durations read from the file
			// stay the same even if the clock is set.
			e.Time = c.base.Add(e.Time.Sub(c.base)).Round(0)
			c.hide.event(e)
			e.EventID = bounded(e.EventID) // not earlier, because a part of a secret is not recognised
			if e.fields != nil {
				e.Header, e.fields = headerOf(e.fields), nil
			}
			w.b.lines = AppendLine(w.b.lines, e)
			n++
		}
		w.b.first, w.b.last, w.b.size = events[0].Seq, events[n-1].Seq, len(w.b.lines)
		w.events, events = events[:n], events[n:]
		if len(events) == 0 {
			w.held = held // the last block has the total of all
		}
		w.err = c.disk.write(&w.b)
		c.written = append(c.written, w)
	}
}

// tally makes the rows of the oldest block without rows, and publishes both. It returns the share
// of its events in Recorder.bytes.
func (c *writer) tally() (held int64) {
	w := c.written[0]
	rows := c.rows[:0]
	lost := int64(0)
	for i := range w.events {
		e := &w.events[i]
		if e.Kind == KindLost {
			lost += int64(e.Size)
		}
		rows = append(rows, c.correlator.Add(e)...)
	}
	c.publish(&w.b, rows, lost, w.err)
	clear(rows) // the Log owns what they refer to
	clear(w.events)
	c.rows = rows
	if c.written = c.written[1:]; len(c.written) == 0 {
		c.written = nil
	}
	return w.held
}

func (c *writer) publish(b *block, rows []Row, lost int64, err error) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && len(l.faults) < 8 {
		l.faults = append(l.faults, err)
	}
	l.mergeLocked(rows)
	l.lost += lost
	l.last = b.last
	c.addLocked(b)
	l.tellLocked()
}

// addLocked adds a block, or appends it to the last one if both are small. It drops the oldest
// lines from memory.
func (c *writer) addLocked(b *block) {
	l := c.log
	l.memory += int64(len(b.lines))
	if n := len(l.blocks); n > 0 {
		old := l.blocks[n-1]
		if old.lines != nil && old.file == b.file && old.size+b.size <= blockBytes && (b.file == nil || old.offset+int64(old.size) == b.offset) {
			grown := *old // readers may hold the old block
			grown.lines = append(old.lines[:len(old.lines):cap(old.lines)], b.lines...)
			grown.last, grown.size = b.last, old.size+b.size
			l.blocks[n-1] = &grown
			b = nil
		}
	}
	if b != nil {
		l.blocks = append(l.blocks, b)
	}
	dropped := 0
	for i := 0; l.memory > c.maxMemory && i < len(l.blocks)-1; i++ {
		old := l.blocks[i]
		if old.lines == nil {
			continue
		}
		l.memory -= int64(len(old.lines))
		old.lines = nil
		if old.file == nil {
			dropped = i + 1
		}
	}
	for dropped < len(l.blocks) && l.blocks[dropped].file != nil && l.blocks[dropped].file.gone.Load() {
		l.memory -= int64(len(l.blocks[dropped].lines))
		dropped++
	}
	l.blocks = l.blocks[dropped:]
}

// A segment is one file of a recording.
type segment struct {
	name string // "" for an unnamed file

	mu   sync.Mutex // held while file is read or closed
	file *os.File   // set for an unnamed segment
	gone atomic.Bool
}

// readAt reads from the segment. It opens a named file for each read, because a Log has no Close.
func (s *segment) readAt(p []byte, offset int64) error {
	if s.name != "" {
		f, err := os.Open(s.name)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.ReadAt(p, offset)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return fs.ErrClosed
	}
	_, err := s.file.ReadAt(p, offset)
	return err
}

// remove closes and deletes a temporary segment, together with its content.
func (s *segment) remove() error {
	s.gone.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	err := f.Close()
	// The file is unnamed where the system supports that.
	if stale := os.Remove(f.Name()); !errors.Is(stale, fs.ErrNotExist) {
		err = errors.Join(err, stale)
	}
	return err
}

// segments is the number of files of a recording without a name.
const segments = 8

// A disk writes the lines. It belongs to the writer's goroutine, and to Close afterwards.
type disk struct {
	name string // the session file; "" for temporary files
	max  int64  // 0: nothing is written

	files  []*segment
	out    *os.File
	offset int64
	blind  bool // the output cannot be read back: a pipe
	broken bool
}

func newDisk(name string, limit int64) (*disk, error) {
	d := &disk{name: name, max: limit}
	switch {
	case name != "":
		if limit <= 0 {
			d.max = 16 << 30
		}
		return d, d.open()
	case limit < 0:
		d.max = 0
	case limit == 0:
		d.max = 1 << 30
	}
	return d, nil
}

// ErrNoSession means that a file that was to be continued or read is not a session file.
var ErrNoSession = errors.New("the file is not a session and was not changed; use another file")

// open starts a session in the named file, after the sessions that it contains. If another process
// is writing that file, the session is written to a separate file of this process next to it.
func (d *disk) open() error {
	f, err := private.Open(d.name)
	if errors.Is(err, private.ErrLocked) {
		d.name = private.Beside(d.name)
		f, err = private.Open(d.name)
	}
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	if d.blind = f.Special; !d.blind {
		if d.offset, err = endOfSessions(f.File); err != nil {
			_ = f.Close() // err is already being returned
			return fmt.Errorf("capture: %w", &fs.PathError{Op: "continue", Path: d.name, Err: err})
		}
	}
	return d.writeHeader(f.File, &segment{name: d.name})
}

// endOfSessions returns the offset at which the next session starts in a file. It terminates an
// incomplete last line.
func endOfSessions(f *os.File) (offset int64, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	begin := make([]byte, min(info.Size(), 256))
	if _, err := f.ReadAt(begin, 0); err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(begin, []byte("\n"))
	if _, err := ParseLine(bytes.TrimSpace(line)); !errors.Is(err, errHeader) {
		return 0, ErrNoSession
	}
	offset = info.Size()
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, offset-1); err != nil {
		return 0, err
	}
	if last[0] != '\n' {
		if _, err := f.WriteAt([]byte("\n"), offset); err != nil {
			return 0, err
		}
		offset++
	}
	_, err = f.Seek(offset, io.SeekStart)
	return offset, err
}

// writeHeader writes the header of a session.
func (d *disk) writeHeader(f *os.File, s *segment) error {
	n, err := f.WriteString(header + "\n")
	if err != nil {
		_ = f.Close() // err is already being returned
		return fmt.Errorf("capture: %w", err)
	}
	d.out, d.offset = f, d.offset+int64(n)
	d.files = append(d.files, s)
	return nil
}

// write writes a block to disk, if possible. A block without a file stays in memory until the
// memory is full.
func (d *disk) write(b *block) error {
	if d.max == 0 || d.broken {
		return nil
	}
	if d.name == "" {
		if err := d.rotate(b.size); err != nil {
			d.broken = true
			return err
		}
	} else if d.offset+int64(b.size) > d.max {
		d.broken = true
		return fmt.Errorf("capture: %s is full: it has %d MiB", d.name, d.max>>20)
	}
	n, err := d.out.Write(b.lines)
	if err != nil {
		d.broken = true
		return fmt.Errorf("capture: %w; recording to the file stopped", err)
	}
	if !d.blind {
		b.file, b.offset = d.files[len(d.files)-1], d.offset
	}
	d.offset += int64(n)
	return nil
}

// rotate starts the next temporary file when the current one is full, and removes the oldest one
// when there are too many.
func (d *disk) rotate(size int) error {
	if d.out != nil && d.offset+int64(size) <= max(d.max/segments, int64(size)+int64(len(header))+1) {
		return nil
	}
	d.out = nil // its segment closes it
	for len(d.files) >= segments {
		if err := d.files[0].remove(); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
		d.files = d.files[1:]
	}
	f, _, err := private.Temp("parley-capture-*.jsonl")
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	d.offset = 0
	return d.writeHeader(f, &segment{file: f})
}

// close stops writing and deletes temporary files.
func (d *disk) close() error {
	var err error
	if d.out != nil && d.name != "" {
		err = d.out.Close()
	}
	d.out = nil
	if d.name == "" {
		for _, s := range d.files {
			err = errors.Join(err, s.remove())
		}
	}
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

// splitLines returns the non-empty lines of text.
func splitLines(text []byte) [][]byte {
	var out [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}
