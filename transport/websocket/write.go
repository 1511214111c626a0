package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Write sends each payload of b as a text message of one frame, all in one system call up to 256
// KiB. It implements jsonrpc.Transport; b is not changed. A write to the network that takes longer
// than [Options.WriteTimeout], or fails, ends the connection.
func (t *Transport) Write(b jsonrpc.Burst) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	waiting, err := t.takeControls()
	if err != nil {
		return err
	}
	if t.begun { // the rest of b is sent first
		t.begun, b = false, jsonrpc.Burst{}
	}

	out := t.writer(len(b.Bytes) + maxHeader*(len(b.Ends)+len(waiting)) + maxControl*len(waiting))
	defer out.lent.giveBack()
	for _, c := range waiting {
		out.frame(c.op, c.payload)
	}
	for payload := range b.All() {
		out.frame(opText, payload)
	}
	out.flush()
	if out.err == nil && t.rest != nil {
		return t.sendFrames(nil)
	}
	return out.err
}

// TryWrite sends b if it fits into one buffer and no other write is under way, as far as that is
// possible without waiting. On TLS and other connections that are not sockets it sends nothing.
func (t *Transport) TryWrite(b jsonrpc.Burst) bool {
	size := len(b.Bytes) + maxHeader*(len(b.Ends)+1)
	if !t.out.can() || size > writeSize {
		return false
	}
	select {
	case t.turn <- struct{}{}:
	default:
		return false
	}
	defer func() { <-t.turn }()
	t.mu.Lock()
	busy := t.ending || len(t.controls) > 0
	t.mu.Unlock()
	if busy || t.rest != nil {
		return false
	}
	out := t.writer(size)
	defer out.lent.giveBack()
	for payload := range b.All() {
		out.frame(opText, payload)
	}
	p := out.lent.bytes[:out.used]
	n, err := t.out.try(p)
	if err == nil && n == len(p) {
		return true
	}
	if n > 0 {
		// the frames cannot be built again: their masks are random
		t.begun, t.rest = true, bytes.Clone(p[n:])
	}
	return false
}

// A writer collects frames in a borrowed buffer and sends them when it is full or flushed. It
// belongs to the holder of the turn.
type writer struct {
	t    *Transport
	lent *buffer
	used int
	err  error
}

// writer returns a writer for about size bytes.
func (t *Transport) writer(size int) writer {
	return writer{t: t, lent: lend(min(size, writeSize))}
}

// frame adds one whole frame. A client masks it with a new key from the runtime's ChaCha8, which
// the operating system seeds: the key is unpredictable (RFC 6455, section 5.3).
func (w *writer) frame(op opcode, payload []byte) {
	if len(w.lent.bytes)-w.used < maxHeader {
		w.flush()
	}
	var key uint32
	if w.t.client {
		key = rand.Uint32()
	}
	buf := w.lent.bytes
	w.used = len(appendHeader(buf[:w.used], op, len(payload), w.t.client, key))
	for {
		n := min(len(payload), len(buf)-w.used)
		if w.t.client {
			key = xor(buf[w.used:], payload[:n], key)
		} else {
			copy(buf[w.used:], payload[:n])
		}
		w.used += n
		if payload = payload[n:]; len(payload) == 0 {
			return
		}
		w.flush()
		if !w.t.client && len(payload) >= writeSize { // need not be copied
			w.sendBytes(payload)
			return
		}
	}
}

func (w *writer) flush() {
	if w.used > 0 {
		w.sendBytes(w.lent.bytes[:w.used])
		w.used = 0
	}
}

func (w *writer) sendBytes(p []byte) {
	if w.err == nil {
		w.err = w.t.sendFrames(p)
	}
}

// sendFrames writes p to the network, after the rest that TryWrite has left. The caller holds the
// turn. If send fails, the connection is over.
func (t *Transport) sendFrames(p []byte) error {
	if rest := t.rest; rest != nil {
		t.rest = nil
		if err := t.sendFrames(rest); err != nil {
			return err
		}
	}
	n, err := t.out.try(p) // nearly always all of it, and no deadline has to be set
	if err == nil && n < len(p) {
		err = t.waitWritable(p[n:])
	}
	if err == nil {
		return nil
	}
	t.torn = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = jsonrpc.ErrSlowPeer
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// an earlier cause takes precedence
	_ = t.startCloseLocked(closeMode{kind: abrupt}, fmt.Errorf("websocket: write: %w", err))
	return t.whyLocked()
}

// waitWritable writes p, for which the kernel has no room.
func (t *Transport) waitWritable(p []byte) error {
	if t.settings.write > 0 {
		// the next try is not to be late
		defer func() { _ = t.conn.SetWriteDeadline(time.Time{}) }()
	}
	if !t.out.can() {
		return progress.Burst(t.conn, p, t.renewDeadline)
	}
	_, err := progress.Write(t.conn, p, t.renewDeadline)
	return err
}

// renewDeadline gives the next piece its time.
func (t *Transport) renewDeadline() error {
	if t.settings.write > 0 {
		// a connection without deadlines has no bound
		_ = t.conn.SetWriteDeadline(time.Now().Add(t.settings.write))
	}
	t.steps.Add(1)
	return nil
}

// WrittenBytes grows whenever the peer has taken something that a Write waited for. It implements
// jsonrpc.WriteCounter.
func (t *Transport) WrittenBytes() uint64 { return t.steps.Load() * progress.Piece }

// A control is a ping or a pong that waits to be written.
type control struct {
	op      opcode
	payload []byte
}

// maxControls bounds the waiting control frames. Above it the oldest pong is dropped: an endpoint
// may respond to only the latest of several pings (RFC 6455, section 5.5.3).
const maxControls = 32

// queue schedules c for the next write, by any goroutine. The reader does not write it: two readers
// that wait for each other's sockets would never read again.
func (t *Transport) queue(c control) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queueLocked(c)
}

func (t *Transport) queueLocked(c control) {
	if t.ending {
		return
	}
	if len(t.controls) == maxControls {
		t.controls = append(t.controls[:0], t.controls[1:]...)
	}
	t.controls = append(t.controls, c)
	if !t.flushing {
		t.flushing = true
		t.flushes.Go(t.flushControls)
	}
}

// flushControls writes the waiting control frames, unless a Write has already sent them.
func (t *Transport) flushControls() {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	t.mu.Lock()
	t.flushing = false
	t.mu.Unlock()
	waiting, err := t.takeControls()
	if err != nil || len(waiting) == 0 {
		return
	}
	out := t.writer((maxHeader + maxControl) * len(waiting))
	defer out.lent.giveBack()
	for _, c := range waiting {
		out.frame(c.op, c.payload)
	}
	out.flush()
}

// takeControls returns the control frames that wait to be written, or the reason why nothing can be
// written.
func (t *Transport) takeControls() ([]control, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return nil, t.whyLocked()
	}
	waiting := t.controls
	t.controls = nil
	return waiting, nil
}

// why returns the cause of the end, as Read returns it.
func (t *Transport) why() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// whyLocked returns the cause of the end, as Write returns it: for a writer, a peer that closed
// normally is not io.EOF.
func (t *Transport) whyLocked() error {
	if t.cause == io.EOF { //nolint:errorlint // set by stop, never wrapped
		return jsonrpc.ErrClosed
	}
	return t.cause
}
