package jsonrpc

import "context"

// A Handler handles requests.
//
// The result is nil, a [Raw], an [Appender], or any value that the codec can encode. A returned
// *Error is sent unchanged, even one that another peer sent: that is right for a gateway, but a
// leak elsewhere. For any other error the peer receives "Internal error", and [Answerer.Report]
// receives the whole error. Results for notifications are dropped; errors for them are reported.
//
// If Handle panics, the peer receives "Internal error" with the reference of the reported
// *PanicError: the panic ends one request, and not the connection or the POST that it shares with
// others. This also holds for [net/http.ErrAbortHandler].
//
// Handle is called from many goroutines at once. ctx ends when the peer cancels the request, the
// connection is closed, the deadline passes or Handle returns; context.Cause returns the reason.
type Handler interface {
	Handle(ctx context.Context, req *Request) (any, error)
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc func(ctx context.Context, req *Request) (any, error)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, req *Request) (any, error) { return f(ctx, req) }

// Middleware wraps a Handler. It receives the raw request, and the result before it is encoded.
type Middleware = func(Handler) Handler

// Chain wraps h in each of m; the first of m is the outermost.
func Chain(h Handler, m ...Middleware) Handler {
	for i := len(m) - 1; i >= 0; i-- {
		h = m[i](h)
	}
	return h
}

// A Mode is what the engine may assume of a method. Modes are combined with |.
type Mode uint8

const (
	// Quick means that the method neither waits nor computes for long. It may run on the reader
	// goroutine, before all queued requests. Its Peer can notify, and its Call returns ErrOneWay.
	Quick Mode = 1 << iota

	// Unordered means that a notification of this method does not delay the messages after it.
	Unordered

	// Open means that the method has no deadline. It ends with its connection, its session or a
	// cancellation.
	Open

	// Known means that the method exists, and nothing else. What was looked up for a method is
	// stored for the next time, as for every method with a mode. A [Mux] does not need it.
	Known

	// InOrder means that a request of this method delays the messages after it until its handler
	// calls [Request.Proceed] or returns: for a handler that passes requests on in the order in
	// which they arrived. It has no effect in a batch, on a method that is Quick, and on a transport
	// with one payload per exchange.
	InOrder
)

// A Sink sends messages about one request, in order, while it runs.
type Sink interface {
	// Send copies or writes payload before it returns. It waits for room until ctx ends.
	Send(ctx context.Context, payload []byte) error
}

// A NotificationSink is a Sink that also gets the parts of a notification, so that a transport that
// sends it in another form need not parse the payload. It is optional: a Sink without it gets all
// messages by Send.
//
// If it also has the method WithoutPayload(method string, params any) bool, and that returns true,
// the notification is not encoded, and payload is nil.
type NotificationSink interface {
	Sink

	// SendNotification is Send for a notification. method and params are those of [Peer].Notify,
	// and payload is their encoding. It must not retain or change any of them.
	SendNotification(ctx context.Context, payload []byte, method string, params any) error
}

// A LateSender sends a response while the handler of its request still runs.
type LateSender interface {
	// SendLate is called at most once for an Exchange, on another goroutine than Answer and before
	// Answer returns; Answer then appends nothing. SendLate may retain response.
	SendLate(response []byte)
}

// A LateErrorSender is a LateSender that also gets the error of the response, so that a transport
// that sends it in another form need not parse the response. It is optional.
type LateErrorSender interface {
	LateSender

	// SendLateError is SendLate for the response to a single request. e must not be changed.
	SendLateError(response []byte, e *Error)
}

// An Exchange is what a transport adds to one payload. It must not be reused for another payload: a
// handler may retain its Peer.
type Exchange struct {
	// Sink sends the messages of running handlers. If nil, they cannot notify (ErrOneWay).
	Sink Sink

	// Asker tracks the calls that handlers send over Sink. If nil, they cannot call the peer
	// (ErrOneWay).
	Asker *Asker

	// Check is the access check: it is called with each request before its handler, and its error
	// is handled like an error of the handler. If nil, all requests are accepted.
	Check func(ctx context.Context, req *Request) error

	// Late sends the response in place of Answer if a handler has not returned one second after its
	// deadline. If nil, the response waits for the handler.
	Late LateSender

	// From names the caller for a Gate where there is no Conn: requests with the same value share
	// one caller's part. Over HTTP it is the connection or the IP address. If empty, requests are
	// not counted per caller.
	From string

	lane *lane   // on a Conn: the lane of its handlers
	out  *outbox // on a Conn: the same as Sink
}

// A Cancellation is a protocol's message for a caller that has stopped waiting: a notification
// whose params name the call.
type Cancellation struct {
	Method string // such as "$/cancelRequest"; "" means no cancellation
	Member string // the member of params with the id, such as "id"
	// Silent means that a cancelled request gets no response (MCP). Otherwise it gets an error
	// (Language Server Protocol).
	Silent bool
}

// CancelRequest is the cancellation of the Language Server Protocol. JSON-RPC itself does not
// define one.
var CancelRequest = Cancellation{Method: "$/cancelRequest", Member: "id"}

// An Appender encodes itself as JSON without reflection. It must append one valid value.
type Appender interface {
	AppendJSON(dst []byte) ([]byte, error)
}

// A Parser decodes itself from JSON without reflection. It must not retain text.
type Parser interface {
	ParseJSON(text []byte) error
}
