package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// maxFragments bounds the frames of one message.
const maxFragments = 1024

// Read returns the next message. It implements jsonrpc.Transport: the payload is valid until the
// next Read, and more reports whether another whole message is already buffered.
//
// After the peer has closed with 1000, 1001 or no code it returns io.EOF, with another code a
// *[CloseError]; a connection that ends without a closing handshake is a CloseError with
// [CloseAbnormal]. A violation by the peer is a final *jsonrpc.FrameError. After Close it returns
// jsonrpc.ErrClosed. Every error is final and is returned again. The close frame that replies to
// the peer's close frame, or to its violation, is sent by Close: until then responses can still be
// written.
func (t *Transport) Read() (payload []byte, more bool, err error) {
	if t.over.Load() { // the closing handshake may hold the lock
		return nil, false, t.why()
	}
	t.reading.Lock()
	defer t.reading.Unlock()
	for {
		if t.over.Load() {
			return nil, false, t.why()
		}
		payload, err := t.readMessage()
		if err != nil {
			return nil, false, t.stopReading(err)
		}
		if !blank(payload, 0) {
			return payload, t.in.more(!t.client), nil
		}
	}
}

// A reader assembles frames to messages. All bytes are in one buffer: first the message so far,
// without its frame headers, then the unread bytes.
type reader struct {
	source source
	lent   *buffer // nil while nothing is buffered
	buf    []byte

	start, end  int // buf[start:end] is the message so far
	valid       int // buf[start:valid] is verified UTF-8
	next, limit int // buf[next:limit] is unread

	left      int64 // unread bytes of the current data frame
	open      bool  // a message has begun and not ended
	fragments int   // of that message

	counted budget.Arrival // counts lent
	began   time.Time      // of the deadline; later by the time that was spent waiting for room

	timed bool // the current message or frame has its deadline
	armed bool // the connection has a read deadline

	closed bool // the peer's close frame was read

	pings bucket
}

// init sets up a reader that begins with rest.
func (in *reader) init(conn net.Conn, rest []byte) {
	in.counted.From(conn)
	in.source.init(conn, &in.counted)
	if len(rest) > 0 {
		in.lent = lendCounted(&in.counted, max(len(rest), readSize), len(rest))
		in.buf = in.lent.bytes
		in.limit = copy(in.buf, rest)
	}
}

func (in *reader) rest() []byte { return in.buf[in.next:in.limit] }

// readMessage returns the next message, which may be empty.
func (t *Transport) readMessage() ([]byte, error) {
	in := &t.in
	in.forgetPayload()
	for {
		h, n, bad := parseHeader(in.rest(), !t.client)
		if bad != nil {
			return nil, bad
		}
		whole := n > 0 && (!h.op.control() || int64(in.limit-in.next-n) >= h.length)
		if !whole { // a control frame is short: it is read all at once
			if err := t.fillBuffer(); err != nil {
				return nil, err
			}
			continue
		}
		in.next += n

		if h.op.control() {
			payload := in.rest()[:h.length]
			xor(payload, payload, h.key)
			in.next += len(payload)
			in.timed = in.timed && in.open
			if err := t.control(h.op, payload); err != nil {
				return nil, err
			}
			continue
		}
		if bad := in.startFrame(h, t.settings.max); bad != nil {
			return nil, bad
		}
		if err := t.data(h); err != nil {
			return nil, err
		}
		if h.fin {
			in.open, in.timed, in.fragments = false, false, 0
			in.counted.Passed()
			return in.buf[in.start:in.end], nil
		}
	}
}

// startFrame checks whether a data frame is permitted here.
func (in *reader) startFrame(h header, limit int64) *violation {
	switch {
	case h.op == opContinuation && !in.open:
		return protocolError("a continuation without a message")
	case h.op != opContinuation && in.open:
		return protocolError("a new message inside another")
	case h.op == opBinary:
		return &violation{code: CloseUnsupported, reason: "a binary message"}
	case limit >= 0 && h.length > limit-int64(in.end-in.start):
		return tooBig("a message over the limit")
	case in.fragments == maxFragments:
		return tooBig("a message of more than 1,024 fragments")
	}
	in.open = true
	in.fragments++
	in.left = h.length
	return nil
}

// data appends the payload of a frame to the message, as it arrives.
func (t *Transport) data(h header) error {
	in := &t.in
	key := h.key
	for {
		n := int(min(in.left, int64(in.limit-in.next)))
		piece := in.buf[in.next : in.next+n]
		if !t.client {
			key = xor(in.buf[in.end:], piece, key)
		} else if in.end != in.next {
			copy(in.buf[in.end:], piece)
		}
		in.end += n
		in.next += n
		in.left -= int64(n)

		good, ok := textPrefix(in.buf[in.valid:in.end])
		in.valid += good
		if !ok || h.fin && in.left == 0 && in.valid < in.end {
			return invalidText("text that is not UTF-8")
		}
		if in.left == 0 {
			return nil
		}
		if err := t.fillBuffer(); err != nil {
			return err
		}
	}
}

// more reports whether the unread bytes contain another whole message for Read, without consuming
// it. It detects frames that are not permitted here, so that responses to earlier requests are
// still sent; it does not detect text that is not UTF-8.
func (in *reader) more(masked bool) bool {
	b, white, next := in.rest(), true, opText
	for {
		h, n, bad := parseHeader(b, masked)
		if bad != nil || n == 0 || int64(len(b)-n) < h.length || h.op == opClose {
			return false
		}
		payload := b[n : n+int(h.length)]
		b = b[n+int(h.length):]
		if h.op.control() {
			continue
		}
		if h.op != next {
			return false
		}
		white, next = white && blank(payload, h.key), opContinuation
		if h.fin {
			if !white {
				return true
			}
			next = opText
		}
	}
}

// blank reports whether p, under the mask key, is only JSON white space.
func blank(p []byte, key uint32) bool {
	for i, c := range p {
		switch c ^ byte(key>>(i&3*8)) {
		case ' ', '\t', '\r', '\n':
		default:
			return false
		}
	}
	return true
}

// forgetPayload drops the message that was returned last, and the buffer if it holds nothing else.
func (in *reader) forgetPayload() {
	in.start, in.end, in.valid = in.next, in.next, in.next
	if in.next == in.limit && in.lent != nil {
		in.lent.giveBack()
		in.counted.Hold(0)
		in.lent, in.buf = nil, nil
		in.start, in.end, in.valid, in.next, in.limit = 0, 0, 0, 0, 0
	}
}

// fillBuffer waits for bytes and appends them to the buffered ones.
func (t *Transport) fillBuffer() error {
	in := &t.in
	t.patience(in.open || in.next < in.limit)
	if in.lent != nil && in.limit == len(in.buf) {
		if err := t.waitForRoom(in.nextSize()); err != nil {
			return err
		}
		in.room(in.nextSize())
	}
	for {
		n, err := in.source.read(t.conn, in)
		if n > 0 { // an error that came with data is returned again by the next read
			in.limit += n
			if !t.heard.Load() {
				t.heard.Store(true)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// nextSize returns the size of the buffer in which reading continues when this one is full. It
// grows by the received bytes, not by the length in a header: a length alone gets no memory.
func (in *reader) nextSize() int {
	if used := in.end - in.start + in.limit - in.next; used <= len(in.buf)*3/4 {
		return len(in.buf)
	}
	size := 4 * len(in.buf)
	if need := int64(in.end-in.start) + in.left; in.left > 0 && need < int64(size) {
		size = max(int(need), len(in.buf)+readSize)
	}
	return lentSize(size)
}

// room frees space at the end of the buffer: it drops consumed bytes, and moves the others to a
// buffer of the given size if that is larger.
func (in *reader) room(size int) {
	to, grown := in.buf, (*buffer)(nil)
	if size > len(in.buf) {
		grown = lend(size)
		to = grown.bytes
	}
	end := copy(to, in.buf[in.start:in.end])
	limit := end + copy(to[end:], in.buf[in.next:in.limit])
	in.valid -= in.start
	in.start, in.end, in.next, in.limit = 0, end, end, limit
	if grown != nil {
		in.lent.giveBack()
		in.lent, in.buf = grown, grown.bytes
	}
}

// waitForRoom waits until a buffer of the given size may be used. The time of the message stands
// still meanwhile, and the peer does not count as silent.
func (t *Transport) waitForRoom(size int) error {
	in := &t.in
	if size == len(in.buf) || in.counted.Hold(size) {
		return nil
	}
	t.blocked.Store(true)
	waited, err := in.counted.Grow(size)
	t.heard.Store(true)
	t.blocked.Store(false)
	if waited > 0 && in.armed {
		in.began = in.began.Add(waited)
		t.readDeadline(in.began.Add(t.settings.frame))
	}
	return err
}

// patience sets the deadline of a message when its first byte has arrived and others are missing,
// and removes it when the message is complete. Messages that arrive whole, which is the usual case,
// cost nothing.
func (t *Transport) patience(partial bool) {
	in := &t.in
	switch {
	case t.settings.frame < 0:
	case partial && !in.timed:
		in.timed, in.armed, in.began = true, true, time.Now()
		t.readDeadline(in.began.Add(t.settings.frame))
	case !partial && in.armed:
		in.timed, in.armed = false, false
		t.readDeadline(time.Time{})
	}
}

func (t *Transport) readDeadline(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ending { // then the deadline belongs to the closing handshake
		_ = t.conn.SetReadDeadline(at) // a connection without deadlines has no bound
	}
}

// control handles a control frame of the peer.
func (t *Transport) control(op opcode, payload []byte) error {
	switch op {
	case opPing:
		if !t.in.pings.allow(time.Now()) {
			return &violation{code: ClosePolicy, reason: "too many pings"}
		}
		t.queue(control{opPong, bytes.Clone(payload)})
	case opClose:
		code, reason, bad := parseClose(payload)
		if bad != nil {
			return bad
		}
		return &CloseError{Code: code, Reason: reason}
	}
	return nil
}

// stopReading ends the connection for an error of message and returns the error for all later calls
// of Read.
func (t *Transport) stopReading(err error) error {
	if bad, ok := errors.AsType[*violation](err); ok {
		return t.startClose(closeMode{kind: failing, code: bad.code, reason: bad.reason}, final(bad))
	}
	if said, ok := errors.AsType[*CloseError](err); ok {
		t.in.closed = true
		cause := error(said)
		switch said.Code {
		case CloseNormal, CloseGoingAway, CloseNoStatus:
			cause = io.EOF
		}
		return t.startClose(closeMode{kind: replying, code: said.Code}, cause)
	}
	if errors.Is(err, budget.ErrNoRoom) {
		busy := &violation{code: CloseTryLater, reason: "too much is in memory"}
		return t.startClose(closeMode{kind: failing, code: busy.code, reason: busy.reason}, final(busy))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		late := &violation{code: ClosePolicy, reason: "a message that took too long"}
		return t.startClose(closeMode{kind: failing, code: late.code, reason: late.reason}, final(late))
	}
	if errors.Is(err, io.EOF) {
		return t.startClose(closeMode{kind: abrupt}, &CloseError{Code: CloseAbnormal})
	}
	return t.startClose(closeMode{kind: abrupt}, fmt.Errorf("websocket: read: %w", err))
}
