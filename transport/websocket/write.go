package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Write sends each payload of b as a text message of one frame, all in one system call up to 256 KiB. It implements
// jsonrpc.Transport; b is not changed. A write to the network that takes longer than [Options.WriteTimeout], or
// fails, ends the connection.
func (t *Transport) Write(b jsonrpc.Burst) error {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	waiting, err := t.takeControls()
	if err != nil {
		return err
	}
	if t.begun { // the rest of b goes in front of all else
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
		return t.send(nil)
	}
	return out.err
}

// TryWrite sends b if it fits into one buffer and nothing else is being written, as far as that goes without waiting. On TLS and other
// connections that are no sockets it sends nothing.
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
		t.begun, t.rest = true, bytes.Clone(p[n:]) // the frames cannot be made again: their masks are random
	}
	return false
}

// A writer collects frames in a lent buffer and sends them when it is full or flushed. It belongs to the holder of the turn.
type writer struct {
	t    *Transport
	lent *buffer
	used int
	err  error
}

// writer makes a writer for about size bytes.
func (t *Transport) writer(size int) writer {
	return writer{t: t, lent: lend(min(size, writeSize))}
}

// frame adds one whole frame. A client masks it with a fresh key from the runtime's ChaCha8, which is seeded by the
// operating system: nobody can foresee it (RFC 6455, section 5.3).
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
			w.send(payload)
			return
		}
	}
}

func (w *writer) flush() {
	if w.used > 0 {
		w.send(w.lent.bytes[:w.used])
		w.used = 0
	}
}

func (w *writer) send(p []byte) {
	if w.err == nil {
		w.err = w.t.send(p)
	}
}

// send writes p to the network, by the holder of the turn, behind what TryWrite has left. When it fails the connection is over.
func (t *Transport) send(p []byte) error {
	if rest := t.rest; rest != nil {
		t.rest = nil
		if err := t.send(rest); err != nil {
			return err
		}
	}
	n, err := t.out.try(p) // nearly always all of it, and no deadline has to be set
	if err == nil && n < len(p) {
		err = t.wait(p[n:])
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
	_ = t.partLocked(farewell{kind: abrupt}, fmt.Errorf("websocket: write: %w", err)) // an earlier cause holds
	return t.whyLocked()
}

// wait writes p, which is more than the kernel has room for.
func (t *Transport) wait(p []byte) error {
	if t.settings.write > 0 {
		_ = t.conn.SetWriteDeadline(time.Now().Add(t.settings.write)) // a connection without deadlines has no bound
		defer func() { _ = t.conn.SetWriteDeadline(time.Time{}) }()   // the next try is not to be late
	}
	_, err := t.conn.Write(p)
	return err
}

// A control is a ping or a pong that waits to be written.
type control struct {
	op      opcode
	payload []byte
}

// maxControls bounds what waits. Past it the oldest pong goes: an endpoint may answer the latest of several pings
// alone (RFC 6455, section 5.5.3).
const maxControls = 32

// queue has c written soon, by whoever writes next. The reader does not: two readers that
// wait for each other's sockets would never read again.
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

// flushControls writes what waits, unless a Write took it along.
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

// takeControls returns what waits to be written, or why nothing can be.
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

// why is the cause of the end, as Read returns it.
func (t *Transport) why() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cause
}

// whyLocked is the cause of the end, as Write returns it: a peer that has left in peace is no end of a file to a writer.
func (t *Transport) whyLocked() error {
	if t.cause == io.EOF { //nolint:errorlint // set by stop, never wrapped
		return jsonrpc.ErrClosed
	}
	return t.cause
}
