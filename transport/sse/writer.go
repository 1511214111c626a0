package sse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ContentType is the media type of an event stream.
const ContentType = "text/event-stream"

// AppendEvent adds an event to dst as it stands on the wire. An event without data gets one empty line of data, since one
// with none would not be seen. A line end in the type, and one or a NUL in the id, are errors.
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

// WriterOptions tune NewWriter. The zero value is ready for use.
type WriterOptions struct {
	// KeepAlive is how long the stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// Timeout bounds each write. Zero means 10 s. A client that does not take its bytes in that time loses the stream.
	Timeout time.Duration
}

// A Writer sends events as the answer to one HTTP request. Its methods may be called from many goroutines; events go out
// whole, one after the other, each with one write and at once.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	every   time.Duration
	timeout time.Duration

	mu      sync.Mutex // guards what is below, up to the blank line; held for no write
	stopped bool
	gone    bool // the HTTP handler may have returned

	turn chan struct{} // of one. Whoever has put something in may write and use the fields below
	buf  []byte
	open bool        // the headers are out
	done bool        // Finish was called
	err  error       // of the first write that failed
	tick *time.Timer // sends comments; nil before the first write
}

// NewWriter makes a Writer for the answer w. Nothing is sent before Open or the first event. It must be finished before the HTTP
// handler returns.
func NewWriter(w http.ResponseWriter, o *WriterOptions) *Writer {
	if o == nil {
		o = &WriterOptions{}
	}
	s := &Writer{
		w:       w,
		control: http.NewResponseController(w),
		every:   o.KeepAlive,
		timeout: o.Timeout,
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

// Open sends the headers, so that the client knows that the stream has begun.
func (s *Writer) Open(ctx context.Context) error {
	return s.send(ctx, true, func(dst []byte) ([]byte, error) { return dst, nil })
}

// Send sends events with one write. It waits for its turn until ctx ends; a write under way ends by the timeout. After
// Finish and Stop it returns jsonrpc.ErrClosed.
func (s *Writer) Send(ctx context.Context, events ...Event) error {
	return s.send(ctx, true, func(dst []byte) ([]byte, error) { return appendEvents(dst, events) })
}

// SetRetry tells the client how long to wait before it comes back after the stream has ended, in whole milliseconds.
func (s *Writer) SetRetry(ctx context.Context, d time.Duration) error {
	return s.send(ctx, true, func(dst []byte) ([]byte, error) {
		dst = strconv.AppendInt(append(dst, "retry: "...), d.Milliseconds(), 10)
		return append(dst, "\n\n"...), nil
	})
}

// Finish sends the last events, if any, and ends the stream: when it returns nobody uses the ResponseWriter any more.
// The last bytes leave when the HTTP handler returns, together with the end of the answer.
func (s *Writer) Finish(events ...Event) error {
	var err error
	if len(events) > 0 {
		err = s.send(context.Background(), false, func(dst []byte) ([]byte, error) { return appendEvents(dst, events) })
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.done = true
	if s.tick != nil {
		s.tick.Stop()
	}
	if s.open {
		_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // for what the server adds
	}
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	return err
}

// Stop is the interrupt: a write under way fails, and so do all that follow. Finish must still be called.
func (s *Writer) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.gone {
		return
	}
	s.stopped = true
	_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // without deadlines it ends by the server's own limits
}

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

// send waits for its turn and writes what add adds.
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

// write needs the turn. An error is the end of the stream: half an event may be out.
func (s *Writer) write(b []byte, flush bool) error {
	if !s.open {
		s.open = true
		setHeaders(s.w.Header())
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.timeout)) // without deadlines the server's own limits hold
	if s.isStopped() {
		return jsonrpc.ErrClosed // Stop came before the deadline, which would have hidden it
	}
	if len(b) > 0 {
		if _, err := s.w.Write(b); err != nil {
			return s.fail(err)
		}
	}
	if flush {
		if err := s.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return s.fail(err)
		}
		_ = s.control.SetWriteDeadline(time.Time{}) // HTTP/2 would end a silent stream with it
	}
	s.keepAlive()
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
	h["X-Accel-Buffering"] = []string{"no"} // nginx would hold events back
	delete(h, "Content-Length")
}

// keepAlive starts the time of silence anew.
func (s *Writer) keepAlive() {
	switch {
	case s.every < 0:
	case s.tick == nil:
		s.tick = time.AfterFunc(s.every, s.comment)
	default:
		s.tick.Reset(s.every)
	}
}

// comment runs on the timer's goroutine. When somebody else is writing the stream is not silent.
func (s *Writer) comment() {
	select {
	case s.turn <- struct{}{}:
	default:
		return // whoever writes starts the time anew
	}
	defer func() { <-s.turn }()
	if s.done || s.err != nil || s.isStopped() {
		return
	}
	_ = s.write([]byte(": keep-alive\n\n"), true) // the next event reports it
}
