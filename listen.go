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

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Listener serves one Handler on any number of addresses. Its fields are read by Listen and not changed by it.
//
// The zero value answers "method not found", to programs on this machine only.
type Listener struct {
	// Schemes is what can be listened on. Nil means DefaultSchemes.
	Schemes Schemes

	// Handler answers the requests. Nil answers "method not found". Mode is about its methods, usually Mux.Mode.
	Handler jsonrpc.Handler
	Mode    func(method string) jsonrpc.Mode

	// Prepare, if not nil, has the last word on the answering half of each conversation; over HTTP there is one for each
	// address. It runs before the first request.
	Prepare func(*jsonrpc.Answerer)

	// Converse, if not nil, sets up each conversation in which both sides speak in its own way, before the first message:
	// another protocol has its own Handler, Mode and Cancellation. Everything above is set already. The function that it
	// returns, if any, is called when the conversation is over.
	Converse func(*jsonrpc.Conn) (over func())

	// Mounts are more endpoints of each HTTP address, by path, such as "/mcp". One that ends in a slash has everything below
	// it, except what a longer one has.
	Mounts map[string]Mount

	// Cancellation is how callers say that they stopped waiting, where both sides speak. Nil means jsonrpc.CancelRequest.
	Cancellation *jsonrpc.Cancellation

	// Limits bound each conversation, Gate all of them together. Nil means a gate of 4,096 for this Listener.
	Limits jsonrpc.Limits
	Gate   *jsonrpc.Gate

	// MaxMessage bounds one incoming message, in bytes. Zero means 4 MiB, negative means no bound.
	MaxMessage int64

	// TLS is used for https, wss and tls, which are refused without it. See [LoadCertificate].
	TLS *tls.Config

	// Tokens open the door: callers over HTTP and WebSocket show one as a bearer token, callers over tcp and tls by the method
	// "rpc.authenticate" with the params {"token": …}. A Unix socket is guarded by its file permissions instead.
	Tokens []string

	// InsecureNoAuth allows addresses that other machines can reach without any authentication.
	InsecureNoAuth bool

	// AllowHost holds further names that clients may call this machine by over HTTP; AllowOrigin further web pages that may
	// call, such as "https://app.example". The listener's own names and pages always may.
	AllowHost   []string
	AllowOrigin []string

	// Pages serves what is neither the endpoint nor /healthz over HTTP: static pages, to everybody whose Host header is
	// allowed, token or not. Nil: there are none.
	Pages http.Handler

	// MaxConns bounds the connections of one address, and MaxConnsPerIP those from one remote address, loopback excepted.
	// Zero means 16,384 and 256. The former is never more than 80 % of the files that the process may open.
	MaxConns      int
	MaxConnsPerIP int

	// Tap sees each payload that got past the door, both ways. Nil: none.
	Tap Tap

	// Report is told what must not go out: panics, private errors, refused connections. Nil drops it. It runs on many
	// goroutines at once.
	Report func(what string, err error)
}

const (
	maxConns      = 16_384
	maxConnsPerIP = 256
	maxRunning    = 4_096
)

// Serve answers the methods of mux on all targets until ctx ends, and then lets what runs finish, for at most 15 s. It is
// the short way: a [Listener] has everything that can be set, and tells which ports were taken.
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

// Listen binds all targets, or none: an error says which one could not be had and the others are given back.
//
// An address in use is [ErrAddressInUse], one that other machines could reach without authentication, or that lacks a
// certificate, a *[RefusedError], and an unknown scheme a *[TargetError].
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
	if own.Report == nil {
		own.Report = func(string, error) {}
	}
	if slices.ContainsFunc(targets, func(t Target) bool { return t.Scheme != "stdio" }) {
		own.warnOfFiles()
	}
	s := &Server{}
	for _, t := range targets {
		service, err := own.bind(ctx, t)
		if err != nil {
			_ = s.Close() // nothing is served yet; err is what counts
			return nil, err
		}
		s.services = append(s.services, service)
	}
	return s, nil
}

// warnOfFiles tells when far fewer connections are taken than was wanted because of how many files the process may open.
func (l *Listener) warnOfFiles() {
	if files := openFiles(); files/10*8 < cmp.Or(max(l.MaxConns, 0), maxConns)/2 {
		l.Report("limit", fmt.Errorf("at most %d connections on each address, since this process may open %d files", files/10*8, files))
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

// Admit tells whether t may be listened on: other machines are let in with authentication only. Schemes call it before
// they bind an address of the network.
func (l *Listener) Admit(ctx context.Context, t Target) error {
	if l.InsecureNoAuth || len(l.Tokens) > 0 || l.TLS != nil && l.TLS.ClientAuth == tls.RequireAndVerifyClientCert {
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
		return &RefusedError{Target: t, Reason: "other machines could call it and nobody is asked who they are; set a token, or allow it with --insecure-no-auth (Listener.InsecureNoAuth)"}
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

// Answering sets up the answering half of one conversation.
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

// A Server is what a Listener has bound: a set of services that start and stop together.
type Server struct {
	services []Service
	stopping atomic.Bool // Shutdown has begun
}

// Targets tells where callers find the services, in the order of Listen, with the ports that were really taken.
func (s *Server) Targets() []Target {
	targets := make([]Target, len(s.services))
	for i, service := range s.services {
		targets[i] = service.Target()
	}
	return targets
}

// shutdownTime is what running requests have when a service ends by itself, as stdio does at the end of its input.
const shutdownTime = 15 * time.Second

// Serve takes requests on all services until Shutdown or Close and then returns nil. A service that ends by itself ends
// all: with its error at once, and politely where it had none, as stdio at the end of its input.
func (s *Server) Serve(ctx context.Context) error {
	ends := make(chan error, len(s.services))
	for _, service := range s.services {
		go func() { ends <- service.Serve(ctx) }()
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

// Run is Serve until ctx ends and Shutdown, with 15 s for what runs, behind it. The error is that of either.
func (s *Server) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.WithoutCancel(ctx)) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	return errors.Join(s.Shutdown(stop), <-done)
}

// endAll ends the other services after the first one has ended.
func (s *Server) endAll(ctx context.Context, err error) {
	if s.stopping.Load() {
		return // whoever called Shutdown hears what was cut
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err != nil {
		cancel()
	}
	_ = s.Shutdown(ctx) // the reason for the end is err, or there is none
}

// Shutdown takes no more connections, answers new requests with "shutting down", and waits until the running ones are done
// or ctx ends; then it cuts them off and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	errs := make([]error, len(s.services))
	var wg sync.WaitGroup
	for i, service := range s.services {
		wg.Go(func() { errs[i] = service.Shutdown(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close ends all services at once and waits for them.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
