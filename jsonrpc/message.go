package jsonrpc

import (
	"bytes"
	"context"
)

// Raw is valid JSON text. Params, results and error data are Raw until their fields are needed, and
// are sent byte for byte. A conversion Raw(b) does not check b; use [ParseRaw] for unchecked bytes.
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

// Decode decodes the value into v as strictly as a typed handler: member names are case-sensitive
// and must not repeat.
func (r Raw) Decode(v any) error { return decodeValue(r, v) }

// Clone copies the text.
func (r Raw) Clone() Raw { return bytes.Clone(r) }

// MarshalJSON returns the text unchanged.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON stores a copy of the text.
func (r *Raw) UnmarshalJSON(text []byte) error {
	*r = bytes.Clone(text)
	return nil
}

// A Request calls a method (JSON-RPC 2.0, section 4). Without an ID it is a notification.
//
// In a [Handler] the request and its Params are valid until Handle returns. Clone the request to
// retain it.
type Request struct {
	ID     ID
	Method string
	Params Raw // an object or an array; nil when absent or null

	idText Raw     // the original text of ID
	origin *origin // its origin; nil for a request that was not received
}

// IsNotification reports whether the request has no ID, and so no response.
func (r *Request) IsNotification() bool { return r.ID.IsZero() }

// Clone copies the request, so that it can be retained after Handle has returned. The copy has the
// same Peer.
func (r *Request) Clone() *Request {
	c := &Request{ID: r.ID, Method: r.Method, Params: r.Params.Clone()}
	if o := r.origin; o != nil {
		r.Peer()
		c.origin = &origin{a: o.a, x: o.x, run: o.run, batched: o.batched}
		c.origin.quick.Store(o.quick.Load())
	}
	return c
}

// A Peer is the other side of a connection. It is safe for concurrent use.
type Peer interface {
	// Call calls method and decodes the result into result, unless that is nil. An error response
	// is returned as *Error; every other error is of this side. If ctx ends first, the call is
	// abandoned, and the peer is notified if the protocol has a message for it.
	Call(ctx context.Context, method string, params, result any) error

	// Stream is Call for a method that sends notifications about the call before its response. on
	// is called with those notifications in wire order, on the caller's goroutine, and for all of
	// them before Stream returns. If on returns an error, the call is abandoned. Up to 256
	// notifications of 8 MiB in total may wait for on; one more ends the call with ErrLagging, and
	// those that wait are dropped (Limits.Events, Limits.EventBytes).
	Stream(ctx context.Context, method string, params, result any, on func(*Request) error) error

	// Notify sends a notification and returns once the message is queued in order. Notifications
	// have no response (JSON-RPC 2.0, section 4.1).
	Notify(ctx context.Context, method string, params any) error
}

// Call calls method on p and returns the result as an Out.
func Call[Out any](ctx context.Context, p Peer, method string, params any) (Out, error) {
	var out Out
	err := p.Call(ctx, method, params, &out)
	return out, err
}

// An Item is one message to send and its result: a member of a batch, or a single call that needs
// more options than [Peer.Call] has.
type Item struct {
	Method string
	Params any // encoded by the codec; nil for no params
	Result any // a pointer for the decoded result; nil drops it
	Notify bool

	// ID is the id of the call. If zero, the next number is used. The caller must choose distinct
	// ids: a second call in flight with the same ID fails.
	ID ID

	// On is called with the notifications about this call, as in [Peer.Stream]. It is not available
	// in a batch.
	On func(*Request) error

	// Sent is called once on the caller's goroutine when the message is queued in order, before the
	// response is waited for; not for a message that fails before, and not in a batch or over HTTP.
	// It must not wait. It may be nil.
	Sent func()

	Err error // the error that Call would return; set when the call ends
}

// A Version of the protocol determines which members a message must have.
type Version uint8

// The versions. JSON-RPC 1.0 (2005) is used only where it is enabled. It has no "jsonrpc" member, a
// notification has id null, params are an array, and a response has both result and error.
const (
	Version2 Version = iota // 2.0, the zero value
	Version1                // 1.0, and 2.0 for messages with a "jsonrpc" member
)
