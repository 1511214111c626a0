package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// serverSide is the Transport of one conversation: POSTs arrive through a queue, responses are sent
// as events.
type serverSide struct {
	ctx    context.Context // of the GET: ends when the client disconnects
	caller string
	events *eventstream.Writer
	line   *line
}

// Read returns the next message of the queue. After the client has disconnected, the queued
// messages are returned before io.EOF.
func (s *serverSide) Read() (payload []byte, more bool, err error) {
	return s.line.take(s.ctx)
}

// WrittenBytes grows whenever the client has taken a piece of a long write. It implements
// [jsonrpc.WriteCounter].
func (s *serverSide) WrittenBytes() uint64 { return s.events.WrittenBytes() }

// Write sends each payload as an event of type message, all with one write.
func (s *serverSide) Write(b jsonrpc.Burst) error {
	if len(b.Ends) == 0 {
		return nil
	}
	events := make([]eventstream.Event, 0, len(b.Ends))
	for payload := range b.All() {
		events = append(events, eventstream.Event{Type: "message", Data: payload})
	}
	err := s.events.Send(s.ctx, events...)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && !s.line.over():
		err = jsonrpc.ErrSlowPeer
	}
	_ = s.Close() // half an event may be sent: nothing can follow it
	return fmt.Errorf("sse: %w", err)
}

// TryWrite sends nothing: an HTTP response cannot report whether a write would wait.
func (s *serverSide) TryWrite(jsonrpc.Burst) bool { return false }

// Close ends the conversation for both sides. The stream itself ends when Serve returns.
func (s *serverSide) Close() error {
	s.line.end(fmt.Errorf("sse: %w", jsonrpc.ErrClosed))
	s.events.Stop()
	return nil
}

// A line is a queue of posted messages: at most maxLine messages, with at most lineBytes in total
// unless it is a single one. put waits while it is full.
type line struct {
	room chan struct{} // capacity 1; signals that there may be room
	work chan struct{} // capacity 1; signals that there may be something to read

	mu    sync.Mutex // guards the fields below
	items []posted
	bytes int
	taken func() // releases the memory of the payload that was taken last; nil without one
	err   error  // if set, nothing more is put in or taken out
}

// A posted message, and what releases its memory.
type posted struct {
	payload []byte
	release func()
}

const (
	maxLine   = 64
	lineBytes = 1 << 20
)

func newLine() *line {
	return &line{room: make(chan struct{}, 1), work: make(chan struct{}, 1)}
}

// signal wakes one waiter, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put waits for room, until ctx ends. If it succeeds, the line calls release when the payload is no
// longer needed.
func (l *line) put(ctx context.Context, payload []byte, release func()) error {
	for {
		ok, err := l.tryPut(posted{payload, release})
		if ok || err != nil {
			return err
		}
		select {
		case <-l.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *line) tryPut(p posted) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		signal(l.room) // for the next waiter
		return false, l.err
	}
	if len(l.items) > 0 && (len(l.items) >= maxLine || l.bytes+len(p.payload) > lineBytes) {
		return false, nil
	}
	l.items = append(l.items, p)
	l.bytes += len(p.payload)
	signal(l.work)
	if len(l.items) < maxLine {
		signal(l.room) // one signal may have been for two
	}
	return true, nil
}

// take waits for a payload. ctx is the peer's: after its end the queued payloads are still
// returned.
func (l *line) take(ctx context.Context) (payload []byte, more bool, err error) {
	for {
		payload, more, err := l.tryTake()
		if payload != nil || err != nil {
			return payload, more, err
		}
		select {
		case <-l.work:
		case <-ctx.Done():
			payload, more, err := l.tryTake() // it may have arrived at the same time
			if payload == nil && err == nil {
				err = io.EOF
			}
			return payload, more, err
		}
	}
}

func (l *line) tryTake() (payload []byte, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseTaken()
	if l.err != nil {
		signal(l.work)
		return nil, false, l.err
	}
	if len(l.items) == 0 {
		return nil, false, nil
	}
	payload, l.taken = l.items[0].payload, l.items[0].release
	l.items[0] = posted{}
	l.items = l.items[1:]
	l.bytes -= len(payload)
	signal(l.room)
	if payload == nil {
		payload = []byte{}
	}
	return payload, len(l.items) > 0, nil
}

// releaseTaken releases the memory of the payload that was taken last. The lock is held.
func (l *line) releaseTaken() {
	if l.taken != nil {
		l.taken()
		l.taken = nil
	}
}

// end sets err as the result of all later calls; the first error is retained.
func (l *line) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	l.releaseTaken()
	for _, p := range l.items {
		p.release()
	}
	l.items, l.bytes = nil, 0
	signal(l.room)
	signal(l.work)
}

func (l *line) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}
