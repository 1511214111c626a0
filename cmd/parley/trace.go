package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/harmless"
	"github.com/da1ed7bb/parley/internal/x/secret"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// traceToStderr is the value of --trace without a file.
const traceToStderr = "-"

// A tracer prints each message on stderr, or records it in a session file.
type tracer struct {
	w       io.Writer // for people
	file    *capture.Recorder
	close   func() error
	asLines bool // for people
	palette palette
	trips   atomic.Int64 // payloads and HTTP requests that were sent
	watch   parley.Tap   // receives everything as well, with mu held; may be nil

	mu      sync.Mutex // guards the fields below, and prevents interleaved lines
	waiting map[waitKey]sent
}

type waitKey struct {
	out bool // we sent the request
	id  string
}

type sent struct {
	method string
	at     time.Time
}

// plainSecrets redacts secrets by name in bytes that are not a message.
var plainSecrets = secret.New(nil)

// maxWaiting is the maximum number of pending requests that a tracer remembers. Beyond it,
// responses are printed without a method.
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
	rec, err := capture.New(&capture.Options{File: flag, MaxRows: 100}) // its rows are not read
	if err != nil {
		return nil, fileError("--trace", flag, err)
	}
	a.tellName("--trace", flag, rec)
	a.hideIn(rec)
	t.file = rec
	t.close = func() error {
		if err := rec.Close(); err != nil { // a full disk must not fail the call
			fmt.Fprintf(a.stderr, "parley: --trace: %s\n", visible(strings.TrimPrefix(err.Error(), "capture: "), 300))
		}
		return nil
	}
	return t, nil
}

// again returns a tracer with its own count that writes to the same place. A nil tracer returns one
// that only counts.
func (t *tracer) again() *tracer {
	own := &tracer{waiting: make(map[waitKey]sent)}
	if t != nil {
		own.w, own.file, own.asLines, own.palette = t.w, t.file, t.asLines, t.palette
	}
	return own
}

// see implements parley.Tap.
func (t *tracer) see(f parley.Frame) {
	if f.Out {
		t.trips.Add(1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.watch != nil {
		t.watch(f)
	}
	switch {
	case t.asLines:
		t.tell(f)
	case t.file != nil:
		t.record(f)
	}
}

// note prints what is reached, and how. It does nothing for a nil tracer, and for one that writes a
// session file.
func (t *tracer) note(text string) {
	if t == nil || !t.asLines {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.w, "%s•%s %s\n", t.palette.mark, t.palette.end, visible(plainSecrets.Address(text), 300))
}

// transportOf names the transport to a target.
func transportOf(t parley.Target) string {
	framing := ", a message per line"
	if t.Framing == stream.Header {
		framing = ", Content-Length headers"
	}
	switch t.Scheme {
	case "http", "https":
		return "HTTP, a POST per message"
	case "sse+http", "sse+https":
		return "HTTP+SSE"
	case "ws", "wss":
		return "WebSocket"
	case "exec":
		return "stdin and stdout" + framing
	case "unix":
		return "a Unix socket" + framing
	case "tls":
		return "TLS" + framing
	}
	return "TCP" + framing
}

// record adds a message to the session file without secrets, as parley tap --record does. parley
// replay and the page can open the file.
func (t *tracer) record(f parley.Frame) {
	e := capture.Event{Time: f.Time, Kind: capture.KindMessage, Dir: capture.In, Conn: 1, Data: f.Payload, Size: len(f.Payload)}
	if f.Out {
		e.Dir = capture.Out
	}
	t.file.Add(e)
}

// tell prints a line for each message of the payload.
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
		t.line(f, described{what: "not a message: " + visible(string(plainSecrets.JSON(f.Payload)), 60)}, bytesOf(len(f.Payload)))
	}
}

// described is the description of one message in a trace.
type described struct {
	what string // the method, or a substitute if it is unknown
	id   string
	took string
	note string // how the call ended
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
		_ = json.Unmarshal(m.Error, &e) // an unreadable error is printed without a code
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

// visible returns text for one line of a terminal, at most n characters long.
func visible(text string, n int) string { return harmless.Cut(text, n) }
