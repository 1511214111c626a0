package jsonrpc

import "context"

// A Handler answers requests.
//
// The result is nil, a [Raw], an [Appender], or anything the codec takes. A returned *Error goes out as it
// is, also one that another peer sent: right for a gateway, a leak elsewhere. Any other error becomes "Internal error" on the
// wire and goes to [Answerer.Report] whole. What Handle returns for a notification is dropped, errors are reported.
//
// Handle runs on many goroutines at once. ctx ends when the peer cancels the request, the conversation
// ends, the deadline passes or Handle returns; context.Cause tells which.
type Handler interface {
	Handle(ctx context.Context, req *Request) (any, error)
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, req *Request) (any, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, req *Request) (any, error) { return f(ctx, req) }

// Middleware wraps a Handler. It sees the raw request and the result before it is encoded.
type Middleware = func(Handler) Handler

// Chain wraps h in all of m; the first of m is the outermost.
func Chain(h Handler, m ...Middleware) Handler {
	for i := len(m) - 1; i >= 0; i-- {
		h = m[i](h)
	}
	return h
}

// A Mode tells what the engine may assume of a method. Modes are combined with |.
type Mode uint8

const (
	// Quick: the method neither waits nor computes for long. It may run on the goroutine that reads, overtaking
	// everything that waits; its Peer can notify, and its Call returns ErrOneWay.
	Quick Mode = 1 << iota

	// Unordered: a notification of this method holds up nothing that came after it.
	Unordered

	// Open: the method has no deadline. It ends with its connection, its session or a cancel.
	Open

	// Known: the method exists. Nothing else follows, but what is known of a method is kept for the next time, as it is of any with a mode;
	// a [Mux] needs to say it of none.
	Known
)

// A Sink takes messages about one request, in order, while it runs.
type Sink interface {
	// Send copies or writes payload before it returns. It waits for room until ctx ends.
	Send(ctx context.Context, payload []byte) error
}

// An Exchange is what a carrier adds to one payload. It must not be used again for another: a handler may keep its Peer.
type Exchange struct {
	// Sink takes what handlers send while they run. Nil: they cannot notify (ErrOneWay).
	Sink Sink

	// Asker waits for answers to what handlers ask over Sink. Nil: the peer cannot be asked (ErrOneWay).
	Asker *Asker

	// Check is the door: it sees each request before its handler, and an error refuses it as if the handler
	// had returned it. Nil lets all pass.
	Check func(ctx context.Context, req *Request) error

	lane *lane   // on a Conn: where handlers have their places
	out  *outbox // on a Conn: what Sink is
}

// A Cancellation is how a protocol says that a caller stopped waiting: a notification whose params name the call.
type Cancellation struct {
	Method string // such as "$/cancelRequest"; "" for none
	Member string // the member of params that holds the id, such as "id"
	Silent bool   // a cancelled request is not answered (MCP); otherwise it is, with an error (Language Server Protocol)
}

// CancelRequest is the cancellation of the Language Server Protocol, for want of one in JSON-RPC itself.
var CancelRequest = Cancellation{Method: "$/cancelRequest", Member: "id"}

// An Appender writes itself as JSON and costs no reflection. What it appends must be one valid value.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// A Parser reads itself from JSON and costs no reflection. It must not keep text.
type Parser interface {
	ParseJSON(text []byte) error
}
