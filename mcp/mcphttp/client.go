package mcphttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A StatusError is an HTTP response without a JSON-RPC response. Its Header contains
// WWW-Authenticate if the server requires credentials.
type StatusError = httprpc.StatusError

// Kinds of a StatusError, for use with errors.Is.
var (
	ErrUnauthorized = httprpc.ErrUnauthorized // 401
	ErrForbidden    = httprpc.ErrForbidden    // 403
)

// ClientOptions configure [Connect]. The zero value is ready for use.
type ClientOptions struct {
	// Client contains the options of the MCP client. Connect sets OverHTTP and GiveUp. Probe is 10
	// s if zero.
	Client mcp.ClientOptions

	// HTTP sends all requests. If nil, a default client is used. HTTP is copied, and its Timeout is
	// not used. Redirects are followed only to the same scheme, host and port, and only with the
	// same method and body. A Transport that obtains tokens, such as that of package mcp/oauth, may
	// block after a 401. An error of the Transport ends Connect, because it is unrelated to the
	// server's protocol version.
	HTTP *http.Client

	// TLS configures the default client. It is not used if HTTP is set.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request.
	Token string

	// MaxMessage is the size limit of one message from the server, in bytes. Zero means 16 MiB, a
	// negative value means no limit.
	MaxMessage int64

	// CallTime is the timeout of a call whose context has no deadline. Each message about the call
	// restarts it. Zero means 60 s, a negative value means no timeout.
	CallTime time.Duration

	// Tap, if not nil, is called for each payload that is sent or received. It must not retain the
	// payload. It is called concurrently.
	Tap func(out bool, payload []byte)
}

// pairScheme is the prefix of the address of a server that supports only HTTP+SSE.
const pairScheme = "sse+"

// Connect opens a conversation with the server at address and negotiates the protocol version (MCP
// 2026-07-28, Versioning). It first tries Streamable HTTP with a modern request, then with the
// handshake. If the server rejects both with 400, 404 or 405, Connect tries the HTTP+SSE transport
// of 2024-11-05. For an address with the scheme sse+http or sse+https, it uses only HTTP+SSE. ctx
// applies only to Connect; the client's Close closes everything.
//
// If the server rejects a request with an HTTP status, Connect and all calls return a
// *[StatusError]. If the server has lost the session, a new session is opened automatically.
func Connect(ctx context.Context, address string, info mcp.Implementation, o *ClientOptions) (*mcp.Client, error) {
	if o == nil {
		o = &ClientOptions{}
	}
	if bare, ok := strings.CutPrefix(address, pairScheme); ok {
		return connectPair(ctx, bare, info, o, false)
	}
	c, err := connect(ctx, address, info, o)
	if err == nil || !wantsPair(err) {
		return c, err
	}
	c, pairErr := connectPair(ctx, address, info, o, true)
	if pairErr != nil {
		return nil, fmt.Errorf("%w (and over HTTP+SSE: %w)", err, pairErr)
	}
	return c, nil
}

// wantsPair reports whether a server that returns err may be a server of 2024-11-05.
func wantsPair(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, status.Status)
}

// connect connects over Streamable HTTP.
func connect(ctx context.Context, address string, info mcp.Implementation, o *ClientOptions) (*mcp.Client, error) {
	own := o.Client
	own.OverHTTP, own.GiveUp = true, giveUp
	l := &link{client: mcp.NewClient(info, &own), probe: own.Probe, report: own.Report}
	if l.report == nil {
		l.report = func(what string, err error) { report.Call(nil, "mcphttp", what, err) }
	}
	if l.probe <= 0 {
		l.probe = 10 * time.Second
	}
	l.transport = streamable.NewClient(address, &streamable.ClientOptions{
		HTTP: o.HTTP, TLS: o.TLS, Header: o.Header, Token: o.Token, MaxMessage: o.MaxMessage, CallTime: o.CallTime,
		Manner:        l.manner,
		SessionHeader: mcp.HeaderSession,
		StreamHeader:  l.streamHeader,
		Cancellation:  mcp.Cancellation,
		Related:       mcp.Related,
		Back: &jsonrpc.Answerer{Handler: l.client, Mode: mcp.Mode, Cancellation: mcp.Cancellation, Limits: own.Limits,
			Report: own.Report},
		Lost:   l.lost,
		Open:   mcp.Open,
		Tap:    o.Tap,
		Report: own.Report,
	})
	if err := l.client.Open(ctx, l); err != nil {
		return nil, errors.Join(err, l.client.Close())
	}
	return l.client, nil
}

// giveUp reports whether an error of the first request is unrelated to the server's version.
func giveUp(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return true
		}
		return false
	}
	// an error of net/http or of the configured Transport
	_, unreached := errors.AsType[*url.Error](err)
	return unreached
}

// A link transports the calls of a client, and opens a new session when the session was lost.
type link struct {
	client    *mcp.Client
	transport *streamable.Client
	probe     time.Duration
	report    func(what string, err error)

	mu     sync.Mutex // guards the fields below
	now    *reopening // nil if none is running
	closed bool
	wg     sync.WaitGroup // of reopenings; Add only with mu held and closed false
}

// A reopening is a handshake for a new session. All calls that lost the session wait for it.
type reopening struct {
	done chan struct{}
	err  error // set when done is closed
}

// Do implements [mcp.Link].
func (l *link) Do(ctx context.Context, item *jsonrpc.Item) error {
	err := (*bareLink)(l).Do(ctx, item)
	lost, ok := errors.AsType[*streamable.SessionError](err)
	if !ok || item.Method == mcp.NotifyInitialized {
		return err
	}
	if err := l.reopen(ctx, lost.Session); err != nil {
		item.Err = err
		return err
	}
	return l.transport.Do(ctx, item)
}

// A bareLink is a link that does not reopen sessions.
type bareLink link

// Do sends one item. After the handshake, it opens the stream for messages that the server sends
// outside of calls.
func (l *bareLink) Do(ctx context.Context, item *jsonrpc.Item) error {
	err := l.transport.Do(ctx, item)
	if err == nil && item.Notify && item.Method == mcp.NotifyInitialized && l.client.Version().HasSessions() {
		ctx, stop := context.WithTimeout(ctx, firstStream)
		defer stop()
		l.transport.Listen(ctx)
	}
	return err
}

// firstStream is how long the handshake waits for the server's stream. If the server responds to
// the GET at once, no message is lost. If it responds only with its first message, the delay is
// short.
const firstStream = 500 * time.Millisecond

func (l *bareLink) Close() error { return (*link)(l).Close() }

// Close closes the session and ends all calls.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.transport.Close()
	grace.Wait(&l.wg, grace.Time) // a function of the caller may not return
	return err
}

// reopen opens a new session in place of the lost one. All callers that lost the same session wait
// for one handshake.
func (l *link) reopen(ctx context.Context, session string) error {
	l.mu.Lock()
	r := l.now
	switch {
	case l.closed:
		l.mu.Unlock()
		return jsonrpc.ErrClosed
	case r == nil && l.transport.Session() != session:
		l.mu.Unlock()
		return nil // another call has already opened a new session
	case r == nil:
		r = &reopening{done: make(chan struct{})}
		l.now = r
		l.wg.Go(func() {
			r.err = rescue.Call(l.report, func() error { // of an http.RoundTripper
				return l.client.Reopen(context.WithoutCancel(ctx), (*bareLink)(l))
			})
			l.mu.Lock()
			l.now = nil
			l.mu.Unlock()
			close(r.done)
		})
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lost is called by the server's own stream when the session was lost.
func (l *link) lost(session string) {
	if err := l.reopen(context.Background(), session); err != nil && !errors.Is(err, jsonrpc.ErrClosed) {
		l.report(jsonrpc.ReportSession, err)
	}
}

// manner returns how a message is sent: a modern message is self-contained, and any other belongs
// to a session.
func (l *link) manner(req *jsonrpc.Request) streamable.Manner {
	var m streamable.Manner
	if fields := l.client.Headers(req.Method, req.Params); len(fields) > 0 {
		m.Header = make(http.Header, len(fields))
		values := make([]string, len(fields))
		for i, f := range fields {
			values[i] = f.Value
			// a tool may declare a header name in another case
			m.Header[http.CanonicalHeaderKey(f.Name)] = values[i : i+1 : i+1]
		}
	}
	modern := req.Method == mcp.MethodDiscover || l.client.Version().Modern()
	switch {
	case modern && req.Method == mcp.MethodDiscover && l.client.Version() == 0:
		m.Time = l.probe
	case modern:
	case req.Method == mcp.MethodInitialize:
		m.Bond = streamable.Opening
	default:
		m.Bond = streamable.Within
	}
	return m
}

// streamHeader returns the headers of session requests that do not contain a message.
func (l *link) streamHeader() http.Header {
	h := http.Header{}
	if v := l.client.Version(); v.HasVersionHeader() {
		h.Set(mcp.HeaderProtocolVersion, v.String())
	}
	return h
}
