// Package parley connects to and serves JSON-RPC by address: one string holds the location, the
// transport and the framing.
//
// A [Dialer] creates a [Client] for an address. A [Listener] serves one [jsonrpc.Handler] on many
// addresses at once. The available schemes are a value, [Schemes], that a program may extend. For
// the syntax of addresses see [Target].
//
// By default a Listener accepts neither other machines nor web pages: it binds loopback addresses
// only, accepts only its own host names, and checks the origin of browser requests.
package parley

import (
	"context"
	"errors"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Scheme implements one kind of address. If a function is nil, the scheme does not support that
// operation.
type Scheme struct {
	// Dial connects to the server at t with the settings in d. For a bidirectional transport,
	// [Dialer.Converse] creates the Caller.
	Dial func(ctx context.Context, d *Dialer, t Target) (Caller, error)

	// Open connects and returns the transport of Dial, to send payloads unchanged. It is nil if
	// there is no such transport, as with HTTP.
	Open func(ctx context.Context, d *Dialer, t Target) (jsonrpc.Transport, error)

	// Listen binds t but does not serve yet.
	Listen func(ctx context.Context, l *Listener, t Target) (Service, error)
}

// Schemes maps the scheme of an address, the part before the colon, to its Scheme. The name "exec"
// is for child processes.
type Schemes map[string]Scheme

// DefaultSchemes returns a new table of the built-in schemes.
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

// A Caller is a connection to a server over any transport. It is safe for concurrent use.
type Caller interface {
	jsonrpc.Peer

	// Do sends one message that needs more options than Call has. The returned error is also in
	// item.Err.
	Do(ctx context.Context, item *jsonrpc.Item) error

	// Batch sends all items in one array and returns when each item has its response (JSON-RPC 2.0,
	// section 6).
	Batch(ctx context.Context, items []jsonrpc.Item) error

	// Pending returns the IDs of calls that wait for a response, oldest first. It is empty if the
	// transport pairs requests and responses itself, as HTTP does.
	Pending() []jsonrpc.ID

	// Drain waits until everything that the server initiated is handled, or ctx ends. Later
	// requests of the server are rejected.
	Drain(ctx context.Context) error

	// Shutdown finishes the pending work and then closes: it waits for the responses to the server,
	// and for queued messages. ctx bounds the wait.
	Shutdown(ctx context.Context) error

	// Close closes the connection and waits for everything that the Caller has started. A closed
	// Caller cannot be used again.
	Close() error
}

// A Service accepts requests at one address.
type Service interface {
	// Target returns the address at which callers reach the service, with the bound port.
	Target() Target

	// Serve accepts requests until Shutdown, and then returns nil.
	Serve(ctx context.Context) error

	// Shutdown stops accepting connections, rejects new requests, and waits for the running ones.
	// If ctx ends first, it cancels them and returns ctx's error.
	Shutdown(ctx context.Context) error
}

// ErrAddressInUse means that another program already listens at the address.
var ErrAddressInUse = errors.New("address already in use")

// A RefusedError is the reason why an address is not served although it could be bound.
type RefusedError struct {
	Target Target
	Reason string
}

func (e *RefusedError) Error() string {
	return "refused to listen on " + e.Target.String() + ": " + e.Reason
}
