package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// serverSide is the Transport of one conversation: POSTs come in by a line, answers go out as events.
type serverSide struct {
	ctx    context.Context // of the GET: ends when the client goes away
	caller string
	events *Writer
	line   *line
}

// Read takes the next message of the line. After the client went away, those that are still there come before io.EOF.
func (s *serverSide) Read() (payload []byte, more bool, err error) {
	return s.line.take(s.ctx)
}

// Write sends each payload as an event of type message, all with one write.
func (s *serverSide) Write(b jsonrpc.Burst) error {
	if len(b.Ends) == 0 {
		return nil
	}
	events := make([]Event, 0, len(b.Ends))
	for payload := range b.All() {
		events = append(events, Event{Type: "message", Data: payload})
	}
	err := s.events.Send(s.ctx, events...)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && !s.line.over():
		err = jsonrpc.ErrSlowPeer
	}
	_ = s.Close() // half an event may be out: nothing can follow it
	return fmt.Errorf("sse: %w", err)
}

// TryWrite sends nothing: an HTTP response cannot be asked whether a write would wait.
func (s *serverSide) TryWrite(jsonrpc.Burst) bool { return false }

// Close ends the conversation for both sides of it. The stream itself ends when Serve returns.
func (s *serverSide) Close() error {
	s.line.end(fmt.Errorf("sse: %w", jsonrpc.ErrClosed))
	s.events.Stop()
	return nil
}

// A line is what was posted and not yet read: at most maxLine messages, of at most lineBytes together unless it is a
// single one. Whoever puts in more waits.
type line struct {
	room chan struct{} // of one; says that there may be room
	work chan struct{} // of one; says that there may be something to read

	mu    sync.Mutex // guards what is below
	items [][]byte
	bytes int
	err   error // set: nothing more is put in or taken out
}

const (
	maxLine   = 64
	lineBytes = 1 << 20
)

func newLine() *line {
	return &line{room: make(chan struct{}, 1), work: make(chan struct{}, 1)}
}

// signal wakes one waiter, now or when it comes.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// put waits for room, until ctx ends.
func (l *line) put(ctx context.Context, payload []byte) error {
	for {
		ok, err := l.tryPut(payload)
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

func (l *line) tryPut(payload []byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		signal(l.room) // for the next one who waits
		return false, l.err
	}
	if len(l.items) > 0 && (len(l.items) >= maxLine || l.bytes+len(payload) > lineBytes) {
		return false, nil
	}
	l.items = append(l.items, payload)
	l.bytes += len(payload)
	signal(l.work)
	if len(l.items) < maxLine {
		signal(l.room) // one signal may have been for two
	}
	return true, nil
}

// take waits for a payload. ctx is the peer: after its end what is in line is still handed out.
func (l *line) take(ctx context.Context) (payload []byte, more bool, err error) {
	for {
		payload, more, err := l.tryTake()
		if payload != nil || err != nil {
			return payload, more, err
		}
		select {
		case <-l.work:
		case <-ctx.Done():
			payload, more, err := l.tryTake() // it may have come at the same time
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
	if l.err != nil {
		signal(l.work)
		return nil, false, l.err
	}
	if len(l.items) == 0 {
		return nil, false, nil
	}
	payload = l.items[0]
	l.items[0] = nil
	l.items = l.items[1:]
	l.bytes -= len(payload)
	signal(l.room)
	if payload == nil {
		payload = []byte{}
	}
	return payload, len(l.items) > 0, nil
}

// end makes err the answer to everybody; the first one stays.
func (l *line) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = err
	l.items, l.bytes = nil, 0
	signal(l.room)
	signal(l.work)
}

func (l *line) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}
