package parley

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Listener serves one Handler on any number of addresses. Listen reads the fields and never
// changes them.
//
// The zero value responds "method not found", and only to programs on this machine.
type Listener struct {
	// Schemes is the table of schemes that can be listened on. If nil, DefaultSchemes is used.
	Schemes Schemes

	// Handler handles the requests. If nil, each request gets "method not found". Mode returns the
	// modes of its methods; it is usually Mux.Mode.
	Handler jsonrpc.Handler
	Mode    func(method string) jsonrpc.Mode

	// Prepare, if not nil, is called last in the setup of each connection's Answerer; over HTTP
	// there is one Answerer for each address. It runs before the first request.
	Prepare func(*jsonrpc.Answerer)

	// Converse, if not nil, sets up each bidirectional connection before its first message, for a
	// protocol with its own Handler, Mode and Cancellation. All fields above are already applied.
	// The returned function, if not nil, is called when the connection is closed.
	Converse func(*jsonrpc.Conn) (over func())

	// Mounts are additional endpoints of each HTTP address, by path, such as "/mcp". A path that
	// ends in a slash also covers everything below it, except what a longer path covers.
	Mounts map[string]Mount

	// Endpoint, if not nil, handles what is not a WebSocket at the endpoint of each HTTP address, in
	// place of the POSTs to Handler and after the same access checks. Its Converse is not used.
	Endpoint *Mount

	// Cancellation defines how callers cancel a call on a bidirectional transport. If nil,
	// jsonrpc.CancelRequest is used.
	Cancellation *jsonrpc.Cancellation

	// Limits bound each connection; Gate bounds all of them together. If Gate is nil, this Listener
	// uses a gate of 4,096.
	Limits jsonrpc.Limits
	Gate   *jsonrpc.Gate

	// MaxMessage bounds one incoming message, in bytes. Zero means 4 MiB, negative means no bound.
	MaxMessage int64

	// TLS is required for https, wss and tls; Listen returns an error for these schemes without it.
	// See [LoadCertificate].
	TLS *tls.Config

	// Tokens are the accepted bearer tokens. Callers over HTTP and WebSocket send one as a bearer
	// token, callers over tcp and tls by the method "rpc.authenticate" with the params {"token":
	// …}. A Unix socket is protected by its file permissions instead.
	Tokens []string

	// Verify, if not nil, verifies bearer tokens that are not in Tokens, on the same transports. It
	// returns a context derived from ctx, usually by [WithPrincipal], or an error:
	//
	//   - ErrNotVerified if the token cannot be verified at the moment: 503 over HTTP;
	//   - a *ScopeError for a valid token that grants too little: 403;
	//   - any other error for a token that is not valid: 401. After ten within a minute, further
	//     ones of the same address get 429 for a minute.
	//
	// Over tcp and tls these are errors with the code -31005, and -31001 in place of 429. Texts of
	// errors are not sent. Handlers find the values of the context in theirs. Over HTTP they do not
	// receive the Authorization header. A connection belongs to the principal of its first token.
	// Verify may be called from many goroutines at once, must return within a few seconds, and must
	// not retain the token.
	Verify func(ctx context.Context, token string) (context.Context, error)

	// Challenge is the value of WWW-Authenticate in responses with 401 and 403, such as `Bearer
	// resource_metadata="https://…"` (RFC 9728, section 5.1). If empty, it is "Bearer". The error
	// is added to it.
	Challenge string

	// InsecureNoAuth allows addresses that other machines can reach without any authentication.
	InsecureNoAuth bool

	// AllowHost lists additional host names that clients may use for this machine over HTTP.
	// AllowOrigin lists additional web origins that may send requests, such as
	// "https://app.example". The listener's own names and origins are always allowed.
	AllowHost   []string
	AllowOrigin []string

	// Pages serves all paths over HTTP except the endpoint and /healthz. It is for static pages:
	// every client with an allowed Host header gets them, with or without a token. If nil, there
	// are no pages.
	Pages http.Handler

	// MaxConns bounds the connections of one address, and MaxConnsPerIP the connections from one
	// remote address, except loopback. Zero means 16,384 and 256. All addresses of the process
	// together use at most 80 % of the files that the process may open.
	MaxConns      int
	MaxConnsPerIP int

	// Tap receives each payload that passed the access checks, in both directions. It may be nil.
	Tap Tap

	// Report is called with events that must not be sent to a peer: panics, private errors,
	// rejected and broken connections. If nil, they are logged with slog's default logger, as one
	// escaped line each: with the level Debug if any peer can cause them, such as a violation of
	// HTTP/2 or a failed TLS handshake, and with Error otherwise. It may be called from many
	// goroutines at once.
	Report func(what string, err error)
}

const (
	maxConns      = 16_384
	maxConnsPerIP = 256
	maxRunning    = 4_096
)

// Serve serves the methods of mux on all targets until ctx ends, and then waits for running
// handlers, for at most 15 s. Use a [Listener] for more settings, or to get the bound ports.
func Serve(ctx context.Context, mux *jsonrpc.Mux, targets ...string) error {
	parsed := make([]Target, len(targets))
	for i, text := range targets {
		var err error
		if parsed[i], err = ParseTarget(text); err != nil {
			return err
		}
	}
	l := &Listener{Handler: mux, Mode: mux.Mode}
	s, err := l.Listen(ctx, parsed...)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// Listen binds all targets or none. If it fails, the error names the target that could not be
// bound, and the others are released.
//
// It returns [ErrAddressInUse] for an address in use, a *[RefusedError] for an address that other
// machines could reach without authentication or that lacks a certificate, and a *[TargetError] for
// an unknown scheme.
func (l *Listener) Listen(ctx context.Context, targets ...Target) (*Server, error) {
	if len(targets) == 0 {
		return nil, errors.New("parley: nothing to listen on")
	}
	own := *l
	if own.Gate == nil {
		own.Gate = &jsonrpc.Gate{Max: maxRunning}
	}
	if own.Schemes == nil {
		own.Schemes = DefaultSchemes()
	}
	own.Report = report.Or(own.Report, "parley")
	if slices.ContainsFunc(targets, func(t Target) bool { return t.Scheme != "stdio" }) {
		own.warnOfFiles()
	}
	s := &Server{}
	for _, t := range targets {
		service, err := own.bind(ctx, t)
		if err != nil {
			_ = s.Close() // nothing is served yet; err is the error to return
			return nil, err
		}
		s.services = append(s.services, service)
	}
	return s, nil
}

// warnOfFiles reports a bound on connections that is far below the configured one because of the
// number of files that the process may open.
func (l *Listener) warnOfFiles() {
	if files := openFiles(); files/10*8 < cmp.Or(max(l.MaxConns, 0), maxConns)/2 {
		l.Report(ReportLimit, fmt.Errorf("at most %d connections on each address, since this process may open %d files", files/10*8, files))
	}
}

func (l *Listener) bind(ctx context.Context, t Target) (Service, error) {
	scheme, err := l.Schemes.find(t)
	if err != nil {
		return nil, err
	}
	if scheme.Listen == nil {
		return nil, &TargetError{Target: t.String(), Reason: "it can be dialled but not served"}
	}
	return scheme.Listen(ctx, l, t)
}

// Admit returns an error unless t may be listened on: an address that other machines can reach
// requires Tokens, Verify, verified client certificates or InsecureNoAuth. Schemes call Admit
// before they bind a network address.
func (l *Listener) Admit(ctx context.Context, t Target) error {
	if l.InsecureNoAuth || l.needsToken() || l.TLS != nil && l.TLS.ClientAuth == tls.RequireAndVerifyClientCert {
		return nil
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		host = t.Address
	}
	loopback, err := isLoopback(ctx, host)
	if err != nil {
		return err
	}
	if !loopback {
		return &RefusedError{Target: t, Reason: "other machines could call it without authentication; set a token, or allow it with --insecure-no-auth (Listener.InsecureNoAuth)"}
	}
	return nil
}

func isLoopback(ctx context.Context, host string) (bool, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.IsLoopback(), nil
	}
	if host == "localhost" {
		return true, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, err
	}
	for _, address := range addresses {
		if !address.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return len(addresses) > 0, nil
}

// Answering configures the Answerer of one connection.
func (l *Listener) Answering(a *jsonrpc.Answerer, version jsonrpc.Version) {
	a.Handler = l.Handler
	if a.Handler == nil {
		a.Handler = new(jsonrpc.Mux)
	}
	a.Mode = l.Mode
	a.Limits = l.Limits
	a.Gate = l.Gate
	a.Version = version
	a.Report = l.Report
	a.Cancellation = jsonrpc.CancelRequest
	if l.Cancellation != nil {
		a.Cancellation = *l.Cancellation
	}
	if l.Prepare != nil {
		l.Prepare(a)
	}
}

// A Server is a set of bound services that start and stop together. [Listener.Listen] creates it.
type Server struct {
	services []Service
	stopping atomic.Bool // Shutdown has begun
}

// Targets returns the targets at which callers reach the services, in the order of Listen, with the
// bound ports.
func (s *Server) Targets() []Target {
	targets := make([]Target, len(s.services))
	for i, service := range s.services {
		targets[i] = service.Target()
	}
	return targets
}

// shutdownTime is the time for running requests when a service ends by itself, as stdio does at the
// end of its input.
const shutdownTime = 15 * time.Second

// Serve accepts requests on all services until Shutdown or Close and then returns nil. If one
// service ends, all end: immediately and with its error, or by Shutdown if it had no error, as
// stdio at the end of its input.
func (s *Server) Serve(ctx context.Context) error {
	ends := make(chan error, len(s.services))
	for _, service := range s.services {
		go func() { ends <- rescue.Call(nil, func() error { return service.Serve(ctx) }) }()
	}
	var errs []error
	for i := range s.services {
		err := <-ends
		if err != nil {
			errs = append(errs, err)
		}
		if i == 0 {
			s.endAll(ctx, err)
		}
	}
	return errors.Join(errs...)
}

// Run calls Serve until ctx ends, and then Shutdown, with 15 s for running requests. It returns the
// error of either, 16 s after the end of ctx at the latest, also if handlers ignore their contexts.
func (s *Server) Run(ctx context.Context) error { return s.RunWithin(ctx, shutdownTime) }

// RunWithin is [Server.Run] with d in place of 15 s. d must be positive.
func (s *Server) RunWithin(ctx context.Context, d time.Duration) error {
	done := make(chan error, 1)
	go func() {
		done <- rescue.Call(nil, func() error { return s.Serve(context.WithoutCancel(ctx)) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), d)
	defer cancel()
	shut := make(chan error, 1)
	go func() { shut <- rescue.Call(nil, func() error { return s.Shutdown(stop) }) }()
	late := time.NewTimer(d + time.Second)
	defer late.Stop()
	var err error
	select {
	case err = <-shut:
	case <-late.C: // the last responses were sent; a peer that does not end its side is left
		err = context.Cause(stop)
	}
	step := grace.Time
	if stop.Err() != nil {
		step = lastStep
	}
	timer := time.NewTimer(step)
	defer timer.Stop()
	select {
	case served := <-done:
		return errors.Join(err, served)
	case <-timer.C: // a handler ignores its context
		return errors.Join(err, jsonrpc.ErrStillRunning)
	}
}

// endAll ends the other services after the first one has ended.
func (s *Server) endAll(ctx context.Context, err error) {
	if s.stopping.Load() {
		return // Shutdown returns the error for cancelled requests
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err != nil {
		cancel()
	}
	_ = s.Shutdown(ctx) // err, if not nil, is the reason for the end
}

// Shutdown stops accepting connections, responds to new requests with "shutting down", and waits
// until the running ones are done. If ctx ends first, it cancels them and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	errs := make([]error, len(s.services))
	var wg sync.WaitGroup
	for i, service := range s.services {
		wg.Go(func() { errs[i] = rescue.Call(nil, func() error { return service.Shutdown(ctx) }) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close stops all services immediately and waits for them.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return withoutCanceled(s.Shutdown(ctx))
}

// withoutCanceled returns err without the errors in it that only report the cancellation.
func withoutCanceled(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest error
		for _, e := range joined.Unwrap() {
			rest = errors.Join(rest, withoutCanceled(e))
		}
		return rest
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
