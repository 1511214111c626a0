// Package parley reaches and serves JSON-RPC by address: one text says where, by which carrier and in which framing.
//
// A [Dialer] makes a [Client] of an address. A [Listener] serves one [jsonrpc.Handler] on many addresses at once. Which
// schemes there are is a value, [Schemes], that a program may add to. For the spelling of addresses see [Target].
//
// What listens here is closed to other machines and to web pages unless it is told otherwise: it binds loopback addresses
// only, knows its own host names only, and takes no browser's word for where a request came from.
package parley

import (
	"context"
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Scheme is what one kind of address can do. A nil function means that it cannot.
type Scheme struct {
	// Dial opens a way to the server at t. What it needs to know beside the address is in d; a carrier
	// on which both sides speak is made a Caller by [Dialer.Converse].
	Dial func(ctx context.Context, d *Dialer, t Target) (Caller, error)

	// Open opens the bare carrier of Dial, for whoever wants to send payloads as they are. Nil where
	// there is none, as with HTTP.
	Open func(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error)

	// Listen binds t and serves nothing yet.
	Listen func(ctx context.Context, l *Listener, t Target) (Service, error)
}

// Schemes is the table of what can be dialled and served, by the word before the colon. The word "exec" stands for
// child processes.
type Schemes map[string]Scheme

// DefaultSchemes returns a new table of the schemes that are built in.
func DefaultSchemes() Schemes {
	post := Scheme{Dial: dialPost, Listen: listenWeb}
	socket := Scheme{Dial: dialWebSocket, Open: openWebSocket, Listen: listenWeb}
	pair := Scheme{Dial: dialPair, Open: openPair, Listen: listenWeb}
	stream := Scheme{Dial: dialSocket, Open: openSocket, Listen: listenSocket}
	return Schemes{
		"http": post, "https": post,
		"sse+http": pair, "sse+https": pair,
		"ws": socket, "wss": socket,
		"exec":  {Dial: dialChild, Open: openChild},
		"stdio": {Dial: dialStdio, Open: openStdio, Listen: listenStdio},
		"tcp":   stream, "tls": stream, "unix": stream,
	}
}

// A Caller is a way to a server, however it is carried. It is safe for concurrent use.
type Caller interface {
	jsonrpc.Peer

	// Do sends one message that needs more than Call takes. Its error is also in item.Err.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Batch sends all items in one array and returns when each has its answer, which is in the item (JSON-RPC 2.0, section 6).
	Batch(ctx context.Context, items []jsonrpc.Item) error

	// Pending lists the ids of calls that wait for an answer, oldest first. It is empty where the carrier keeps question
	// and answer together, as HTTP does.
	Pending() []jsonrpc.ID

	// Drain waits until what the server sent by itself is handled, or ctx ends. What it sends from now on is refused.
	Drain(ctx context.Context) error

	// Shutdown is Close after what is under way: our answers to the server, and what is still to be sent. ctx bounds the wait.
	Shutdown(ctx context.Context) error

	// Close is final and waits for what the Caller has started.
	Close() error
}

// A Service is one place where requests are taken.
type Service interface {
	// Target is where callers find the service: with the port that was really taken.
	Target() Target

	// Serve takes requests until Shutdown, and then returns nil.
	Serve(ctx context.Context) error

	// Shutdown takes no more connections, refuses new requests, waits for running ones until ctx ends, and then cuts them
	// off. The error is that of ctx when something was cut.
	Shutdown(ctx context.Context) error
}

// ErrAddressInUse says that something else listens at the address already.
var ErrAddressInUse = errors.New("address already in use")

// A RefusedError says why an address is not served although it could be.
type RefusedError struct {
	Target Target
	Reason string
}

func (e *RefusedError) Error() string {
	return "refused to listen on " + e.Target.String() + ": " + e.Reason
}
