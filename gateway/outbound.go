package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

const (
	maxOutbound   = 10_000           // tokens for upstreams that are remembered
	outboundEarly = 30 * time.Second // how long before its expiry a token is no longer used
	outboundTime  = 5 * time.Minute  // how long a token without an expiry is used
	outboundPause = 5 * time.Second  // how long a failure is not tried again
	outboundWait  = 10 * time.Second // for one token
	maxUnread     = 64 << 10         // bytes of a rejection that are read before the next attempt
)

// Credentials are what a gateway sends to one server to authenticate: configured headers, a token
// of its own, the caller's token exchanged for one of the server, or the caller's token itself. Use
// it so, for each server over HTTP:
//
//	c := newCredentials(&entry, report)
//	client := &http.Client{Transport: c.trip(transport, nil)} // the caller is that of the request's context
//	client := &http.Client{Transport: c.trip(transport, callerOf(ctx))} // of a link that belongs to one caller
//	c.close()
//
// Nothing else of a caller's token is sent anywhere. Credentials are sent only to the origin of the
// server. A request of a caller without a token that can be sent fails with errNoCredentials, and
// nothing is sent.
type credentials struct {
	entry    *config.Entry
	target   string
	endpoint *oauth.Endpoint // of an exchange, or of own tokens; nil without
	client   *oauth.Client   // discovers the endpoint of own tokens; nil without
	report   func(what string, err error)

	mu     sync.Mutex // guards tokens
	tokens map[string]*outboundToken
}

// An outboundToken is a token, or the attempt to get one.
type outboundToken struct {
	done  chan struct{} // closed when the attempt has ended
	text  string
	err   error
	until time.Time // guarded by credentials.mu; zero during the attempt
}

// errNoCredentials is the error for a caller who has no token for a server that needs one.
var errNoCredentials = errors.New("gateway: the caller has no token that can be used for this server")

// errCredentials is the error for a token that the authorization server does not issue.
var errCredentials = errors.New("gateway: no token for this server")

func newCredentials(e *config.Entry, target string, report func(what string, err error)) *credentials {
	c := &credentials{entry: e, target: target, report: report, tokens: make(map[string]*outboundToken)}
	switch o := &e.Upstream; {
	case o.Exchange != nil:
		c.endpoint = &oauth.Endpoint{URL: o.Exchange.TokenEndpoint}
	case o.OAuth != nil && o.OAuth.TokenEndpoint != "":
		c.endpoint = &oauth.Endpoint{URL: o.OAuth.TokenEndpoint}
	}
	return c
}

// close ends requests for tokens and closes idle connections to the authorization server.
func (c *credentials) close() {
	if c.endpoint != nil {
		c.endpoint.Close()
	}
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if client != nil {
		_ = client.Close() // requests for tokens fail
	}
}

// dynamic reports whether the credentials are more than fixed headers.
func (c *credentials) dynamic() bool {
	o := &c.entry.Upstream
	return o.Exchange != nil || o.OAuth != nil || o.ForwardToken || c.entry.Headers.Change()
}

// personal reports whether different callers have different credentials.
func (c *credentials) personal() bool {
	return c.entry.Upstream.Exchange != nil || c.entry.Upstream.ForwardToken
}

// A credentialTrip adds credentials to requests.
type credentialTrip struct {
	*credentials
	next  http.RoundTripper
	fixed *caller // of a link that belongs to one; nil otherwise
}

// trip returns a RoundTripper that adds the credentials of the caller of each request. If the
// request's context has none, it is that of fixed, and in any case of the same principal.
func (c *credentials) trip(next http.RoundTripper, fixed *caller) http.RoundTripper {
	if o := c.entry.Upstream.OAuth; o != nil && o.TokenEndpoint == "" {
		secret, err := o.ClientSecret.Get()
		if err != nil {
			return failingTrip{err}
		}
		c.mu.Lock()
		if c.client == nil { // one for all transports, so that they share the token
			c.client = &oauth.Client{
				Resource: c.target, Grant: oauth.ClientCredentials{}, Scopes: o.Scopes, NoOffline: true, NoRegistration: true,
				Registrations: []oauth.Registration{{ClientID: o.ClientID, Secret: secret}}, Base: next, Report: c.report,
			}
		}
		next = c.client
		c.mu.Unlock()
	}
	return &credentialTrip{credentials: c, next: next, fixed: fixed}
}

// A failingTrip is the RoundTripper for a secret that cannot be read.
type failingTrip struct{ err error }

// RoundTrip implements [http.RoundTripper].
func (t failingTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	closeBody(r)
	return nil, jsonrpc.AsNotSent(t.err)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // required of a RoundTripper
	}
}

// RoundTrip implements [http.RoundTripper]. A token that the server rejects is requested once more
// if it was used before.
func (t *credentialTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := origin.Parse(t.target)
	if err != nil || !origin.Same(base, r.URL) {
		return t.next.RoundTrip(r) // credentials are only for the server
	}
	header, err := t.header()
	if err != nil {
		closeBody(r)
		return nil, jsonrpc.AsNotSent(err)
	}
	c := t.callerOf(r.Context())
	token, used, err := t.token(r.Context(), c)
	if err != nil {
		closeBody(r)
		return nil, jsonrpc.AsNotSent(err)
	}
	resp, err := t.next.RoundTrip(withCredentials(r, header, token))
	if err != nil || resp.StatusCode != http.StatusUnauthorized || !used || r.Body != nil && r.GetBody == nil {
		return resp, err
	}
	t.forget(c, token)
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return resp, nil //nolint:nilerr // the first response stands
		}
	}
	fresh, _, err := t.token(r.Context(), c)
	if err != nil || fresh == token {
		closeBody(again)
		return resp, nil //nolint:nilerr // likewise
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxUnread) // so that the connection can be used again
	_ = resp.Body.Close()
	return t.next.RoundTrip(withCredentials(again, header, fresh))
}

// withCredentials returns a copy of a request with the headers of the server and a token.
func withCredentials(r *http.Request, header http.Header, token string) *http.Request {
	own := r.WithContext(r.Context())
	own.Header = r.Header.Clone()
	if own.Header == nil {
		own.Header = make(http.Header)
	}
	for name, values := range header {
		own.Header[name] = values
	}
	if token != "" {
		own.Header["Authorization"] = []string{"Bearer " + token}
	}
	return own
}

// header returns the configured headers. Values of files are read again.
func (c *credentials) header() (http.Header, error) {
	if c.entry.Headers != nil {
		return c.entry.Headers.Get()
	}
	return c.entry.Header, nil
}

// callerOf returns the caller of a request: that of its context, unless the link belongs to another
// principal.
func (t *credentialTrip) callerOf(ctx context.Context) *caller {
	c := callerOf(ctx)
	if t.fixed != nil && (c.Name != t.fixed.Name || c.token.value() == "") {
		return t.fixed
	}
	return c
}

// token returns the token for a caller, "" if the server gets none. used reports whether it was
// used before, so that a newer one may be accepted where it is not.
func (c *credentials) token(ctx context.Context, who *caller) (token string, used bool, err error) {
	o := &c.entry.Upstream
	switch {
	case o.ForwardToken:
		if token = who.token.value(); token == "" {
			return "", false, errNoCredentials
		}
		return token, false, nil
	case o.Exchange != nil:
		// a token of the file of tokens is known to no authorization server
		if who.Issuer == "" || who.token.value() == "" {
			return "", false, errNoCredentials
		}
		x := o.Exchange
		return c.fetch(ctx, c.key(who), x.ClientID, x.ClientSecret,
			&oauth.TokenRequest{Subject: who.token.value(), Audience: x.Audience, Resource: x.Resource, Scopes: x.Scopes})
	case o.OAuth != nil && c.endpoint != nil:
		a := o.OAuth
		return c.fetch(ctx, "", a.ClientID, a.ClientSecret, &oauth.TokenRequest{Audience: a.Audience, Scopes: a.Scopes})
	}
	return "", false, nil
}

// key returns the key of a caller's tokens: the principal and its token, because another token of
// the same principal may grant more.
func (c *credentials) key(who *caller) string {
	if c.entry.Upstream.Exchange == nil {
		return ""
	}
	digest := sha256.Sum256([]byte(who.token.value()))
	return who.Name + " " + hex.EncodeToString(digest[:])
}

// forget drops a token that the server has rejected.
func (c *credentials) forget(who *caller, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.tokens[c.key(who)]; t != nil && !t.until.IsZero() && t.text == token {
		delete(c.tokens, c.key(who))
	}
}

// fetch returns a token that is remembered, or requests one. Requests with one key share it.
func (c *credentials) fetch(ctx context.Context, key, client string, secret *config.Value, ask *oauth.TokenRequest) (token string, used bool, err error) {
	now := time.Now()
	c.mu.Lock()
	t := c.tokens[key]
	if t != nil && !t.until.IsZero() && !now.Before(t.until) {
		t = nil
	}
	if used = t != nil; !used {
		if len(c.tokens) >= maxOutbound {
			c.makeRoomLocked(now)
		}
		t = &outboundToken{done: make(chan struct{})}
		c.tokens[key] = t
		// others wait for it, so it does not end with the context of one of them
		go c.request(context.WithoutCancel(ctx), t, client, secret, ask)
	}
	c.mu.Unlock()
	select {
	case <-t.done:
		return t.text, used, t.err
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
}

// makeRoomLocked removes tokens that have expired, or else all that can be requested again.
func (c *credentials) makeRoomLocked(now time.Time) {
	for _, all := range []bool{false, true} {
		for key, t := range c.tokens {
			if !t.until.IsZero() && (all || !now.Before(t.until)) {
				delete(c.tokens, key)
			}
		}
		if len(c.tokens) < maxOutbound {
			return
		}
	}
}

// request requests a token for all that wait for t.
func (c *credentials) request(ctx context.Context, t *outboundToken, client string, secret *config.Value, ask *oauth.TokenRequest) {
	ctx, cancel := context.WithTimeout(ctx, outboundWait)
	defer cancel()
	var got *oauth.Token
	err := rescue.Call(c.report, func() error {
		text, err := secret.Get()
		if err == nil {
			got, err = c.endpoint.Token(ctx, &oauth.Registration{ClientID: client, Secret: text}, ask)
		}
		return err
	})
	now := time.Now()
	until := now.Add(outboundPause)
	if err != nil {
		c.report(ReportCredentials, fmt.Errorf("%s: %w", c.entry.Name, err))
		t.err = errCredentials
	} else {
		t.text = got.Access
		until = now.Add(outboundTime)
		if !got.Expires.IsZero() {
			until = got.Expires.Add(-outboundEarly) // a shorter one is used for the calls that wait, and not again
		}
	}
	c.mu.Lock()
	t.until = until
	c.mu.Unlock()
	close(t.done)
}

// faultOfCredentials returns the error for a call that was not sent for lack of credentials, or
// nil.
func faultOfCredentials(upstream string, err error) *fault {
	switch {
	case errors.Is(err, errNoCredentials):
		return newFault(jsonrpc.CodeUnauthorized, "Unauthenticated", "no_credentials", upstream, false)
	case errors.Is(err, errCredentials):
		return newFault(jsonrpc.CodeUnavailable, "Upstream unavailable", reasonUnreachable, upstream, true)
	}
	return nil
}
