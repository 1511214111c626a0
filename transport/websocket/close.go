package websocket

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Code is why a connection was closed (RFC 6455, section 7.4.1, and IANA's registry).
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

// sendable reports whether c may stand in a close frame: the codes that are defined and not for local use, and those of
// libraries and applications.
func (c Code) sendable() bool {
	switch {
	case 1000 <= c && c <= 1003, 1007 <= c && c <= 1014, 3000 <= c && c <= 4999:
		return true
	}
	return false
}

// A CloseError is how the peer ended the connection.
type CloseError struct {
	Code   Code
	Reason string // the peer's words, at most 123 bytes of UTF-8
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

// Unwrap makes an end without a closing handshake an io.ErrUnexpectedEOF.
func (e *CloseError) Unwrap() error {
	if e.Code == CloseAbnormal {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// Close ends the connection with code 1000, or what [Transport.SetClose] says. It waits for the closing handshake, at most
// [Options.CloseTimeout], and unblocks Read at once and Write within that time. It is safe to call from anywhere, more
// than once; all calls wait and return nil.
func (t *Transport) Close() error {
	t.mu.Lock()
	_ = t.partLocked(t.goodbye, jsonrpc.ErrClosed) // an earlier cause holds
	t.mu.Unlock()
	<-t.done
	return nil
}

// CloseWith is Close with a code and a reason, which is cut to 123 bytes: 1001 when a server stops, 1008 for a rule that was
// broken, 1013 for a peer that reads too slowly. It fails only for a code that may not be sent, and then does nothing.
// If the peer was first, or broke the rules, the code is not sent.
func (t *Transport) CloseWith(code Code, reason string) error {
	if err := t.SetClose(code, reason); err != nil {
		return err
	}
	return t.Close()
}

// SetClose sets the code and the reason of a later Close, for who does not call Close itself: a server that
// stops sets 1001 and lets the Conn close when its calls are done. It fails for a code that may not be sent.
func (t *Transport) SetClose(code Code, reason string) error {
	if !code.sendable() {
		return fmt.Errorf("websocket: close code %d must not be sent", code)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goodbye = farewell{kind: asking, code: code, reason: reason}
	return nil
}

// A farewell is how a connection ends. There is one, whoever comes first: Close, the peer, the peer's mistake, or a
// network that fails.
type farewell struct {
	kind   kind
	code   Code
	reason string
}

type kind int

const (
	asking   kind = iota // we close first: the peer's close frame is awaited
	replying             // the peer's close frame is here
	failing              // the peer broke the rules: nothing it sends is understood any more
	abrupt               // nothing can be sent
)

// part ends the reading with a cause and returns the one that holds: this one, or an earlier one. If it is the peer
// that ended it, writing goes on until Close or for CloseTimeout, so that answers to what came before still go out
// (RFC 6455, section 5.5.1, lets the reply to a close frame wait for them).
func (t *Transport) part(f farewell, cause error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.partLocked(f, cause)
}

func (t *Transport) partLocked(f farewell, cause error) error {
	if t.cause == nil {
		t.cause, t.last = cause, f
		t.over.Store(true)
		if t.timer != nil {
			t.timer.Stop()
		}
		if f.kind == replying || f.kind == failing {
			t.timer = time.AfterFunc(t.settings.close, t.leave)
			return cause
		}
	}
	if f.kind == abrupt {
		t.last = f
	}
	t.leaveLocked()
	return t.cause
}

func (t *Transport) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveLocked()
}

// leaveLocked begins the farewell.
func (t *Transport) leaveLocked() {
	if t.ending {
		return
	}
	t.ending = true
	if t.timer != nil {
		t.timer.Stop()
	}
	_ = t.conn.SetReadDeadline(time.Unix(1, 0)) // wakes Read; the farewell is bounded by its own timer
	go t.run(t.last)
}

// run says goodbye and closes the connection, in CloseTimeout. It is the goroutine that done tells the end of.
func (t *Transport) run(f farewell) {
	defer close(t.done)
	if f.kind == abrupt {
		t.cut()
	} else {
		bound := time.AfterFunc(t.settings.close, t.cut) // ends every read and write below
		defer bound.Stop()
		if t.sayClose(f) {
			t.linger(f)
		}
	}
	_ = t.conn.Close() // there is nobody left to tell
	t.flushes.Wait()
}

// cut closes the connection under TLS, which would first try to say goodbye itself.
func (t *Transport) cut() {
	if c, ok := t.conn.(interface{ NetConn() net.Conn }); ok {
		_ = c.NetConn().Close() // there is nobody left to tell
		return
	}
	_ = t.conn.Close() // there is nobody left to tell
}

// sayClose writes the close frame, behind the pongs that wait, and reports whether it could.
func (t *Transport) sayClose(f farewell) bool {
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

// linger waits until the peer has read what was sent: a socket that is closed while bytes come in is reset, and the peer may
// then never see the close frame. The server ends its side first (RFC 6455, section 7.1.1).
func (t *Transport) linger(f farewell) {
	t.reading.Lock() // Read is over, or has just been woken
	defer t.reading.Unlock()
	_ = t.conn.SetReadDeadline(time.Time{}) // the timer of run bounds all that follows
	if f.kind == asking && !t.awaitClose() {
		return
	}
	if !t.client {
		half, ok := t.conn.(interface{ CloseWrite() error })
		if !ok || half.CloseWrite() != nil {
			return
		}
	}
	_, _ = io.Copy(io.Discard, t.conn) // only its end matters
}

// awaitClose reads frames, and drops them, until the peer's close frame. It goes on where Read was woken.
func (t *Transport) awaitClose() bool {
	in := &t.in
	in.detach()
	skip := in.left
	in.open, in.left = false, 0
	for {
		n := min(skip, int64(in.limit-in.next))
		in.next += int(n)
		skip -= n
		in.forget()
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

// detach moves what was not looked at to another buffer. The old one is not given back: whoever called Read may still
// use the message in it.
func (in *reader) detach() {
	if in.lent == nil {
		return
	}
	rest := in.rest()
	in.lent = lend(max(len(rest), waitSize))
	in.buf = in.lent.bytes
	in.start, in.end, in.valid, in.next, in.limit = 0, 0, 0, 0, copy(in.buf, rest)
}

// skim is fill without deadlines, for bytes that nobody will see.
func (t *Transport) skim() error {
	in := &t.in
	if in.lent != nil && in.limit == len(in.buf) {
		in.room()
	}
	for {
		n, err := in.source.read(t.conn, in)
		in.limit += n
		if n > 0 || err != nil {
			return err
		}
	}
}

// final makes an error one that Read cannot go on behind. The peer is told by the close frame.
func final(bad *violation) error {
	return &jsonrpc.FrameError{Final: true, Err: bad}
}
