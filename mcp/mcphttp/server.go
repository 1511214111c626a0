package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// Sessions controls how clients of the versions from 2025-03-26 to 2025-11-25 are served.
type Sessions uint8

const (
	// SessionsRequired means that initialize begins a session, and that a request without a session
	// gets a 400.
	SessionsRequired Sessions = iota

	// SessionsOptional means that initialize begins a session, and that a request without a session
	// is handled on its own, as in 2025-03-26.
	SessionsOptional

	// SessionsNone means that there are no sessions, and that each request is handled on its own.
	// The server cannot send requests to the client, and the client cannot subscribe or receive
	// notifications about changes.
	SessionsNone
)

// Options configure [NewHandler]. The zero value is ready for use.
type Options struct {
	// Hosts lists additional allowed values of the Host header: "host", "host:port", or "host:*".
	// localhost, 127.0.0.1 and [::1] with the listening port are always allowed. Any other Host
	// gets a 403, because it may come from a web page (DNS rebinding).
	Hosts []string

	// Origins lists additional origins of web pages that may call, such as
	// "https://app.example:8443". The origins of the allowed hosts are always allowed, "null" never
	// is. Any other Origin gets a 403.
	Origins []string

	// Unguarded disables the checks of Host and Origin, for a server behind a proxy or middleware
	// that checks them.
	Unguarded bool

	// Principal returns the caller from the context of the HTTP request, where authentication has
	// stored it. A session belongs to the principal that began it; for others it does not exist. It
	// must be the same function as in [mcp.ServerOptions]. If nil, the principal is the one that
	// access checks stored in the context; without access checks, all callers are one principal.
	Principal func(ctx context.Context) string

	Sessions Sessions

	// Polling lets tools call [CloseStream]. It costs a few microseconds for each request of a
	// session.
	Polling bool

	// Events stores the events of sessions for clients that reconnect with Last-Event-ID. Each
	// session has a log under mcp/events/ with up to 4,096 events or 8 MiB; beyond that, the older
	// half is deleted. An event is stored before it is sent. An event that cannot be stored, for
	// example because the disk is full, is sent nevertheless. The log is deleted with its session.
	// The sessions themselves do not survive the process; logs that remain expire after Lifetime,
	// or after 24 h if Lifetime is unlimited. If nil, events are stored in memory, 1,000 events or
	// 4 MiB per session.
	Events store.Log

	// Report, if not nil, is called with errors of Events. It may be called concurrently.
	Report func(what string, err error)

	// MaxMessage is the size limit of one request body, in bytes. Zero means 4 MiB, a negative
	// value means no limit. A larger body gets a 413.
	MaxMessage int64

	// MaxSessions is the maximum number of sessions, and MaxPerCaller that of one principal, or of
	// one client address if there are no principals. Zero means 10,000 and 100; see
	// [streamable.Server].
	MaxSessions, MaxPerCaller int

	// Idle is how long a session remains open without activity: no running request and no reader of
	// its streams. Lifetime is its maximum duration. Zero means 30 min and 24 h, a negative value
	// means no limit.
	Idle, Lifetime time.Duration

	// KeepAlive is how long a stream may be idle before a comment is sent. Zero means 15 s, a
	// negative value means never.
	KeepAlive time.Duration

	// WriteTimeout bounds the time in which a client takes nothing, of each 64 KiB that are written.
	// Zero means 10 s. After it the connection is closed.
	WriteTimeout time.Duration

	// MaxRunning is the maximum number of concurrent requests of the modern era and without a
	// session, including listen requests. Zero means 16,384. Further requests get error -31001 with
	// status 429. Sessions have their own limit.
	MaxRunning int64
}

// A Handler is the MCP endpoint of a server. It is safe for concurrent use.
type Handler struct {
	server   *mcp.Server
	opts     Options
	guard    *guard.Door // nil if Unguarded
	endpoint streamable.Server
	gate     jsonrpc.Gate
	modern   jsonrpc.Answerer
	legacy   jsonrpc.Answerer // requests of older versions without a session
	byItself streamable.Alone
	byOlder  streamable.Alone

	mu     sync.Mutex // guards the fields below
	closed bool
	pairs  map[*jsonrpc.Conn]struct{}
}

// NewHandler returns the endpoint of s, for POST, GET and DELETE at one path. Nil means the zero
// Options. It starts nothing. It panics if Hosts or Origins contain an entry that can never match;
// [CheckNames] checks that in advance.
//
// Close the Handler with [Handler.Shutdown] or [Handler.Close] before the http.Server, whose
// Shutdown would otherwise wait for open streams.
func NewHandler(s *mcp.Server, o *Options) *Handler {
	if o == nil {
		o = &Options{}
	}
	h := &Handler{server: s, opts: *o, pairs: map[*jsonrpc.Conn]struct{}{}}
	if !o.Unguarded {
		door, err := guard.New(&guard.Options{Hosts: o.Hosts, Origins: o.Origins})
		if err != nil {
			panic(fmt.Errorf("mcphttp: %w", err))
		}
		h.guard = door
	}
	if h.gate.Max = o.MaxRunning; h.gate.Max <= 0 {
		h.gate.Max = 16_384
	}
	for _, a := range []*jsonrpc.Answerer{&h.modern, &h.legacy} {
		s.Configure(a, s)
		// IDs of different callers may be equal; a request without a session is cancelled by
		// closing its HTTP request
		a.Cancellation = jsonrpc.Cancellation{}
		a.Gate = &h.gate
	}
	h.modern.NoBatch = true
	h.byItself = streamable.Alone{Answerer: &h.modern, Check: h.checkModern, Status: modernStatus, OmitID: true}
	h.byOlder = streamable.Alone{Answerer: &h.legacy, Check: h.checkLegacy, Status: legacyStatus, Patient: true}
	h.endpoint = streamable.Server{
		Door:          h.door,
		SessionHeader: mcp.HeaderSession,
		Begin:         h.begin,
		Polling:       o.Polling,
		MaxMessage:    o.MaxMessage,
		MaxSessions:   o.MaxSessions,
		MaxPerCaller:  o.MaxPerCaller,
		Idle:          o.Idle,
		Lifetime:      o.Lifetime,
		KeepAlive:     o.KeepAlive,
		WriteTimeout:  o.WriteTimeout,
	}
	h.endpoint.Principal = func(r *http.Request) string { return principal.Of(r.Context()) }
	if o.Principal != nil {
		h.endpoint.Caller = h.caller
	}
	if o.Events != nil {
		h.endpoint.Keeper = newEventKeeper(o)
	}
	return h
}

// CheckNames returns an error for an entry of Hosts or Origins that can never match.
func CheckNames(hosts, origins []string) error {
	_, err := guard.New(&guard.Options{Hosts: hosts, Origins: origins})
	return err
}

func (h *Handler) caller(r *http.Request) string { return h.opts.Principal(r.Context()) }

// ServeHTTP handles one HTTP request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if h.guarded(w, r) {
		h.endpoint.ServeHTTP(w, r)
	}
}

func (h *Handler) guarded(w http.ResponseWriter, r *http.Request) bool {
	if h.guard == nil {
		return true
	}
	return h.guard.Admit(w, r)
}

// Sessions returns the number of open sessions.
func (h *Handler) Sessions() int { return h.endpoint.Sessions() }

// begin creates the MCP session of an HTTP session.
func (h *Handler) begin(n *streamable.Session, _ *http.Request) {
	m := h.server.NewSession(mcp.SessionOptions{ID: n.ID, Voice: n.Voice()})
	h.server.Configure(&n.Answerer, m)
	n.Asker.Open = mcp.OpenForServer
	n.Cancellation = mcp.Cancellation
	n.Check, n.Status = h.checkLegacy, legacyStatus
	n.Opened = func() bool {
		v := m.Version()
		n.Early, n.Answerer.NoBatch = v.HasEarlyEvents(), !v.HasBatches()
		return v != 0
	}
	n.Ended = m.Close
}

// Pair serves the transport of 2024-11-05: a GET opens the event stream of a conversation, whose
// first event names messages, the path for POST requests. Register the returned handler at both
// paths. The limits of the Handler apply, and closing the Handler closes it.
func (h *Handler) Pair(messages string) http.Handler {
	pair := &sse.Pair{
		Serve:        h.servePair,
		Messages:     messages,
		MaxMessage:   h.opts.MaxMessage,
		MaxStreams:   h.opts.MaxSessions,
		MaxPerCaller: h.opts.MaxPerCaller,
		KeepAlive:    h.opts.KeepAlive,
		WriteTimeout: h.opts.WriteTimeout,
	}
	if h.opts.Principal != nil {
		pair.Caller = h.caller
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard.EndAfterChunked(w, r)
		if h.guarded(w, r) {
			pair.ServeHTTP(w, r)
		}
	})
}

func (h *Handler) servePair(ctx context.Context, t jsonrpc.Transport, _ *http.Request) {
	conn := jsonrpc.NewConn(t)
	session := h.server.Attach(conn)
	defer session.Close()
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		_ = conn.Close() // it was never served
		return
	}
	h.pairs[conn] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.pairs, conn)
		h.mu.Unlock()
	}()
	_ = conn.Serve(ctx) // the client is gone, or cannot receive more
}

// conversations closes the Handler for new Pair connections, and returns the open ones.
func (h *Handler) conversations() []*jsonrpc.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	var all []*jsonrpc.Conn
	for c := range h.pairs {
		all = append(all, c)
	}
	return all
}

// Shutdown rejects new requests with -31004 and waits for the running ones; then it closes all
// sessions and streams. Listen requests end at once if the mcp.Server has been closed before. If
// ctx ends first, Shutdown cancels the handlers' contexts and returns the cause of ctx.
func (h *Handler) Shutdown(ctx context.Context) error {
	pairs := h.conversations()
	errs := make([]error, len(pairs)+3)
	var wg sync.WaitGroup
	for i, c := range pairs {
		wg.Go(func() { errs[i] = c.Shutdown(ctx) })
	}
	wg.Go(func() { errs[len(pairs)] = h.modern.Drain(ctx) })
	wg.Go(func() { errs[len(pairs)+1] = h.legacy.Drain(ctx) })
	wg.Go(func() { errs[len(pairs)+2] = h.endpoint.Shutdown(ctx) })
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	return nil
}

// Close closes everything at once: it cancels the handlers' contexts and closes all sessions and
// streams.
func (h *Handler) Close() error {
	over, cancel := context.WithCancelCause(context.Background())
	cancel(jsonrpc.ErrClosed)
	if err := h.Shutdown(over); err != nil && !errors.Is(err, jsonrpc.ErrClosed) {
		return err
	}
	return nil
}

// CloseStream closes the HTTP response on which the handler of a tool sends, while the handler
// continues. The client reconnects after the given time and receives the remaining messages.
// CloseStream does nothing and reports false if this is not supported: without Polling, in versions
// other than 2025-11-25, and on other transports. ctx is the context of the handler.
func CloseStream(ctx context.Context, wait time.Duration) bool {
	return streamable.CloseStream(ctx, wait)
}
