package suite

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Sender sends messages to targets.
type Sender interface {
	// Send sends a request and waits for its response until ctx ends. The reply is not nil if
	// anything was sent, even with an error. An error is a [*SendError], except that of ctx.
	//
	// A suite calls Send from one goroutine at a time.
	Send(ctx context.Context, r *Request) (*Reply, error)
}

// A Request is a message to send.
type Request struct {
	Target string

	Text   []byte // the message; nil if it is made of the following
	Method string
	Params jsonrpc.Raw
	Notify bool

	Header  http.Header // of an HTTP request; nil values remove a header
	Answers Answers     // to requests of the server until the response arrives
}

// A Reply is what came back.
type Reply struct {
	Sent          []byte        // the message, with its ID
	Response      []byte        // a message or a batch, or nil
	Responses     []jsonrpc.Raw // all responses of a stream, in order
	Notifications []jsonrpc.Raw // received on the connection before the response, in order
	Time          time.Duration // until the response
	Command       string        // a shell command that sends the message again, or ""
	Unanswered    []string      // methods that the server called, and for which there is no answer
}

func (r *Reply) milliseconds() jsonrpc.Raw { return milliseconds(r.Time) }

func milliseconds(d time.Duration) jsonrpc.Raw {
	return strconv.AppendFloat(nil, float64(d.Microseconds())/1000, 'f', -1, 64)
}

// A Kind is the reason why a call has no response that can be checked.
type Kind string

// The kinds of a [SendError].
const (
	Unreachable  Kind = "unreachable"  // the target cannot be reached, or closed the connection
	Unauthorized Kind = "unauthorized" // credentials are missing or wrong
	TimedOut     Kind = "timeout"      // no response in time
	Broken       Kind = "protocol"     // what came back is not JSON-RPC
	Rejected     Kind = "rejected"     // the server rejected the handshake
	Interrupted  Kind = "interrupted"  // the run was cancelled
)

// A SendError reports that a call has no response that can be checked.
type SendError struct {
	Kind   Kind
	Text   string
	Closed bool // the target could not be opened: other calls would fail, too
}

func (e *SendError) Error() string { return e.Text }
