package parley

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Dialer creates clients. The zero value is ready for use. Dial reads the fields and never
// changes them.
type Dialer struct {
	// Schemes is the table of schemes that can be dialled. If nil, DefaultSchemes is used.
	Schemes Schemes

	// TLS configures https, wss and tls. If nil, the system's authorities and TLS 1.2 or later are
	// used.
	TLS *tls.Config

	// Token is sent as a bearer token over HTTP and WebSocket, and by the method "rpc.authenticate"
	// over tcp and tls.
	Token string

	// Header is sent with every request over HTTP, and with the opening request of a WebSocket.
	Header http.Header

	// Back handles what the server initiates: calls, and notifications that belong to no pending
	// call. If nil, calls get "method not found" and notifications are dropped. Mode returns the
	// modes of its methods; it is usually Mux.Mode.
	Back jsonrpc.Handler
	Mode func(method string) jsonrpc.Mode

	// Related returns the ID of the call that a notification belongs to, so that it is passed to
	// the function of Stream. If nil, the member "request_id" of the params is used. Over HTTP, the
	// transport itself relates notifications to calls.
	Related func(*jsonrpc.Request) (jsonrpc.ID, bool)

	// Cancellation defines how the client cancels a call at the server. If nil,
	// jsonrpc.CancelRequest is used.
	Cancellation *jsonrpc.Cancellation

	// Limits bound the connection. CallTime bounds each call: the default is 60 s, renewed by each
	// notification about the call.
	Limits jsonrpc.Limits

	// MaxMessage bounds one message from the server, in bytes. Zero means 16 MiB, negative means no
	// bound.
	MaxMessage int64

	// Timeout bounds Dial itself. Zero means 5 s, negative means no bound.
	Timeout time.Duration

	// Tap receives each payload in both directions. It may be nil.
	Tap Tap

	// Report is called with events that no caller receives, such as a response to no pending call.
	// If nil, they are dropped.
	Report func(what string, err error)

	// Stderr is called with each line that a child process writes to its standard error, with
	// control characters escaped. If nil, the lines are dropped.
	Stderr func(line string)
}

// maxAnswer is the default limit of one message from a server: four times the limit of a request.
const maxAnswer = 16 << 20

// dialTime is the default timeout of Dial.
const dialTime = 5 * time.Second

// Dial connects to the server at target with the default settings. See [ParseTarget] for the syntax
// of target.
func Dial(ctx context.Context, target string) (*Client, error) {
	t, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	return new(Dialer).Dial(ctx, t)
}

// Dial connects to the server at t. Over HTTP nothing is sent before the first call. ctx bounds
// only Dial; the client is open until Close.
//
// It returns a *[TargetError] for a scheme that is not in the table.
func (d *Dialer) Dial(ctx context.Context, t Target) (*Client, error) {
	scheme, err := d.scheme(t)
	if err != nil {
		return nil, err
	}
	if scheme.Dial == nil {
		return nil, &TargetError{Target: t.String(), Reason: "its scheme is only for listening, not for calls"}
	}
	ctx, cancel := d.bound(ctx)
	defer cancel()
	caller, err := scheme.Dial(ctx, d, t)
	if err != nil {
		return nil, err
	}
	return &Client{Caller: caller, Target: t}, nil
}

// Open connects to t and returns the transport, for payloads that are not messages. Only
// bidirectional transports support it.
func (d *Dialer) Open(ctx context.Context, t Target) (jsonrpc.Transport, error) {
	scheme, err := d.scheme(t)
	if err != nil {
		return nil, err
	}
	if scheme.Open == nil {
		return nil, &TargetError{Target: t.String(), Reason: "its scheme is only for listening, not for calls"}
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

// maxMessage returns the limit of one message from the server, in the form that the transports use.
func (d *Dialer) maxMessage() int64 {
	if d.MaxMessage == 0 {
		return maxAnswer
	}
	return d.MaxMessage
}

// header returns the headers of a request over HTTP. The caller may change the result.
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
	return scheme, &TargetError{Target: t.String(), Reason: "unknown scheme; the schemes are http, https, sse+http, sse+https, ws, wss, tcp, tls, unix and stdio"}
}

// Converse creates a Caller on a bidirectional transport and starts to read from it. Close of the
// Caller closes the transport.
func (d *Dialer) Converse(ctx context.Context, transport jsonrpc.Transport, version jsonrpc.Version) *jsonrpc.Conn {
	c := d.conn(transport, version)
	c.Start(context.WithoutCancel(ctx))
	return c
}

// conn is Converse without starting to read.
func (d *Dialer) conn(transport jsonrpc.Transport, version jsonrpc.Version) *jsonrpc.Conn {
	c := jsonrpc.NewConn(withTap(transport, d.Tap))
	d.answering(&c.Answerer)
	c.Version = version
	c.Related = d.related()
	return c
}

// answering configures how the client handles requests of the server.
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

// A Client is a connection to one server. It is safe for concurrent use.
type Client struct {
	Caller
	Target Target // the dialled target
}
