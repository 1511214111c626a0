package websocket

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Code is the reason why a connection was closed (RFC 6455, section 7.4.1, and IANA's registry).
type Code uint16

const (
	CloseNormal        Code = 1000
	CloseGoingAway     Code = 1001 // a server stops, a page is left
	CloseProtocolError Code = 1002
	CloseUnsupported   Code = 1003 // such as a binary message
	CloseNoStatus      Code = 1005 // never sent: the close frame had no code
	CloseAbnormal      Code = 1006 // never sent: there was no close frame
	CloseInvalidData   Code = 1007 // text that is not UTF-8
	ClosePolicy        Code = 1008
	CloseTooBig        Code = 1009
	CloseTryLater      Code = 1013 // overloaded, or the peer reads too slowly
)

// sendable reports whether a close frame may contain c: the defined codes that are not for local
// use, and the codes of libraries and applications.
func (c Code) sendable() bool {
	switch {
	case 1000 <= c && c <= 1003, 1007 <= c && c <= 1014, 3000 <= c && c <= 4999:
		return true
	}
	return false
}

// A CloseError reports how the peer ended the connection.
type CloseError struct {
	Code   Code
	Reason string // text from the peer, at most 123 bytes of UTF-8
}

func (e *CloseError) Error() string {
	switch {
	case e.Code == CloseAbnormal:
		return "websocket: the connection ended without a closing handshake"
	case e.Reason == "":
		return fmt.Sprintf("websocket: closed by the peer with %d", e.Code)
	}
	return fmt.Sprintf("websocket: closed by the peer with %d: %.64q", e.Code, e.Reason)
}

// Unwrap returns io.ErrUnexpectedEOF for an end without a closing handshake.
func (e *CloseError) Unwrap() error {
	if e.Code == CloseAbnormal {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Close ends the connection with code 1000, or with the code set by [Transport.SetClose]. It waits
// for the closing handshake, at most [Options.CloseTimeout], and unblocks Read at once and Write
// within that time. It is safe for concurrent use and may be called more than once; all calls wait
// and return nil.
func (t *Transport) Close() error {
	t.mu.Lock()
	_ = t.startCloseLocked(t.closeWith, jsonrpc.ErrClosed) // an earlier cause takes precedence
	t.mu.Unlock()
	<-t.done
	return nil
}

// CloseWith is Close with a code and a reason, which is cut to 123 bytes: 1001 when a server stops,
// 1008 for a rule that was broken, 1013 for a peer that reads too slowly. It fails only for a code
// that may not be sent, and then does nothing. If the peer closed first, or broke the rules, the
// code is not sent.
func (t *Transport) CloseWith(code Code, reason string) error {
	if err := t.SetClose(code, reason); err != nil {
		return err
	}
	return t.Close()
}

// SetClose sets the code and the reason of a later Close, for code that does not call Close itself:
// a server that stops sets 1001 and lets the Conn close when its calls are done. It fails for a
// code that may not be sent.
func (t *Transport) SetClose(code Code, reason string) error {
	if !code.sendable() {
		return fmt.Errorf("websocket: close code %d must not be sent", code)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closeWith = closeMode{kind: asking, code: code, reason: reason}
	return nil
}

// A closeMode is the way in which a connection ends. The first cause decides: Close, the peer, a
// violation by the peer, or a network that fails.
type closeMode struct {
	kind   kind
	code   Code
	reason string
}

type kind int

const (
	asking   kind = iota // this side closes first and waits for the peer's close frame
	replying             // the peer's close frame has arrived
	failing              // the peer broke the rules: nothing that it sends can be interpreted
	abrupt               // nothing can be sent
)

// startClose ends the reading with a cause and returns the effective cause: this one, or an earlier
// one. If the peer ended the connection, writing continues until Close or for CloseTimeout, so that
// responses to earlier requests are still sent (RFC 6455, section 5.5.1, permits delaying the reply
// to a close frame for them).
func (t *Transport) startClose(f closeMode, cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.startCloseLocked(f, cause)
}

func (t *Transport) startCloseLocked(f closeMode, cause error) error {
	if t.cause == nil {
		t.cause, t.last = cause, f
		t.over.Store(true)
		if t.timer != nil {
			t.timer.Stop()
		}
		if f.kind == replying || f.kind == failing {
			t.timer = time.AfterFunc(t.settings.close, t.startHandshake)
			return cause
		}
	}
	if f.kind == abrupt {
		t.last = f
	}
	t.startHandshakeLocked()
	return t.cause
}

func (t *Transport) startHandshake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startHandshakeLocked()
}

// startHandshakeLocked starts the closing handshake.
func (t *Transport) startHandshakeLocked() {
	if t.ending {
		return
	}
	t.ending = true
	if t.timer != nil {
		t.timer.Stop()
	}
	t.in.counted.Close() // what is read from now on is dropped
	// wakes Read; the closing handshake has its own timer
	_ = t.conn.SetReadDeadline(time.Unix(1, 0))
	go t.runHandshake(t.last)
}

// runHandshake performs the closing handshake and closes the connection, within CloseTimeout. The
// channel done is closed when it returns.
func (t *Transport) runHandshake(f closeMode) {
	defer close(t.done)
	if f.kind == abrupt {
		t.cutOff()
	} else {
		bound := time.AfterFunc(t.settings.close, t.cutOff) // ends every read and write below
		defer bound.Stop()
		if t.writeCloseFrame(f) {
			t.linger(f)
		}
	}
	_ = t.conn.Close() // the error can no longer be reported
	t.flushes.Wait()
}

// cutOff closes the connection below TLS, which would otherwise first send its own close message.
func (t *Transport) cutOff() {
	if c, ok := t.conn.(interface{ NetConn() net.Conn }); ok {
		_ = c.NetConn().Close() // the error can no longer be reported
		return
	}
	_ = t.conn.Close() // the error can no longer be reported
}

// writeCloseFrame writes the close frame, after the pongs that wait, and reports whether it
// succeeded.
func (t *Transport) writeCloseFrame(f closeMode) bool {
	t.turn <- struct{}{}
	defer func() { <-t.turn }()
	if t.torn {
		return false
	}
	t.mu.Lock()
	waiting := t.controls
	t.controls = nil
	t.mu.Unlock()

	out := t.writer((maxHeader + maxControl) * (len(waiting) + 1))
	defer out.lent.giveBack()
	for _, c := range waiting {
		out.frame(c.op, c.payload)
	}
	out.frame(opClose, appendClose(nil, f.code, f.reason))
	out.flush()
	return out.err == nil
}

// linger waits until the peer has read what was sent: a socket that is closed while bytes arrive is
// reset, and the peer may then never receive the close frame. The server ends its side first (RFC
// 6455, section 7.1.1).
func (t *Transport) linger(f closeMode) {
	t.reading.Lock() // Read is over, or has just been woken
	defer t.reading.Unlock()
	_ = t.conn.SetReadDeadline(time.Time{}) // the timer of run bounds everything below
	if f.kind == asking && !t.awaitClose() {
		return
	}
	if !t.client {
		half, ok := t.conn.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, t.conn) // waits only for the end of the connection
}

// awaitClose reads and drops frames until the peer's close frame, unless Read has read that. It
// continues where Read was woken.
func (t *Transport) awaitClose() bool {
	in := &t.in
	if in.closed {
		return true
	}
	in.detach()
	skip := in.left
	in.open, in.left = false, 0
	for {
		n := min(skip, int64(in.limit-in.next))
		in.next += int(n)
		skip -= n
		in.forgetPayload()
		if skip == 0 {
			h, n, bad := parseHeader(in.rest(), !t.client)
			switch {
			case bad != nil || h.op == opClose && n > 0:
				return bad == nil
			case n > 0:
				in.next += n
				skip = h.length
				continue
			}
		}
		if t.skim() != nil {
			return false
		}
	}
}

// detach moves the unread bytes to another buffer. The old one is not returned to the pool: the
// caller of Read may still use the message in it.
func (in *reader) detach() {
	if in.lent == nil {
		return
	}
	rest := in.rest()
	in.lent = lend(max(len(rest), waitSize))
	in.buf = in.lent.bytes
	in.start, in.end, in.valid, in.next, in.limit = 0, 0, 0, 0, copy(in.buf, rest)
}

// skim is fill without deadlines, for bytes that are discarded.
func (t *Transport) skim() error {
	in := &t.in
	if in.lent != nil && in.limit == len(in.buf) {
		in.room(len(in.buf))
	}
	for {
		n, err := in.source.read(t.conn, in)
		in.limit += n
		if n > 0 || err != nil {
			return err
		}
	}
}

// final returns an error after which Read cannot continue. The close frame reports it to the peer.
func final(bad *violation) error {
	return &jsonrpc.FrameError{Final: true, Err: bad}
}
