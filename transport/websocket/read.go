package websocket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// maxFragments bounds the frames of one message.
const maxFragments = 1024

// Read returns the next message. It implements jsonrpc.Transport: the payload is valid until the next Read, and more
// tells that another whole message is already here.
//
// After the peer has closed with 1000, 1001 or no code it returns io.EOF, with another code a *[CloseError]; a connection
// that ends without a closing handshake is a CloseError with [CloseAbnormal]. What the peer did wrong is a final
// *jsonrpc.FrameError. After Close it returns jsonrpc.ErrClosed. Every error is final and is returned again. The
// peer's close frame, and its mistakes, are answered with one by Close: until then answers can still be written.
func (t *Transport) Read() (payload []byte, more bool, err error) {
	if t.over.Load() { // the lock may be the farewell's
		return nil, false, t.why()
	}
	t.reading.Lock()
	defer t.reading.Unlock()
	for {
		if t.over.Load() {
			return nil, false, t.why()
		}
		payload, err := t.message()
		if err != nil {
			return nil, false, t.stop(err)
		}
		if !blank(payload, 0) {
			return payload, t.in.more(!t.client), nil
		}
	}
}

// A reader puts frames together to messages. All bytes lie in one buffer: first the message so far, its frame headers
// taken out, then those that were not looked at yet.
type reader struct {
	source source
	lent   *buffer // nil while nothing is here
	buf    []byte

	start, end  int // buf[start:end] is the message so far
	valid       int // buf[start:valid] is known to be UTF-8
	next, limit int // buf[next:limit] was not looked at

	left      int64 // bytes of the current data frame that were not looked at
	open      bool  // a message has begun and not ended
	fragments int   // of that message

	timed bool // the message, or the frame, at hand has its deadline
	armed bool // the connection has a read deadline

	pings bucket
}

// init makes a reader that begins with rest.
func (in *reader) init(conn net.Conn, rest []byte) {
	in.source.init(conn)
	if len(rest) > 0 {
		in.lent = lend(max(len(rest), readSize))
		in.buf = in.lent.bytes
		in.limit = copy(in.buf, rest)
	}
}

func (in *reader) rest() []byte { return in.buf[in.next:in.limit] }

// message returns the next message, which may be empty.
func (t *Transport) message() ([]byte, error) {
	in := &t.in
	in.forget()
	for {
		h, n, bad := parseHeader(in.rest(), !t.client)
		if bad != nil {
			return nil, bad
		}
		whole := n > 0 && (!h.op.control() || int64(in.limit-in.next-n) >= h.length)
		if !whole { // a control frame is short: it is taken all at once
			if err := t.fill(); err != nil {
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
		if bad := in.begin(h, t.settings.max); bad != nil {
			return nil, bad
		}
		if err := t.data(h); err != nil {
			return nil, err
		}
		if h.fin {
			in.open, in.timed, in.fragments = false, false, 0
			return in.buf[in.start:in.end], nil
		}
	}
}

// begin checks whether a data frame may stand here.
func (in *reader) begin(h header, limit int64) *violation {
	switch {
	case h.op == opContinuation && !in.open:
		return protocolError("a continuation of nothing")
	case h.op != opContinuation && in.open:
		return protocolError("a new message within another")
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
		if err := t.fill(); err != nil {
			return err
		}
	}
}

// more reports whether the unread bytes hold another whole message for Read, without taking it. It sees frames that
// cannot stand here, so that what was answered before them still goes out; text that is not UTF-8 it does not.
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

// blank reports whether p, under the mask key, is white space of JSON alone.
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

// forget gives up the message that was handed out last, and the buffer if nothing else is in it.
func (in *reader) forget() {
	in.start, in.end, in.valid = in.next, in.next, in.next
	if in.next == in.limit && in.lent != nil {
		in.lent.giveBack()
		in.lent, in.buf = nil, nil
		in.start, in.end, in.valid, in.next, in.limit = 0, 0, 0, 0, 0
	}
}

// fill waits for bytes and puts them behind those that are here.
func (t *Transport) fill() error {
	in := &t.in
	t.patience(in.open || in.next < in.limit)
	if in.lent != nil && in.limit == len(in.buf) {
		in.room()
	}
	for {
		n, err := in.source.read(t.conn, in)
		if n > 0 { // an error that came along comes again
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

// room makes place at the end of the buffer: what was read and taken goes first, then the buffer grows. It grows by what has
// come, not by what a header promises: nobody gets memory for a length alone.
func (in *reader) room() {
	to, grown := in.buf, (*buffer)(nil)
	if used := in.end - in.start + in.limit - in.next; used > len(in.buf)*3/4 {
		size := 4 * len(in.buf)
		if need := int64(in.end-in.start) + in.left; in.left > 0 && need < int64(size) {
			size = max(int(need), len(in.buf)+readSize)
		}
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

// patience sets the deadline of a message when the first of its bytes is here and others are awaited, and takes it
// away when none is. Messages that come whole, which is most, cost nothing.
func (t *Transport) patience(partial bool) {
	in := &t.in
	switch {
	case t.settings.frame < 0:
	case partial && !in.timed:
		in.timed, in.armed = true, true
		t.readDeadline(time.Now().Add(t.settings.frame))
	case !partial && in.armed:
		in.timed, in.armed = false, false
		t.readDeadline(time.Time{})
	}
}

func (t *Transport) readDeadline(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ending { // then the deadline is the farewell's
		_ = t.conn.SetReadDeadline(at) // a connection without deadlines has no bound
	}
}

// control handles a control frame of the peer.
func (t *Transport) control(op opcode, payload []byte) error {
	switch op {
	case opPing:
		if !t.in.pings.take(time.Now()) {
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

// stop ends the connection for an error of message and returns what Read says from now on.
func (t *Transport) stop(err error) error {
	if bad, ok := errors.AsType[*violation](err); ok {
		return t.part(farewell{kind: failing, code: bad.code, reason: bad.reason}, final(bad))
	}
	if said, ok := errors.AsType[*CloseError](err); ok {
		cause := error(said)
		switch said.Code {
		case CloseNormal, CloseGoingAway, CloseNoStatus:
			cause = io.EOF
		}
		return t.part(farewell{kind: replying, code: said.Code}, cause)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		late := &violation{code: ClosePolicy, reason: "a message that took too long"}
		return t.part(farewell{kind: failing, code: late.code, reason: late.reason}, final(late))
	}
	if errors.Is(err, io.EOF) {
		return t.part(farewell{kind: abrupt}, &CloseError{Code: CloseAbnormal})
	}
	return t.part(farewell{kind: abrupt}, fmt.Errorf("websocket: read: %w", err))
}
