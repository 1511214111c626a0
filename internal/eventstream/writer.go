package eventstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// AppendEvent appends the encoding of an event to dst. An event without data gets one empty line of
// data, since clients ignore an event without one. A line end in the type, and a line end or a NUL
// in the ID, are errors.
func AppendEvent(dst []byte, e Event) ([]byte, error) {
	if strings.ContainsAny(e.Type, "\r\n") || strings.ContainsAny(e.ID, "\r\n\x00") {
		return dst, errors.New("sse: a line end in the type or the id of an event")
	}
	if e.Type != "" {
		dst = append(append(append(dst, "event: "...), e.Type...), '\n')
	}
	if e.ID != "" {
		dst = append(append(append(dst, "id: "...), e.ID...), '\n')
	}
	for rest := e.Data; ; {
		dst = append(dst, "data: "...)
		at := lineEnd(rest, 0)
		if at < 0 {
			dst = append(append(dst, rest...), '\n')
			break
		}
		dst = append(append(dst, rest[:at]...), '\n')
		if bytes.HasPrefix(rest[at:], []byte("\r\n")) {
			at++
		}
		rest = rest[at+1:]
	}
	return append(dst, '\n'), nil
}

// WriterOptions configure NewWriter. The zero value is ready for use.
type WriterOptions struct {
	// KeepAlive is how long the stream may be silent before a comment is sent. Zero means 15 s,
	// negative means never.
	KeepAlive time.Duration

	// Timeout bounds the time in which a client takes nothing, of each 64 KiB that are written. Zero
	// means 10 s. After it the stream ends.
	Timeout time.Duration

	// Unread, if not nil, counts the bytes of events on their way: it is called with their number
	// before they wait for their turn, and with its negative when they are written or have failed.
	// It may be called by several goroutines at once.
	Unread func(n int)
}

// A Writer sends events as the response to one HTTP request. Its methods are safe for concurrent
// use; events are sent whole, one after the other, each with one write and at once.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	every   time.Duration
	timeout time.Duration
	unread  func(n int) // may be nil

	mu      sync.Mutex // guards the fields below, up to the blank line; not held during a write
	stopped bool
	gone    bool // the HTTP handler may have returned

	// capacity 1. The goroutine that filled it may write and use the fields below
	turn chan struct{}
	buf  []byte
	open bool        // the headers are sent
	done bool        // Finish was called
	err  error       // of the first write that failed
	tick *time.Timer // sends comments; nil before the first write

	pieces atomic.Uint64 // whose writing has begun
}

// NewWriter returns a Writer for the response w. Nothing is sent before Open or the first event. It
// must be finished before the HTTP handler returns.
func NewWriter(w http.ResponseWriter, o *WriterOptions) *Writer {
	if o == nil {
		o = &WriterOptions{}
	}
	s := &Writer{
		w:       w,
		control: http.NewResponseController(w),
		every:   o.KeepAlive,
		timeout: o.Timeout,
		unread:  o.Unread,
		turn:    make(chan struct{}, 1),
	}
	if s.every == 0 {
		s.every = 15 * time.Second
	}
	if s.timeout <= 0 {
		s.timeout = 10 * time.Second
	}
	return s
}

// Open sends the headers, so that the client detects the start of the stream.
func (s *Writer) Open(ctx context.Context) error {
	return s.send(ctx, true, func(dst []byte) ([]byte, error) { return dst, nil })
}

// Send sends events with one write. It waits for its turn until ctx ends; the timeout ends a write
// under way. After Finish and Stop it returns jsonrpc.ErrClosed.
func (s *Writer) Send(ctx context.Context, events ...Event) error {
	defer s.count(events)()
	return s.send(ctx, true, func(dst []byte) ([]byte, error) { return appendEvents(dst, events) })
}

// count counts events as being written, until the returned function is called.
func (s *Writer) count(events []Event) (written func()) {
	if s.unread == nil {
		return func() {}
	}
	n := 0
	for _, e := range events {
		n += len(e.Data)
	}
	s.unread(n)
	return func() { s.unread(-n) }
}

// SetRetry sends how long the client should wait before it reconnects after the end of the stream,
// in whole milliseconds.
func (s *Writer) SetRetry(ctx context.Context, d time.Duration) error {
	return s.send(ctx, true, func(dst []byte) ([]byte, error) {
		dst = strconv.AppendInt(append(dst, "retry: "...), d.Milliseconds(), 10)
		return append(dst, "\n\n"...), nil
	})
}

// Finish sends the last events, if any, and ends the stream: when it returns, the ResponseWriter is
// no longer used. The last bytes are sent when the HTTP handler returns, together with the end of
// the response.
func (s *Writer) Finish(events ...Event) error {
	var err error
	if len(events) > 0 {
		defer s.count(events)()
		err = s.send(context.Background(), false, func(dst []byte) ([]byte, error) { return appendEvents(dst, events) })
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.done = true
	if s.tick != nil {
		s.tick.Stop()
	}
	if s.open {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // for what the server appends
	}
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	return err
}

// Last is Finish for a stream whose HTTP handler does not return: its bytes are sent at once.
func (s *Writer) Last(events ...Event) {
	_ = s.Send(context.Background(), events...) // if the client is gone, the error has no receiver
	_ = s.Finish()
}

// Stop interrupts: a write under way fails, and so do all later ones. Finish must still be called.
func (s *Writer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.gone {
		return
	}
	s.stopped = true
	// without deadlines the server's own limits end it
	_ = s.control.SetWriteDeadline(time.Unix(1, 0))
}

// WrittenBytes grows whenever the client has taken a piece of a long write. It is the method of
// [jsonrpc.WriteCounter].
func (s *Writer) WrittenBytes() uint64 { return s.pieces.Load() * progress.Piece }

func (s *Writer) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func appendEvents(dst []byte, events []Event) ([]byte, error) {
	for _, e := range events {
		var err error
		if dst, err = AppendEvent(dst, e); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// send waits for its turn and writes the result of add.
func (s *Writer) send(ctx context.Context, flush bool, add func([]byte) ([]byte, error)) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	if s.done || s.isStopped() {
		return jsonrpc.ErrClosed
	}
	if s.err != nil {
		return s.err
	}
	out, err := add(s.buf[:0])
	if err != nil {
		return err
	}
	if s.buf = out; cap(s.buf) > 64<<10 {
		s.buf = nil
	}
	return s.write(out, flush)
}

// write requires the turn. An error is the end of the stream: half an event may be sent.
func (s *Writer) write(b []byte, flush bool) error {
	if !s.open {
		s.open = true
		setHeaders(s.w.Header())
		s.w.WriteHeader(http.StatusOK)
	}
	if err := s.renew(); err != nil {
		return err
	}
	if len(b) > 0 {
		if _, err := progress.Write(s.w, b, s.renew); err != nil {
			return s.fail(err)
		}
	}
	if flush {
		if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return s.fail(err)
		}
		// HTTP/2 would otherwise end a silent stream with it
		_ = s.control.SetWriteDeadline(time.Time{})
	}
	s.keepAlive()
	return nil
}

// renew gives the next piece its time.
func (s *Writer) renew() error {
	s.pieces.Add(1)
	// without deadlines the server's own limits hold
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout))
	if s.isStopped() {
		return jsonrpc.ErrClosed // Stop came before the deadline, which would have hidden it
	}
	return nil
}

func (s *Writer) fail(err error) error {
	s.err = fmt.Errorf("sse: write: %w", err)
	return s.err
}

func setHeaders(h http.Header) {
	h["Content-Type"] = []string{ContentType}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx would buffer events
	delete(h, "Content-Length")
}

// keepAlive restarts the timer of the silence.
func (s *Writer) keepAlive() {
	switch {
	case s.every < 0:
	case s.tick == nil:
		s.tick = time.AfterFunc(s.every, s.comment)
	default:
		s.tick.Reset(s.every)
	}
}

// comment runs on the timer's goroutine. If another goroutine is writing, the stream is not silent.
func (s *Writer) comment() {
	defer rescue.Catch(nil, nil) // of an http.ResponseWriter
	select {
	case s.turn <- struct{}{}:
	default:
		return // the writing goroutine restarts the timer
	}
	defer func() { <-s.turn }()
	if s.done || s.err != nil || s.isStopped() {
		return
	}
	_ = s.write([]byte(": keep-alive\n\n"), true) // the next event reports it
}
