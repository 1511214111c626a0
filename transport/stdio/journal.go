package stdio

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// Bounds of what is stored and reported of a child's stderr.
const (
	keptStderr  = 256 << 10 // bytes
	longestLine = 8 << 10   // bytes; a longer line is reported in pieces
	linesASec   = 1000
	queuedLines = 1000 // that wait for a slow callback
)

// A journal receives what a child writes to its stderr. It never waits: lines that the callback
// does not receive in time are dropped and counted, because a child that writes must not be blocked
// by this process.
type journal struct {
	tell func(line string) // may be nil

	mu      sync.Mutex // guards the fields below
	ring    ring
	line    []byte // the bytes since the last newline
	queue   []string
	second  time.Time // start of the current second
	told    int       // lines in it
	dropped int
	note    *time.Timer // reports dropped lines when no more arrive
	over    bool
	wake    chan struct{} // capacity 1
}

func newJournal(tell func(string)) *journal {
	return &journal{tell: tell, wake: make(chan struct{}, 1)}
}

// Write receives what the child wrote.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring.writeRing(p)
	if j.tell == nil {
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		room := longestLine - len(j.line)
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if len(line) > room {
			line, after, ended = rest[:room], rest[room:], true
		}
		j.line, rest = append(j.line, line...), after
		if ended {
			j.endLine()
		}
	}
	return len(p), nil
}

// endLine queues the line for the callback, or drops it. j.mu is held.
func (j *journal) endLine() {
	line := harmless.Text(string(bytes.TrimSuffix(j.line, []byte("\r"))))
	j.line = j.line[:0]
	if now := time.Now(); now.Sub(j.second) >= time.Second {
		j.noteDropped()
		j.second, j.told = now, 0
	}
	if j.told >= linesASec || len(j.queue) >= queuedLines {
		j.dropLines()
		return
	}
	j.told++
	j.enqueue(line)
}

// dropLines counts a dropped line, and ensures that the count is reported. j.mu is held.
func (j *journal) dropLines() {
	j.dropped++
	if j.note == nil && !j.over {
		j.note = time.AfterFunc(time.Second, func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.note = nil
			j.noteDropped()
		})
	}
}

// noteDropped queues a line with the number of lost lines. j.mu is held.
func (j *journal) noteDropped() {
	if j.dropped > 0 {
		j.enqueue(fmt.Sprintf("%d lines dropped", j.dropped))
		j.dropped = 0
	}
}

func (j *journal) enqueue(line string) {
	j.queue = append(j.queue, line)
	select {
	case j.wake <- struct{}{}:
	default: // already awake
	}
}

// runJournal passes the lines to the callback until close, on the goroutine of the caller.
func (j *journal) runJournal() {
	for {
		j.mu.Lock()
		lines, over := j.queue, j.over
		j.queue = nil
		j.mu.Unlock()
		for _, line := range lines {
			_ = rescue.Run(nil, func() { j.tell(line) }) // the next line comes anyway
		}
		if len(lines) > 0 {
			continue
		}
		if over {
			return
		}
		<-j.wake
	}
}

// closeJournal queues what is left, after the last Write.
func (j *journal) closeJournal() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.line) > 0 && j.tell != nil {
		j.endLine()
	}
	j.noteDropped()
	if j.note != nil {
		j.note.Stop()
	}
	j.over = true
	select {
	case j.wake <- struct{}{}:
	default: // already awake
	}
}

// last returns the last n bytes, or all.
func (j *journal) last(n int) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ring.last(n)
}

// A ring stores the last keptStderr bytes. It grows as they arrive.
type ring struct {
	b    []byte
	next int // position of the next byte once b is full
}

func (r *ring) writeRing(p []byte) {
	if len(p) > keptStderr {
		p = p[len(p)-keptStderr:]
	}
	if room := keptStderr - len(r.b); room > 0 {
		n := min(room, len(p))
		r.b, p = append(r.b, p[:n]...), p[n:]
	}
	for len(p) > 0 {
		n := copy(r.b[r.next:], p)
		p = p[n:]
		r.next = (r.next + n) % keptStderr
	}
}

func (r *ring) last(n int) []byte {
	all := append(bytes.Clone(r.b[r.next:]), r.b[:r.next]...)
	return all[max(0, len(all)-n):]
}
