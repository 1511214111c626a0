package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// traceToStderr is the value of --trace without a file.
const traceToStderr = "-"

// A tracer tells each message that passes: for people on stderr, or in a session file.
type tracer struct {
	w       io.Writer
	close   func() error
	asLines bool // for people
	palette palette

	mu      sync.Mutex // guards what is below, and keeps lines whole
	waiting map[waitKey]sent
	seq     int64  // of the file
	entry   []byte // of the file, while it is made
}

type waitKey struct {
	out bool // who asked: we
	id  string
}

type sent struct {
	method string
	at     time.Time
}

// maxWaiting bounds the questions that a tracer remembers until their answer. Past it, answers are told without a method.
const maxWaiting = 65_536

func (a *app) tracer(flag, colour string) (*tracer, error) {
	t := &tracer{waiting: make(map[waitKey]sent)}
	if flag == traceToStderr {
		t.w, t.asLines, t.close = a.stderr, true, func() error { return nil }
		wants, err := a.wantsColour(colour, isTerminal(a.stderr))
		if wants {
			t.palette = colours
		}
		return t, err
	}
	f, err := os.OpenFile(flag, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, usagef("--trace: %v", err)
	}
	t.w, t.close = f, f.Close
	return t, nil
}

// see is a parley.Tap.
func (t *tracer) see(f parley.Frame) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asLines {
		t.tell(f)
	} else {
		t.record(f)
	}
}

// record writes one line of a session file, as parley tap --record does; parley replay and the page open it.
func (t *tracer) record(f parley.Frame) {
	e := capture.Event{Time: f.Time, Kind: capture.KindMessage, Dir: capture.In, Conn: 1, Data: f.Payload, Size: len(f.Payload)}
	if f.Out {
		e.Dir = capture.Out
	}
	t.seq++
	e.Seq = t.seq
	t.entry = t.entry[:0]
	if t.seq == 1 {
		t.entry = capture.AppendHeader(t.entry)
	}
	t.entry = capture.AppendLine(t.entry, &e)
	_, _ = t.w.Write(t.entry) // a full disk must not stop the call
}

// tell writes a line for each message of the payload.
func (t *tracer) tell(f parley.Frame) {
	first := true
	bad := jsonrpc.Scan(f.Payload, func(m *jsonrpc.Message) {
		size := ""
		if first { // a batch is measured once
			size = bytesOf(len(f.Payload))
		}
		first = false
		t.line(f, t.describe(f, m), size)
	})
	if bad != nil && first {
		t.line(f, described{what: "no message: " + visible(string(f.Payload), 60)}, bytesOf(len(f.Payload)))
	}
}

// described is what a trace says of one message.
type described struct {
	what string // method, or what is known instead
	id   string
	took string
	note string // how it ended
}

func (t *tracer) describe(f parley.Frame, m *jsonrpc.Message) described {
	id := m.ID.String()
	if m.Request {
		d := described{what: visible(m.Method, 60), id: id}
		switch {
		case m.Bad != nil:
			d.note = "not valid"
		case m.ID.IsZero():
			d.note = "notification"
		case len(t.waiting) < maxWaiting:
			t.waiting[waitKey{f.Out, id}] = sent{m.Method, f.Time}
		}
		return d
	}
	d := described{what: "?", id: id, note: "ok"}
	key := waitKey{!f.Out, id}
	if asked, ok := t.waiting[key]; ok {
		delete(t.waiting, key)
		d.what = visible(asked.method, 60)
		d.took = milliseconds(f.Time.Sub(asked.at))
	}
	if m.Error != nil {
		var e struct {
			Code json.Number `json:"code"`
		}
		_ = json.Unmarshal(m.Error, &e) // what cannot be read is told without a code
		d.note = "error " + e.Code.String()
	}
	if m.Bad != nil {
		d.note = "not valid"
	}
	return d
}

func (t *tracer) line(f parley.Frame, d described, size string) {
	arrow, colour := "←", t.palette.number
	if f.Out {
		arrow, colour = "→", t.palette.name
	}
	id := ""
	if d.id != "" {
		id = "id " + visible(d.id, 24)
	}
	text := fmt.Sprintf("%-20s %-8s %10s %9s  %s", d.what, id, d.took, size, d.note)
	fmt.Fprintf(t.w, "%s%s%s %s\n", colour, arrow, t.palette.end, strings.TrimRight(text, " "))
}

func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}

func bytesOf(n int) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// visible is text for one line of a terminal, at most n letters long.
func visible(text string, n int) string {
	text = string(appendHarmless(nil, []byte(strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(strings.ToValidUTF8(text, "\uFFFD")))))
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
