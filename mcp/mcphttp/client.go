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

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A StatusError is an HTTP answer that is no JSON-RPC answer. Its Header has WWW-Authenticate when the server wants credentials.
type StatusError = sse.StatusError

// The kinds of a StatusError, for errors.Is.
var (
	ErrUnauthorized = sse.ErrUnauthorized // 401
	ErrForbidden    = sse.ErrForbidden    // 403
)

// ClientOptions tune [Connect]. The zero value is ready for use.
type ClientOptions struct {
	// Client is what the client can be asked and what it hears. OverHTTP and GiveUp are set by Connect. Probe is 10 s when zero.
	Client mcp.ClientOptions

	// HTTP makes all requests. Nil means a client of our own. It is copied, and its Timeout is not used; redirects are followed only to the same
	// scheme, host and port, and only as the same request. A Transport that gets tokens, as package mcp/oauth has one, may take its time after a 401.
	// An error of it ends Connect: it says nothing about what the server speaks.
	HTTP *http.Client

	// TLS is for the client of our own; it is not used beside HTTP.
	TLS *tls.Config

	// Header is sent with each request.
	Header http.Header

	// Token is sent as a bearer token with each request.
	Token string

	// MaxMessage bounds one message from the server, in bytes. Zero means 16 MiB, negative means no bound.
	MaxMessage int64

	// CallTime bounds a call whose context has no deadline; each message about it renews it. Zero means 60 s, negative means no bound.
	CallTime time.Duration

	// Tap, if not nil, sees each payload: what is sent, and what has come. It must not keep it. It is called from many goroutines.
	Tap func(out bool, payload []byte)
}

// pairScheme is what stands before the address of a server that speaks HTTP+SSE alone.
const pairScheme = "sse+"

// Connect opens a conversation with the server at address and finds out what it speaks (MCP 2026-07-28, Versioning): over Streamable HTTP in the modern
// way, then by the handshake, and where both are refused with 400, 404 or 405, over the pair of HTTP+SSE (2024-11-05). An address with the
// scheme sse+http or sse+https means that pair alone. ctx bounds Connect only; Close of the client ends all.
//
// A refusal by HTTP is a *[StatusError], here and in all calls. A session that the server has forgotten is opened anew without a word.
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

// wantsPair reports whether a server that refuses so may be one of 2024-11-05.
func wantsPair(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, status.Status)
}

// connect does it over Streamable HTTP.
func connect(ctx context.Context, address string, info mcp.Implementation, o *ClientOptions) (*mcp.Client, error) {
	own := o.Client
	own.OverHTTP, own.GiveUp = true, giveUp
	l := &link{client: mcp.NewClient(info, &own), probe: own.Probe, report: own.Report}
	if l.report == nil {
		l.report = func(string, error) {}
	}
	if l.probe <= 0 {
		l.probe = 10 * time.Second
	}
	l.carrier = streamable.NewClient(address, &streamable.ClientOptions{
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

// giveUp tells which errors of the first question say nothing about the server's version.
func giveUp(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		switch status.Status {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return true
		}
		return false
	}
	_, unreached := errors.AsType[*url.Error](err) // what net/http, or the Transport that was given, says
	return unreached
}

// A link carries the calls of a client, and opens the session anew when it was lost.
type link struct {
	client  *mcp.Client
	carrier *streamable.Client
	probe   time.Duration
	report  func(what string, err error)

	mu     sync.Mutex // guards what is below
	now    *reopening // nil: none is under way
	closed bool
	wg     sync.WaitGroup // of reopenings; Add only with mu held and closed false
}

// A reopening is a handshake that all wait for whose session was lost.
type reopening struct {
	done chan struct{}
	err  error // when done
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
	return l.carrier.Do(ctx, item)
}

// A bareLink is a link that only carries.
type bareLink link

// Do sends one item. Once the handshake is over, it opens the stream on which the server speaks of its own accord.
func (l *bareLink) Do(ctx context.Context, item *jsonrpc.Item) error {
	err := l.carrier.Do(ctx, item)
	if err == nil && item.Notify && item.Method == mcp.NotifyInitialized && l.client.Version().HasSessions() {
		ctx, stop := context.WithTimeout(ctx, firstStream)
		defer stop()
		l.carrier.Listen(ctx)
	}
	return err
}

// firstStream is how long the opening waits for the server's own stream: one that answers at once loses no message, and one that answers with its first
// message holds nothing up for long.
const firstStream = 500 * time.Millisecond

func (l *bareLink) Close() error { return (*link)(l).Close() }

// Close ends the session and all calls.
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	err := l.carrier.Close()
	l.wg.Wait()
	return err
}

// reopen sees to it that there is another session than the one that was lost. All who lost the same one wait for one handshake.
func (l *link) reopen(ctx context.Context, session string) error {
	l.mu.Lock()
	r := l.now
	switch {
	case l.closed:
		l.mu.Unlock()
		return jsonrpc.ErrClosed
	case r == nil && l.carrier.Session() != session:
		l.mu.Unlock()
		return nil // somebody did it already
	case r == nil:
		r = &reopening{done: make(chan struct{})}
		l.now = r
		l.wg.Go(func() {
			r.err = l.client.Reopen(context.WithoutCancel(ctx), (*bareLink)(l))
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

// lost hears from the server's own stream that the session is over.
func (l *link) lost(session string) {
	if err := l.reopen(context.Background(), session); err != nil && !errors.Is(err, jsonrpc.ErrClosed) {
		l.report("session", err)
	}
}

// manner tells how a message is carried: one of the modern era says all there is to know, any other belongs to a session.
func (l *link) manner(req *jsonrpc.Request) streamable.Manner {
	var m streamable.Manner
	if fields := l.client.Headers(req.Method, req.Params); len(fields) > 0 {
		m.Header = make(http.Header, len(fields))
		values := make([]string, len(fields))
		for i, f := range fields {
			values[i] = f.Value
			m.Header[http.CanonicalHeaderKey(f.Name)] = values[i : i+1 : i+1] // a tool may name one with other letters
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

// streamHeader is what requests of the session have that are no messages of ours.
func (l *link) streamHeader() http.Header {
	h := http.Header{}
	if v := l.client.Version(); v.HasVersionHeader() {
		h.Set(mcp.HeaderProtocolVersion, v.String())
	}
	return h
}
