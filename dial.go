package parley

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Dialer makes clients. The zero value is ready for use; its fields are read by each Dial and not changed by any.
type Dialer struct {
	// Schemes is what can be dialled. Nil means DefaultSchemes.
	Schemes Schemes

	// TLS is used for https, wss and tls. Nil means the system's authorities and TLS 1.2 or later.
	TLS *tls.Config

	// Token is sent as a bearer token over HTTP and WebSocket, and by the method "rpc.authenticate" over tcp and tls.
	Token string

	// Header goes with every request over HTTP, and with the first one of a WebSocket.
	Header http.Header

	// Back answers what the server sends by itself: calls, and notifications that belong to none of our calls. Nil
	// answers "method not found" and drops notifications. Mode is about its methods, usually Mux.Mode.
	Back jsonrpc.Handler
	Mode func(method string) jsonrpc.Mode

	// Related tells which of our calls a notification belongs to, so that it reaches the function that was given to Stream.
	// Nil looks for a member "request_id" in the params. Over HTTP the carrier knows.
	Related func(*jsonrpc.Request) (jsonrpc.ID, bool)

	// Cancellation is how the server is told that a call was abandoned. Nil means jsonrpc.CancelRequest.
	Cancellation *jsonrpc.Cancellation

	// Limits bound the conversation. CallTime among them is the time of each call: 60 s, renewed by each notification about it.
	Limits jsonrpc.Limits

	// MaxMessage bounds one message from the server, in bytes. Zero means 16 MiB, negative means no bound.
	MaxMessage int64

	// Timeout bounds Dial itself. Zero means 5 s, negative means no bound.
	Timeout time.Duration

	// Tap sees each payload, both ways. Nil: none.
	Tap Tap

	// Report is told what does not reach a caller, such as an answer that nobody waits for. Nil drops it.
	Report func(what string, err error)

	// Stderr is told each line that a child process writes to its standard error, with control characters escaped. Nil
	// drops them.
	Stderr func(line string)
}

// maxAnswer is the limit of one message for whoever asks: twice what it may be sent as a question, and again.
const maxAnswer = 16 << 20

// dialTime bounds a Dial.
const dialTime = 5 * time.Second

// Dial makes a client of the server at target, with the default settings. See [ParseTarget] for what target may be.
func Dial(ctx context.Context, target string) (*Client, error) {
	t, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	return new(Dialer).Dial(ctx, t)
}

// Dial opens a way to the server at t. Over HTTP nothing happens before the first call. ctx bounds Dial alone; the
// client lives until Close.
//
// A scheme that is not in the table is a *[TargetError].
func (d *Dialer) Dial(ctx context.Context, t Target) (*Client, error) {
	scheme, err := d.scheme(t)
	if err != nil {
		return nil, err
	}
	if scheme.Dial == nil {
		return nil, &TargetError{Target: t.String(), Reason: "it can be served but not dialled"}
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	caller, err := scheme.Dial(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return &Client{Caller: caller, Target: t}, nil
}

// Open opens the bare carrier to t, for payloads that are no messages. Only carriers on which both sides speak have one.
func (d *Dialer) Open(ctx context.Context, t Target) (jsonrpc.Transport, error) {
	scheme, err := d.scheme(t)
	if err != nil {
		return nil, err
	}
	if scheme.Open == nil {
		return nil, &TargetError{Target: t.String(), Reason: "its scheme has no carrier to open"}
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	transport, err := scheme.Open(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return withTap(transport, d.Tap), nil
}

func (d *Dialer) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case d.Timeout < 0:
		return context.WithCancel(ctx)
	case d.Timeout == 0:
		return context.WithTimeout(ctx, dialTime)
	}
	return context.WithTimeout(ctx, d.Timeout)
}

// maxMessage is the limit of one message from the server, as the carriers want it.
func (d *Dialer) maxMessage() int64 {
	if d.MaxMessage == 0 {
		return maxAnswer
	}
	return d.MaxMessage
}

// header is what goes with a request over HTTP. The caller may change it.
func (d *Dialer) header() http.Header {
	h := d.Header.Clone()
	if d.Token != "" {
		if h == nil {
			h = make(http.Header)
		}
		h.Set("Authorization", "Bearer "+d.Token)
	}
	return h
}

func (d *Dialer) scheme(t Target) (Scheme, error) {
	table := d.Schemes
	if table == nil {
		table = DefaultSchemes()
	}
	return table.find(t)
}

func (table Schemes) find(t Target) (Scheme, error) {
	scheme, ok := table[t.Scheme]
	switch {
	case ok:
		return scheme, nil
	case t.Scheme == "nats":
		return scheme, &TargetError{Target: t.String(), Reason: "NATS is not built in yet"}
	}
	return scheme, &TargetError{Target: t.String(), Reason: "unknown scheme; there are http, https, sse+http, sse+https, ws, wss, tcp, tls, unix and stdio"}
}

// Converse makes a Caller of a carrier on which both sides speak, and starts to read from it. Close of the Caller
// closes the carrier.
func (d *Dialer) Converse(ctx context.Context, transport jsonrpc.Transport, version jsonrpc.Version) *jsonrpc.Conn {
	c := d.conn(transport, version)
	c.Start(context.WithoutCancel(ctx))
	return c
}

// conn is Converse without the start.
func (d *Dialer) conn(transport jsonrpc.Transport, version jsonrpc.Version) *jsonrpc.Conn {
	c := jsonrpc.NewConn(withTap(transport, d.Tap))
	d.answering(&c.Answerer)
	c.Version = version
	c.Related = d.related()
	return c
}

// answering sets up how we answer the server.
func (d *Dialer) answering(a *jsonrpc.Answerer) {
	a.Handler = d.Back
	if a.Handler == nil {
		a.Handler = new(jsonrpc.Mux)
	}
	a.Mode = d.Mode
	a.Limits = d.Limits
	a.Report = d.Report
	a.Cancellation = jsonrpc.CancelRequest
	if d.Cancellation != nil {
		a.Cancellation = *d.Cancellation
	}
}

func (d *Dialer) related() func(*jsonrpc.Request) (jsonrpc.ID, bool) {
	if d.Related != nil {
		return d.Related
	}
	return func(req *jsonrpc.Request) (jsonrpc.ID, bool) {
		var named struct {
			RequestID jsonrpc.ID `json:"request_id"`
		}
		if !bytes.Contains(req.Params, []byte(`"request_id"`)) || req.Params.Decode(&named) != nil {
			return jsonrpc.ID{}, false
		}
		return named.RequestID, !named.RequestID.IsZero()
	}
}

// A Client is a way to one server. It is safe for concurrent use.
type Client struct {
	Caller
	Target Target // what was dialled
}
