package parley

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// Default paths, for addresses without one.
const (
	endpointPath = "/rpc"
	pairPath     = "/sse" // of sse+http
)

// A web is one HTTP address: POST and WebSocket on the endpoint, or an event stream and POSTs;
// /healthz; and the program's pages.
type web struct {
	listener *Listener
	target   Target
	endpoint string // path
	bound    net.Listener
	server   *http.Server
	answerer jsonrpc.Answerer // for POST, which has no connections
	post     httprpc.Server
	pair     *sse.Pair // for sse+http, instead of post; otherwise nil
	mounts   map[string]http.Handler
	sockets  connSet
	limit    *connLimit
	ctx      context.Context // of Serve, for connections that outlive their request
	started  chan struct{}   // closed when ctx is set
	stopping atomic.Bool
}

// listenWeb implements Listen for http, https, ws, wss, sse+http and sse+https.
func listenWeb(ctx context.Context, l *Listener, t Target) (Service, error) {
	if err := l.Admit(ctx, t); err != nil {
		return nil, err
	}
	secure := isSecure(t.Scheme)
	if secure && l.TLS == nil {
		return nil, needsCertificate(t)
	}
	endpoint, query, _ := strings.Cut(t.Path, "?")
	if query != "" {
		return nil, &RefusedError{Target: t, Reason: "a listening address must not have a query"}
	}
	w := &web{listener: l, target: t, endpoint: endpoint, started: make(chan struct{})}
	w.sockets.listener = l
	standard := endpointPath
	if strings.HasPrefix(t.Scheme, "sse+") {
		standard = pairPath
		w.pair = &sse.Pair{Serve: w.servePair, MaxMessage: l.MaxMessage}
		if l.Verify != nil || l.certifies() {
			w.pair.Caller = callerOf
		}
	}
	if w.endpoint == "" {
		w.endpoint, w.target.Path = standard, standard
	}
	if err := w.mount(); err != nil {
		return nil, err
	}
	l.Answering(&w.answerer, t.Version)
	// an ID could belong to any caller; over HTTP, closing the request cancels it
	w.answerer.Cancellation = jsonrpc.Cancellation{}
	w.post = httprpc.Server{Answerer: answeringTo(&w.answerer, l.Tap), MaxMessage: l.MaxMessage}
	door, err := w.door()
	if err != nil {
		return nil, err
	}
	bound, err := bindTCP(ctx, &w.target)
	if err != nil {
		return nil, err
	}
	w.limit = newConnLimit(l.MaxConns, l.MaxConnsPerIP)
	w.bound = &limitedListener{Listener: guard.Linger(bound), limit: w.limit, secure: secure, report: l.Report}
	routes := http.Handler(http.HandlerFunc(w.route))
	if secure && l.certifies() {
		routes = withCertificate(routes)
	}
	w.server = guard.NewServer(withPath(door.Wrap(routes)), guard.ErrorLog(l.Report))
	w.server.ConnContext, w.server.ConnState = w.limit.hooks()
	if secure {
		w.server.TLSConfig = l.TLS.Clone()
	}
	return w, nil
}

// isSecure reports whether an HTTP scheme uses TLS.
func isSecure(scheme string) bool { return scheme == "wss" || strings.HasSuffix(scheme, "https") }

// bindTCP listens on the address of t and stores the bound port in it.
func bindTCP(ctx context.Context, t *Target) (net.Listener, error) {
	address := t.Address
	if _, _, err := net.SplitHostPort(address); err != nil {
		port := "80"
		if isSecure(t.Scheme) {
			port = "443"
		}
		address = net.JoinHostPort(strings.Trim(address, "[]"), port)
	}
	bound, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, listenError(*t, err)
	}
	t.Address = withPort(address, bound.Addr())
	return bound, nil
}

// listenError names the address that could not be listened on, and distinguishes an address in use
// from other failures.
func listenError(t Target, err error) error {
	if isInUse(err) {
		return fmt.Errorf("listen on %s: %w", t.URL(), ErrAddressInUse)
	}
	return fmt.Errorf("listen on %s: %w", t.URL(), err)
}

// door creates the access checks of all routes.
func (w *web) door() (*guard.Door, error) {
	hosts := w.listener.AllowHost
	if host, _, err := net.SplitHostPort(w.target.Address); err == nil && host != "0.0.0.0" && host != "::" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		hosts = append(hosts[:len(hosts):len(hosts)], host)
	}
	tokens := make([]guard.Digest, len(w.listener.Tokens))
	for i, token := range w.listener.Tokens {
		tokens[i] = guard.DigestOf(token)
	}
	challenge, err := w.listener.challenge()
	if err != nil {
		return nil, err
	}
	var verify func(*http.Request, string) (context.Context, *guard.Rejection)
	if w.listener.Verify != nil {
		verify = w.listener.verifyRequest
	}
	return guard.New(&guard.Options{
		Hosts:     hosts,
		Origins:   w.listener.AllowOrigin,
		Tokens:    tokens,
		Verify:    verify,
		Challenge: challenge,
		Pages:     w.isPage,
		Refused: func(r *http.Request, f *guard.Refusal) {
			w.listener.Report(jsonrpc.ReportRefused, fmt.Errorf("%s %s from %s: %w", cutText(r.Method), cutText(r.URL.Path), r.RemoteAddr, f))
		},
	})
}

// isPage reports whether r is for the pages or /healthz, which run no handler.
func (w *web) isPage(r *http.Request) bool {
	if websocket.IsUpgrade(r) || r.URL.Path == w.endpoint || w.mounted(r.URL.Path) != nil {
		return false
	}
	return r.URL.Path == "/healthz" || w.listener.Pages != nil
}

// withPath sets the path of requests without one to "/" (RFC 9110, section 4.2.3).
func withPath(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" && r.URL.Host != "" {
			r.URL.Path = "/"
		}
		next.ServeHTTP(rw, r)
	})
}

func (w *web) route(rw http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == w.endpoint, path == "/" && w.takesRoot(r):
		w.serveEndpoint(rw, r)
	case w.mounted(path) != nil:
		w.mounted(path).ServeHTTP(rw, r)
	case path == "/healthz":
		serveHealth(rw, r)
	case w.listener.Pages != nil:
		w.listener.Pages.ServeHTTP(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

// takesRoot reports whether a request to / is meant for the endpoint: many programs are configured
// with an address without a path.
func (w *web) takesRoot(r *http.Request) bool {
	return w.pair == nil && w.endpoint == endpointPath && (r.Method == http.MethodPost || websocket.IsUpgrade(r))
}

// isPlainPost reports whether r is an ordinary POST although it offers another protocol: one with a
// body, or in HTTP/1.0, where the offer is to be ignored (RFC 9110, section 7.8).
func isPlainPost(r *http.Request) bool {
	return r.Method == http.MethodPost && (r.ContentLength != 0 || !r.ProtoAtLeast(1, 1))
}

func (w *web) serveEndpoint(rw http.ResponseWriter, r *http.Request) {
	if w.pair != nil {
		w.pair.ServeHTTP(rw, r)
		return
	}
	if !websocket.IsUpgrade(r) || isPlainPost(r) {
		if own := w.listener.Endpoint; own != nil {
			own.Handler.ServeHTTP(rw, r)
			return
		}
		w.post.ServeHTTP(rw, r)
		return
	}
	w.serveUpgrade(rw, r, nil)
}

// serveUpgrade upgrades the request to a WebSocket and serves a connection on it that converse sets
// up.
func (w *web) serveUpgrade(rw http.ResponseWriter, r *http.Request, converse func(*jsonrpc.Conn) (over func())) {
	guest := guestOf(r.Context())
	transport, err := websocket.Upgrade(rw, r, &websocket.Options{
		MaxMessage: w.listener.MaxMessage,
		// the access checks have already verified the origin
		CheckOrigin: func(*http.Request) bool { return true },
	})
	if err != nil {
		guest.abandon()
		w.listener.Report(ReportUpgrade, err)
		return
	}
	conn := w.sockets.openConn(transport, opening{version: w.target.Version, ending: func(cause error) { w.setCloseReason(transport, cause) }, converse: converse})
	if conn == nil {
		guest.abandon()
		return
	}
	ctx, expiry := w.ofCaller(r.Context(), conn)
	// sockets.shutdown waits for it; the request's memory is released as soon as this handler
	// returns
	go func() {
		defer guest.leave()
		defer expiry()
		if err := w.sockets.serve(ctx, conn); err != nil {
			w.listener.Report(ReportConnection, err)
		}
	}()
}

// ofCaller returns the context of a connection that a request has opened: that of Serve, with the
// values of the request's if it has a caller. The connection ends when the caller's credentials
// expire. stop must be called at its end.
func (w *web) ofCaller(request context.Context, conn *jsonrpc.Conn) (ctx context.Context, stop func()) {
	<-w.started // already closed: Serve accepts the requests
	ctx, stop = withRemote(w.ctx, RemoteAddr(request)), func() {}
	if w.listener.Verify == nil && principal.Of(request) == "" {
		return ctx, stop
	}
	ctx = withValues(ctx, request)
	if p := PrincipalOf(ctx); p != nil && !p.Expires.IsZero() {
		timer := time.AfterFunc(time.Until(p.Expires), func() { conn.Hangup(errExpired) })
		stop = func() { timer.Stop() }
	}
	return ctx, stop
}

// setCloseReason sets the reason in the close frame if the peer did not close the connection (RFC
// 6455, section 7.4.1).
func (w *web) setCloseReason(t *websocket.Transport, cause error) {
	switch {
	case w.stopping.Load():
		_ = t.SetClose(websocket.CloseGoingAway, "") // this code may be sent
	case errors.Is(cause, jsonrpc.ErrSlowPeer):
		_ = t.SetClose(websocket.CloseTryLater, "messages were not read in time") // likewise
	case errors.Is(cause, jsonrpc.ErrBusy):
		_ = t.SetClose(websocket.CloseTryLater, "too many notifications are queued") // likewise
	}
}

// servePair serves a connection whose two directions are two HTTP requests.
func (w *web) servePair(ctx context.Context, transport jsonrpc.Transport, _ *http.Request) {
	conn := w.sockets.openConn(transport, opening{version: w.target.Version})
	if conn == nil {
		return
	}
	if err := w.sockets.serve(ctx, conn); err != nil && ctx.Err() == nil {
		w.listener.Report(ReportConnection, err)
	}
}

func serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, "ok") // the client may be gone
}

func (w *web) Target() Target { return w.target }

func (w *web) Serve(ctx context.Context) error {
	w.ctx = ctx
	close(w.started)
	w.server.BaseContext = func(net.Listener) context.Context { return ctx }
	var err error
	if w.server.TLSConfig != nil {
		err = w.server.ServeTLS(w.bound, "", "")
	} else {
		err = w.server.Serve(w.bound)
	}
	if errors.Is(err, http.ErrServerClosed) || w.stopping.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Shutdown stops listening immediately and rejects new requests while the running ones finish.
func (w *web) Shutdown(ctx context.Context) error {
	w.stopping.Store(true)
	_ = w.bound.Close() // net/http closes it too, but only if Serve has begun
	var wg sync.WaitGroup
	errs := make([]error, 4)
	wg.Go(func() { errs[0] = w.answerer.Drain(ctx) })
	wg.Go(func() { errs[1] = w.sockets.shutdown(ctx) })
	wg.Go(func() { errs[2] = w.drainMounts(ctx) })
	wg.Go(func() { errs[3] = w.stop(ctx) })
	wg.Wait()
	return errors.Join(append(errs, w.server.Close())...)
}

// drainTimeout is the time for cancelled handlers to send their error responses.
const drainTimeout = time.Second

// stop closes connections as they become idle.
func (w *web) stop(ctx context.Context) error {
	err := w.server.Shutdown(ctx)
	if ctx.Err() == nil {
		return err
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	_ = w.server.Shutdown(last) // whatever has not ended by then is closed by Close
	return err
}
