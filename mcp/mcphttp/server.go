package mcphttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// Sessions says how clients of the revisions from 2025-03-26 to 2025-11-25 are served.
type Sessions uint8

const (
	// SessionsRequired: initialize begins a session, and a request that names none is answered 400.
	SessionsRequired Sessions = iota

	// SessionsOptional: initialize begins a session, and a request that names none is answered by itself, as of 2025-03-26.
	SessionsOptional

	// SessionsNone: no session begins, and each request is answered by itself. The client cannot be asked, subscribe, or hear of changes.
	SessionsNone
)

// Options tune [NewHandler]. The zero value is ready for use.
type Options struct {
	// Hosts are further names that the Host header may have: "host", "host:port", or "host:*". localhost, 127.0.0.1 and [::1] with
	// the listening port always pass. Another Host is answered 403: it may be a web page's (DNS rebinding).
	Hosts []string

	// Origins are further web pages that may call, such as "https://app.example:8443". Those of the Host list always pass, "null"
	// never does. Another Origin is answered 403.
	Origins []string

	// Unguarded leaves Host and Origin to whoever stands in front.
	Unguarded bool

	// Principal tells who calls, by the context of the HTTP request, in which whatever authenticates has put it. A session belongs to
	// whoever began it, and for others it does not exist. It is to be the same function as in [mcp.ServerOptions]. Nil: all callers are one.
	Principal func(ctx context.Context) string

	Sessions Sessions

	// Polling lets tools call [CloseStream], which costs each request of a session a few microseconds.
	Polling bool

	// Events keeps what sessions say for clients that come back with Last-Event-ID, in a log for each under mcp/events/, up to 4,096 events or
	// 8 MiB; then the older half goes. An event is kept before it goes out; one that cannot be kept, since the disk is full, goes out all
	// the same. A log goes with its session; the sessions themselves do not outlive the process, and what they leave behind expires
	// after Lifetime, or 24 h if that has no end. Nil: memory, 1,000 events or 4 MiB of each.
	Events store.Log

	// Report, if not nil, is told of trouble with Events. It may be called from several goroutines at once.
	Report func(what string, err error)

	// MaxMessage bounds one body, in bytes. Zero means 4 MiB, negative means no bound. More is answered 413.
	MaxMessage int64

	// MaxSessions bounds the sessions at once, and MaxPerCaller those of one principal, or of one address without principals. Zero means
	// 10,000 and 100; see [streamable.Server].
	MaxSessions, MaxPerCaller int

	// Idle is how long a session lives of which nothing is heard, Lifetime how long in any case. Zero means 30 min and 24 h, negative
	// means no end.
	Idle, Lifetime time.Duration

	// KeepAlive is how long a stream may be silent before a comment is sent. Zero means 15 s, negative means never.
	KeepAlive time.Duration

	// WriteTimeout bounds each write. Zero means 10 s.
	WriteTimeout time.Duration

	// MaxRunning bounds the requests of the modern era, and of none, that run at once, those that listen included. Zero means 16,384. More are
	// answered -31001 with 429. A session has a bound of its own.
	MaxRunning int64
}

// A Handler is the MCP endpoint of a server. It is safe for concurrent use.
type Handler struct {
	server   *mcp.Server
	opts     Options
	guard    *guard.Door // nil: somebody else's business
	endpoint streamable.Server
	gate     jsonrpc.Gate
	modern   jsonrpc.Answerer
	legacy   jsonrpc.Answerer // requests of older revisions in no session
	byItself streamable.Alone
	byOlder  streamable.Alone

	mu     sync.Mutex // guards what follows
	closed bool
	pairs  map[*jsonrpc.Conn]struct{}
}

// NewHandler makes the endpoint of s, for POST, GET and DELETE at one path. Nil is the zero Options. It starts nothing. It panics if Hosts or
// Origins have an entry that can never match; [CheckNames] tells before.
//
// End it with [Handler.Shutdown] or [Handler.Close], before the http.Server: streams would hold that up.
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
		a.Cancellation = jsonrpc.Cancellation{} // anybody's id could be meant: what stands alone is cancelled by going away
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
	if o.Principal != nil {
		h.endpoint.Caller = h.caller
	}
	if o.Events != nil {
		h.endpoint.Keeper = newEventKeeper(o)
	}
	return h
}

// CheckNames complains about an entry of Hosts or Origins that can never match.
func CheckNames(hosts, origins []string) error {
	_, err := guard.New(&guard.Options{Hosts: hosts, Origins: origins})
	return err
}

func (h *Handler) caller(r *http.Request) string { return h.opts.Principal(r.Context()) }

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.guarded(w, r) {
		h.endpoint.ServeHTTP(w, r)
	}
}

func (h *Handler) guarded(w http.ResponseWriter, r *http.Request) bool {
	if h.guard == nil {
		return true
	}
	if f := h.guard.Check(r); f != nil {
		f.Write(w, r)
		return false
	}
	return true
}

// Sessions returns how many sessions there are.
func (h *Handler) Sessions() int { return h.endpoint.Sessions() }

// begin makes the MCP session of an HTTP session.
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

// Pair serves the transport of 2024-11-05: a GET opens the event stream of a conversation and tells the client to POST to messages, a path. It is
// to be mounted at both. The limits are those of the Handler, and so is the end.
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
		_ = conn.Close() // never began
		return
	}
	h.pairs[conn] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.pairs, conn)
		h.mu.Unlock()
	}()
	_ = conn.Serve(ctx) // the client is gone, or will not understand more
}

// conversations takes no more of the Pairs, and returns those that there are.
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

// Shutdown answers new requests with -31004 and waits for those that run; then all sessions and streams end. Those that listen end at once if
// the mcp.Server has been closed before. When ctx ends first, the handlers' contexts end, and Shutdown returns ctx's cause.
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

// Close ends everything at once: the handlers' contexts end, and so do all sessions and streams.
func (h *Handler) Close() error {
	over, cancel := context.WithCancelCause(context.Background())
	cancel(jsonrpc.ErrClosed)
	if err := h.Shutdown(over); err != nil && !errors.Is(err, jsonrpc.ErrClosed) {
		return err
	}
	return nil
}

// CloseStream ends the HTTP answer in which the handler of a tool speaks, while the handler goes on: its client comes back after the given time
// and gets the rest. It reports false, and does nothing, where there is no such thing: without Polling, in other revisions than 2025-11-25, and
// on other transports. ctx is the handler's.
func CloseStream(ctx context.Context, wait time.Duration) bool {
	return streamable.CloseStream(ctx, wait)
}
