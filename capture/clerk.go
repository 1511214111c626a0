package capture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// A clerk does what recording puts off: on the Recorder's goroutine alone.
type clerk struct {
	log       *Log
	book      *Book
	hide      *redactor
	disk      *disk
	maxMemory int64
	base      time.Time
	rows      []Row // of a block, kept for the next
}

// take makes lines and rows of events.
func (c *clerk) take(events []Event) {
	for len(events) > 0 {
		var b block
		b.lines = make([]byte, 0, min(300*len(events), blockBytes+4<<10))
		rows := c.rows[:0]
		lost := int64(0)
		n := 0
		for n < len(events) && len(b.lines) < blockBytes {
			e := &events[n]
			// The wall's time of the beginning and a clock that nobody sets: what is read from the file has the same durations.
			e.Time = c.base.Add(e.Time.Sub(c.base)).Round(0)
			c.hide.event(e)
			if e.fields != nil {
				e.Header, e.fields = headerOf(e.fields), nil
			}
			if e.Kind == KindLost {
				lost += int64(e.Size)
			}
			b.lines = AppendLine(b.lines, e)
			rows = append(rows, c.book.Add(e)...)
			n++
		}
		b.first, b.last, b.size = events[0].Seq, events[n-1].Seq, len(b.lines)
		events = events[n:]
		err := c.disk.write(&b)
		c.publish(&b, rows, lost, err)
		clear(rows) // what they point to is the log's
		c.rows = rows
	}
}

func (c *clerk) publish(b *block, rows []Row, lost int64, err error) {
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

// addLocked adds a block, to the last one if both are small, and lets go of the oldest lines.
func (c *clerk) addLocked(b *block) {
	l := c.log
	l.memory += int64(len(b.lines))
	if n := len(l.blocks); n > 0 {
		old := l.blocks[n-1]
		if old.lines != nil && old.file == b.file && old.size+b.size <= blockBytes && (b.file == nil || old.offset+int64(old.size) == b.offset) {
			grown := *old // readers may hold the old one
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
	name string

	gone atomic.Bool // removed
}

// readAt opens the file each time: a Log has no end at which to close it.
func (s *segment) readAt(p []byte, offset int64) error {
	f, err := os.Open(s.name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(p, offset)
	return err
}

func (s *segment) remove() {
	s.gone.Store(true)
	_ = os.Remove(s.name) // the folder goes at the end
}

// segments is into how many files a recording without a name is divided.
const segments = 8

// A disk is where lines are written. It belongs to the clerk's goroutine, and to Close after that.
type disk struct {
	name   string // of the session file; "" for files of our own
	folder string
	max    int64 // 0: nothing is written

	files  []*segment
	out    *os.File
	offset int64
	count  int
	broken bool
}

func newDisk(name string, limit int64) (*disk, error) {
	d := &disk{name: name, max: limit}
	switch {
	case name != "":
		if limit <= 0 {
			d.max = 16 << 30
		}
		return d, d.create(name)
	case limit < 0:
		d.max = 0
	case limit == 0:
		d.max = 1 << 30
	}
	return d, nil
}

func (d *disk) create(name string) error {
	// 0600: a recording holds what people said to each other.
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	n, err := f.WriteString(header + "\n")
	if err != nil {
		_ = f.Close() // already failing with err
		return fmt.Errorf("capture: %w", err)
	}
	d.out, d.offset = f, int64(n)
	d.files = append(d.files, &segment{name: name})
	return nil
}

// write puts a block on disk, if it can. A block without a file stays in memory until that is full.
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
		return fmt.Errorf("capture: %w; nothing more is written", err)
	}
	b.file, b.offset = d.files[len(d.files)-1], d.offset
	d.offset += int64(n)
	return nil
}

// rotate begins the next file of our own when this one is full, and removes the oldest when there are too many.
func (d *disk) rotate(size int) error {
	if d.out != nil && d.offset+int64(size) <= max(d.max/segments, int64(size)+int64(len(header))+1) {
		return nil
	}
	if d.folder == "" {
		dir, err := os.MkdirTemp("", "parley-capture-")
		if err != nil {
			return fmt.Errorf("capture: %w", err)
		}
		d.folder = dir
	}
	if d.out != nil {
		if err := d.out.Close(); err != nil {
			return fmt.Errorf("capture: %w", err)
		}
		d.out = nil
	}
	for len(d.files) >= segments {
		d.files[0].remove()
		d.files = d.files[1:]
	}
	d.count++
	return d.create(filepath.Join(d.folder, fmt.Sprintf("%06d.jsonl", d.count)))
}

// close ends writing. Files of our own are removed.
func (d *disk) close() error {
	var err error
	if d.out != nil {
		err = d.out.Close()
		d.out = nil
	}
	if d.name == "" {
		for _, s := range d.files {
			s.gone.Store(true)
		}
	}
	if d.folder != "" {
		err = os.RemoveAll(d.folder)
	}
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

// splitLines returns the lines of text that hold something.
func splitLines(text []byte) [][]byte {
	var out [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}
