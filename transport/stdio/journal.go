package stdio

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds of what is kept and told of a child's stderr.
const (
	keptStderr  = 256 << 10 // bytes
	longestLine = 8 << 10   // bytes; a longer one is told in pieces
	linesASec   = 1000
	queuedLines = 1000 // that wait for a callback that is slow
)

// A journal takes what a child writes to its stderr. It never waits: what nobody can take is dropped and counted, for a
// child that writes must not stand still because we do.
type journal struct {
	tell func(line string) // nil: nobody wants lines

	mu      sync.Mutex // guards what follows
	ring    ring
	line    []byte // what came since the last newline
	queue   []string
	second  time.Time // when the current one began
	told    int       // lines in it
	dropped int
	note    *time.Timer // tells of dropped lines when no more come
	over    bool
	wake    chan struct{} // of one place
}

func newJournal(tell func(string)) *journal {
	return &journal{tell: tell, wake: make(chan struct{}, 1)}
}

// Write takes what the child wrote.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ring.write(p)
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

// endLine tells the line, or drops it. j.mu is held.
func (j *journal) endLine() {
	line := escape(bytes.TrimSuffix(j.line, []byte("\r")))
	j.line = j.line[:0]
	if now := time.Now(); now.Sub(j.second) >= time.Second {
		j.noteDropped()
		j.second, j.told = now, 0
	}
	if j.told >= linesASec || len(j.queue) >= queuedLines {
		j.drop()
		return
	}
	j.told++
	j.enqueue(line)
}

// drop counts a line, and sees to it that somebody hears of it. j.mu is held.
func (j *journal) drop() {
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

// noteDropped tells how many lines were lost. j.mu is held.
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
	default: // is awake already
	}
}

// run tells the lines until close, on the goroutine of the caller.
func (j *journal) run() {
	for {
		j.mu.Lock()
		lines, over := j.queue, j.over
		j.queue = nil
		j.mu.Unlock()
		for _, line := range lines {
			j.tell(line)
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

// close tells what is left, after the last Write.
func (j *journal) close() {
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
	default: // is awake already
	}
}

// last returns the last n bytes, or all.
func (j *journal) last(n int) []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ring.last(n)
}

// A ring keeps the last keptStderr bytes. It grows as they come.
type ring struct {
	b    []byte
	next int // where the next byte goes once b is full
}

func (r *ring) write(p []byte) {
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

// escape makes a line safe to show: control characters, which could move the cursor or colour a terminal, and bytes that
// are no UTF-8 become visible.
func escape(line []byte) string {
	safe := func(r rune) bool { return r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f) || r == '\t' }
	if utf8.Valid(line) && bytes.IndexFunc(line, func(r rune) bool { return !safe(r) }) < 0 {
		return string(line)
	}
	var b strings.Builder
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, line[0])
		case !safe(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
		line = line[n:]
	}
	return b.String()
}

// escapeText is escape for several lines.
func escapeText(text []byte) string {
	var b strings.Builder
	for line := range bytes.Lines(text) {
		rest, ended := bytes.CutSuffix(line, []byte("\n"))
		b.WriteString(escape(bytes.TrimSuffix(rest, []byte("\r"))))
		if ended {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
