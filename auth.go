package parley

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// MethodAuthenticate is the method that sends a bearer token over a transport without headers: tcp
// and tls. Its params are {"token": "…"}, its result is true. It is specific to parley; JSON-RPC
// reserves names with "rpc." for extensions (JSON-RPC 2.0, section 8).
const MethodAuthenticate = "rpc.authenticate"

const (
	authTime = 10 * time.Second // maximum time of a connection without credentials
	// number of rejected requests after which the connection is closed
	authTrials = 3
)

// credentials are the params of rpc.authenticate.
type credentials struct {
	Token string `json:"token"`
}

// ErrNotVerified reports that a token cannot be verified at the moment; it may be valid. See
// [Listener.Verify].
var ErrNotVerified = errors.New("tokens cannot be verified at the moment")

// A ScopeError reports a valid token that does not grant enough. See [Listener.Verify].
type ScopeError struct {
	Scopes []string // required; sent to the caller
}

func (e *ScopeError) Error() string {
	return "the token lacks a required scope: " + strings.Join(e.Scopes, " ")
}

var (
	errUnauthenticated = errors.New("the peer did not authenticate")
	errExpired         = errors.New("the credentials of the peer have expired")
	errOtherCaller     = errors.New("the token of another caller on an authenticated connection")

	faultNoToken    = unauthorized("unauthenticated", false)
	faultBadToken   = unauthorized("invalid_token", false)
	faultScope      = unauthorized("insufficient_scope", false)
	faultUnverified = unauthorized("not_verified", true)
)

func unauthorized(reason string, retryable bool) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeUnauthorized, Message: "Unauthenticated",
		Data: fmt.Appendf(nil, `{"reason":%q,"retryable":%t}`, reason, retryable)}
}

// needsToken reports whether callers need a token.
func (l *Listener) needsToken() bool { return len(l.Tokens) > 0 || l.Verify != nil }

// certifies reports whether callers may have a client certificate that is verified.
func (l *Listener) certifies() bool {
	return l.TLS != nil && l.TLS.ClientAuth >= tls.VerifyClientCertIfGiven
}

// verify calls Verify. A panic in it is an ErrNotVerified.
func (l *Listener) verify(ctx context.Context, token string) (verified context.Context, err error) {
	panicked := rescue.Run(l.Report, func() {
		verified, err = l.Verify(ctx, token)
	})
	if panicked != nil {
		return nil, ErrNotVerified
	}
	if err == nil && verified == nil {
		err = errors.New("parley: Listener.Verify returned neither a context nor an error")
	}
	return verified, err
}

// verifyRequest implements [guard.Options.Verify].
func (l *Listener) verifyRequest(r *http.Request, token string) (context.Context, *guard.Rejection) {
	ctx, err := l.verify(r.Context(), token)
	if err == nil {
		return untilExpiry(ctx, r), nil
	}
	if scope, ok := errors.AsType[*ScopeError](err); ok {
		return nil, &guard.Rejection{Status: http.StatusForbidden, Text: "the token lacks a required scope", Scope: scopeText(scope.Scopes)}
	}
	if errors.Is(err, ErrNotVerified) {
		return nil, &guard.Rejection{Status: http.StatusServiceUnavailable, Text: ErrNotVerified.Error()}
	}
	return nil, &guard.Rejection{Status: http.StatusUnauthorized, Text: "this token is not valid"}
}

// scopeText joins scopes for a header; characters outside of RFC 6749, section 3.3 are dropped with
// their scope.
func scopeText(scopes []string) string {
	valid := func(scope string) bool {
		return scope != "" && !strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' })
	}
	return strings.Join(slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return !valid(s) }), " ")
}

// untilExpiry ends the context of a request that listens when the credentials expire. Other
// requests may finish.
func untilExpiry(ctx context.Context, r *http.Request) context.Context {
	p := PrincipalOf(ctx)
	// the header is that of MCP 2026-07-28: a POST whose response does not end by itself
	if p == nil || p.Expires.IsZero() || r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != "subscriptions/listen" {
		return ctx
	}
	ctx, cancel := context.WithDeadlineCause(ctx, p.Expires, errExpired)
	context.AfterFunc(r.Context(), cancel)
	return ctx
}

// challenge returns the value of [guard.Options.Challenge].
func (l *Listener) challenge() (string, error) {
	scheme, rest, _ := strings.Cut(l.Challenge, " ")
	if l.Challenge != "" && !strings.EqualFold(scheme, "Bearer") || strings.ContainsAny(rest, "\r\n") {
		return "", fmt.Errorf("parley: Listener.Challenge must begin with Bearer and be one line, not %q", cutText(l.Challenge))
	}
	return strings.TrimSpace(rest), nil
}

// A tokenGate rejects the requests of one connection until a valid token is received.
type tokenGate struct {
	conn     *jsonrpc.Conn
	next     jsonrpc.Handler
	tokens   []guard.Digest
	listener *Listener // its Verify verifies the other tokens; nil without
	strikes  *guard.Strikes
	remote   string
	late     *time.Timer

	mu       sync.Mutex // guards the fields below
	open     bool
	refused  int
	verified context.Context // of Verify, for its values; nil before
	expiry   *time.Timer     // of the credentials; nil if they do not expire
}

// lock installs a tokenGate before the handler of conn. The caller must call over when the
// connection is closed.
func lock(conn *jsonrpc.Conn, l *Listener, strikes *guard.Strikes, remote string) (over func()) {
	d := &tokenGate{conn: conn, next: conn.Handler, strikes: strikes, remote: remote}
	for _, token := range l.Tokens {
		d.tokens = append(d.tokens, guard.DigestOf(token))
	}
	if l.Verify != nil {
		d.listener = l
	}
	mode := conn.Mode
	conn.Handler = d
	conn.Mode = func(method string) jsonrpc.Mode {
		switch {
		case method == MethodAuthenticate:
			return jsonrpc.Quick // requests after it on the wire are already authenticated
		case mode == nil:
			return 0
		}
		return mode(method)
	}
	d.late = time.AfterFunc(authTime, func() { conn.Hangup(fmt.Errorf("%w within %v", errUnauthenticated, authTime)) })
	return d.over
}

// over stops the timers.
func (d *tokenGate) over() {
	d.late.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expiry != nil {
		d.expiry.Stop()
	}
}

func (d *tokenGate) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	d.mu.Lock()
	open, over, verified := d.open, d.refused >= authTrials, d.verified
	d.mu.Unlock()
	if over { // the rest of a batch checks no more tokens and runs nothing
		return nil, faultBadToken
	}
	if req.Method == MethodAuthenticate {
		return d.authenticate(ctx, req)
	}
	if !open {
		return nil, d.refuse(req, faultNoToken)
	}
	if verified != nil {
		ctx = withValues(ctx, verified)
	}
	return d.next.Handle(ctx, req)
}

func (d *tokenGate) authenticate(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var shown credentials
	if req.Params == nil || req.Params.Decode(&shown) != nil {
		return nil, d.wrong(req)
	}
	var verified context.Context
	if !d.isValid(shown.Token) {
		if d.listener == nil || shown.Token == "" || len(shown.Token) > guard.MaxToken {
			return nil, d.wrong(req)
		}
		var err error
		verified, err = d.listener.verify(ctx, shown.Token)
		if _, ok := errors.AsType[*ScopeError](err); ok {
			return nil, d.refuse(req, faultScope)
		}
		if errors.Is(err, ErrNotVerified) {
			return nil, d.refuse(req, faultUnverified)
		}
		if err != nil {
			return nil, d.wrong(req)
		}
	}
	if err := d.admit(verified); err != nil {
		return nil, d.refuse(req, faultBadToken)
	}
	d.late.Stop()
	return true, nil
}

// admit stores who has authenticated. A connection belongs to one caller: a later token may only
// renew the credentials.
func (d *tokenGate) admit(verified context.Context) error {
	var p *Principal
	if verified != nil {
		p = PrincipalOf(verified)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open && nameOf(d.verified) != nameOf(verified) {
		return errOtherCaller
	}
	d.open, d.verified = true, verified
	if d.expiry != nil {
		d.expiry.Stop()
		d.expiry = nil
	}
	if p != nil && !p.Expires.IsZero() {
		d.expiry = time.AfterFunc(time.Until(p.Expires), func() { d.conn.Hangup(errExpired) })
	}
	return nil
}

// nameOf returns the caller of a context, or "" if ctx is nil.
func nameOf(ctx context.Context) string {
	if ctx == nil {
		return ""
	}
	return principal.Of(ctx)
}

// isValid compares token with all accepted tokens, in a time that does not depend on which one
// matches.
func (d *tokenGate) isValid(token string) bool {
	digest := guard.DigestOf(token)
	found := 0
	for i := range d.tokens {
		found |= subtle.ConstantTimeCompare(digest[:], d.tokens[i][:])
	}
	return found == 1
}

// wrong counts a wrong token of the address and of the connection. An address with too many gets a
// different error, and the connection is closed at once.
func (d *tokenGate) wrong(req *jsonrpc.Request) error {
	if d.strikes == nil {
		return d.refuse(req, faultBadToken)
	}
	wait := d.strikes.Strike(d.remote)
	if wait <= 0 {
		return d.refuse(req, faultBadToken)
	}
	d.mu.Lock()
	d.refused = authTrials
	d.mu.Unlock()
	return d.refuse(req, &jsonrpc.Error{Code: jsonrpc.CodeBusy, Message: "Too many invalid tokens",
		Data: fmt.Appendf(nil, `{"reason":"rate_limited","retryable":true,"retryAfterMs":%d}`, max(wait.Milliseconds(), 1))})
}

// refuse counts rejected requests, and closes the connection after the last response.
func (d *tokenGate) refuse(req *jsonrpc.Request, fault *jsonrpc.Error) error {
	d.mu.Lock()
	d.refused++
	last := d.refused >= authTrials
	d.mu.Unlock()
	if last {
		req.After(func() {
			go d.removeGate() // the goroutine that serves the connection would wait for itself
		})
	}
	return fault
}

// removeGate closes the connection once the rejections are written.
func (d *tokenGate) removeGate() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.conn.Shutdown(ctx) // the connection is closed with or without an error
}

// certify installs a handler before that of conn which names the caller by the client certificate.
// state returns the TLS state once a payload was read.
func certify(conn *jsonrpc.Conn, state func() (tls.ConnectionState, bool)) {
	next := conn.Handler
	caller := sync.OnceValue(func() *Principal {
		s, ok := state()
		if !ok {
			return nil
		}
		return certified(s.VerifiedChains)
	})
	conn.Handler = jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if p := caller(); p != nil && principal.Of(ctx) == "" {
			ctx = WithPrincipal(ctx, p)
		}
		return next.Handle(ctx, req)
	})
}

// callerOf identifies the caller of a request for transports that bind a conversation to it: its
// principal, or else its address.
func callerOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return cmp.Or(principal.Of(r.Context()), host)
}

// authenticate sends the dialer's token over a transport without headers.
func (d *Dialer) authenticate(ctx context.Context, conn *jsonrpc.Conn) error {
	err := conn.Call(ctx, MethodAuthenticate, credentials{d.Token}, nil)
	if errors.Is(err, jsonrpc.ErrMethodNotFound) {
		return fmt.Errorf("the server does not support tokens on this transport: %w", err)
	}
	return err
}
