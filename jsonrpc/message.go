package jsonrpc

import (
	"bytes"
	"context"
)

// Raw is JSON text that is known to be valid. It is what params, results and error data stay until someone needs their
// fields, and it goes out again byte for byte. Raw(b) of bytes that nobody checked is a promise; [ParseRaw] checks.
type Raw []byte

// ParseRaw checks that text is exactly one JSON value (RFC 8259) in valid UTF-8, and returns it.
func ParseRaw(text []byte) (Raw, error) {
	s := defaultScanner()
	start := skipSpace(text, 0)
	end, err := s.value(text, start)
	if err != nil {
		return nil, err
	}
	if rest := skipSpace(text, end); rest != len(text) {
		return nil, &SyntaxError{Offset: rest, Reason: "text after the value"}
	}
	return Raw(text[start:end]), nil
}

// Decode reads the value into v, as strictly as a typed handler does: exact-case names, no member twice.
func (r Raw) Decode(v any) error { return decodeValue(r, v) }

// Clone copies the text.
func (r Raw) Clone() Raw { return bytes.Clone(r) }

// MarshalJSON writes the text as it is.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON keeps a copy of the text.
func (r *Raw) UnmarshalJSON(text []byte) error {
	*r = bytes.Clone(text)
	return nil
}

// A Request asks for a method (JSON-RPC 2.0, section 4); without an ID it is a notification.
//
// In a [Handler] the request and its Params are yours until Handle returns: Clone to keep them.
type Request struct {
	ID     ID
	Method string
	Params Raw // an object or an array; nil when absent or null

	idText Raw     // the text of ID as it came
	origin *origin // where it came from; nil for a request made by hand
}

// IsNotification reports whether nobody waits for an answer.
func (r *Request) IsNotification() bool { return r.ID.IsZero() }

// Clone copies the request, so that it may be kept after Handle has returned. The copy keeps its Peer.
func (r *Request) Clone() *Request {
	c := &Request{ID: r.ID, Method: r.Method, Params: r.Params.Clone()}
	if o := r.origin; o != nil {
		r.Peer()
		c.origin = &origin{a: o.a, x: o.x, run: o.run, batched: o.batched}
		c.origin.peer.Store(o.peer.Load())
	}
	return c
}

// A Peer is the other side as seen from here. It is safe for concurrent use.
type Peer interface {
	// Call asks for method and decodes the answer into result, unless that is nil. An answer that is an
	// error is returned as *Error; every other error is this side's own. If ctx ends first the call is abandoned and the
	// peer is told so where the protocol has a message for it.
	Call(ctx context.Context, method string, params, result any) error

	// Stream is Call for a method that notifies about itself before it answers. on gets those notifications
	// in wire order, on the caller's goroutine, all of them before Stream returns. An error from on abandons
	// the call. Up to 256 notifications may wait for on; one more ends the call with ErrLagging.
	Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error

	// Notify sends method and returns once the message is queued in order. Nobody answers a notification
	// (JSON-RPC 2.0, section 4.1).
	Notify(ctx context.Context, method string, params any) error
}

// Call asks p for method and returns the answer as an Out.
func Call[Out any](ctx context.Context, p Peer, method string, params any) (Out, error) {
	var out Out
	err := p.Call(ctx, method, params, &out)
	return out, err
}

// An Item is one message to send, and what became of it: a member of a batch, or a single call that
// needs more than [Peer.Call] takes.
type Item struct {
	Method string
	Params any // encoded by the codec; nil for no params
	Result any // where the result goes; nil to drop it
	Notify bool

	// ID replaces the next number as the id of the call. Whoever chooses ids keeps them apart: a second call in
	// flight with the same one fails.
	ID ID

	// On gets the notifications about this call, as in [Peer.Stream]. It is not available in a batch.
	On func(*Request) error

	Err error // what Call would have returned; set by the call
}

// A Version of the protocol: which members a message must have.
type Version uint8

// JSON-RPC 1.0 (2005) is spoken only where it was switched on. It has no "jsonrpc" member, a notification has
// id null, params are an array, and a response has both result and error.
const (
	Version2 Version = iota // 2.0, the zero value
	Version1                // 1.0, and 2.0 for messages that say so
)
