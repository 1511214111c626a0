package jsonrpc

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// SimpleOptions configure [Simple]. The zero value is ready for use.
type SimpleOptions struct {
	// MaxMessage bounds one received message, in bytes. Zero means 4 MiB, negative means no bound.
	// A longer one is dropped and answered with -32600. The memory of a message is allocated by
	// receive, which should check the length that a peer announces against the same bound.
	MaxMessage int64

	// WriteTimeout bounds one send. Zero means 10 s, negative means no bound. When it expires, the
	// transport is closed and the Write returns ErrSlowPeer.
	WriteTimeout time.Duration

	// Report, if set, is called with "panic" if close panics after WriteTimeout. If nil, slog's
	// default logger logs it.
	Report func(what string, err error)
}

// Simple returns a [Transport] made of three functions: receive returns the next message, which
// must stay valid until the next call, and io.EOF after the peer has closed; send sends one message
// and must not retain it; close interrupts both and is called once.
//
// One goroutine calls receive while another calls send. Each message is one call of send; a
// Transport of your own can send many messages at once, and can implement TryWrite so that short
// responses need no other goroutine.
func Simple(receive func() ([]byte, error), send func(message []byte) error, close func() error, o *SimpleOptions) Transport {
	t := &simple{receive: receive, send: send, max: 4 << 20, timeout: 10 * time.Second}
	t.close = sync.OnceValue(close)
	if o == nil {
		return t
	}
	t.report = o.Report
	if o.MaxMessage != 0 {
		t.max = o.MaxMessage
	}
	if o.WriteTimeout != 0 {
		t.timeout = o.WriteTimeout
	}
	return t
}

type simple struct {
	receive func() ([]byte, error)
	send    func([]byte) error
	close   func() error
	report  func(what string, err error)
	max     int64         // of a message, in bytes; negative means no bound
	timeout time.Duration // of a send; negative means no bound
	cut     *time.Timer   // closes the transport at the end of timeout; created by the first Write
	written atomic.Uint64
}

func (t *simple) Read() (payload []byte, more bool, err error) {
	payload, err = t.receive()
	if err == nil && t.max >= 0 && int64(len(payload)) > t.max {
		err = fmt.Errorf("jsonrpc: message of %d bytes, at most %d are accepted: %w", len(payload), t.max, ErrTooLarge)
		return nil, false, &FrameError{Answer: ErrInvalidRequest, Err: err}
	}
	return payload, false, err
}

func (t *simple) TryWrite(Burst) bool { return false }

func (t *simple) Write(b Burst) error {
	for message := range b.All() {
		if err := t.sendInTime(message); err != nil {
			_ = t.close() // a part of the message may be sent: nothing can follow it
			return err
		}
		t.written.Add(uint64(len(message)) + 1)
	}
	return nil
}

func (t *simple) sendInTime(message []byte) error {
	if t.timeout < 0 {
		return t.send(message)
	}
	if t.cut == nil {
		t.cut = time.AfterFunc(t.timeout, t.interrupt)
	} else {
		t.cut.Reset(t.timeout)
	}
	err := t.send(message)
	if !t.cut.Stop() {
		return fmt.Errorf("jsonrpc: nothing was sent for %v: %w", t.timeout, ErrSlowPeer)
	}
	return err
}

func (t *simple) interrupt() {
	_ = rescue.Run(t.report, func() { _ = t.close() })
}

func (t *simple) WrittenBytes() uint64 { return t.written.Load() }

func (t *simple) Close() error { return t.close() }
