package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/outbound"
	"github.com/da1ed7bb/parley/internal/x/report"
)

// DPoP specifies when tokens are bound to a key of this program (RFC 9449).
type DPoP uint8

const (
	DPoPWhenAsked DPoP = iota // when the server's challenge or metadata requires it
	DPoPAlways                // always; without a bound token, authorization fails
	DPoPNever
)

// A Client obtains tokens for one MCP server and sends them. It is an [http.RoundTripper] for the
// [http.Client] of a connection.
//
//	c := &oauth.Client{Resource: "https://example.com/mcp", Grant: &oauth.Code{Begin: new(oauth.Loopback).Begin}}
//	defer c.Close()
//	client := &http.Client{Transport: c}
//
// It starts without a token or with a stored one. After a 401 response it reads the server's
// metadata and obtains a token from the authorization server. After a 403 with insufficient_scope
// it requests more scopes, and it refreshes expiring tokens. The request is then sent again. If no
// token can be obtained, the request fails with an [*Error], wrapped in the [*url.Error] of
// http.Client; a 401 response is never returned.
//
// A Client is safe for concurrent use. While one goroutine waits for a token, others that need one
// wait too. A token request continues if the HTTP request that caused it is cancelled, and the next
// request uses its result. It ends by itself or with Close. Set the fields before the first use.
type Client struct {
	// Resource is the address of the MCP server. Required. Tokens are sent only to its origin.
	Resource string

	// Grant obtains the first token. Required: without it, a 401 is final.
	Grant Grant

	// Registrations are made in advance, at most one per issuer.
	Registrations []Registration

	// Document is the address of this program's client metadata, which is its client ID at servers
	// that support it (MCP 2025-11-25, Client ID Metadata Documents). If empty, there is no such
	// document.
	Document string

	// About is the metadata for dynamic registration, the last resort (RFC 7591). Redirect
	// addresses are filled in, and so are the other fields if they are empty. NoRegistration
	// disables dynamic registration.
	About          ClientMetadata
	NoRegistration bool

	// Scopes, if not nil, replaces the scopes that the server names for the first token.
	Scopes []string

	// NoOffline disables requesting a refresh token with the scope offline_access from
	// authorization servers that support it.
	NoOffline bool

	// DPoP specifies when tokens are bound to a key.
	DPoP DPoP

	// Store stores tokens and registrations. If nil, they are held in memory until the Client is
	// closed.
	Store Store

	// Base sends requests to the MCP server. If nil, http.DefaultTransport is used.
	Base http.RoundTripper

	// Watch, if not nil, wraps the transport for requests to authorization servers and for
	// metadata. The transport it returns sees these requests in clear text, including codes and
	// tokens. The transport passed to it checks the destination and is the only way to the network.
	Watch func(way http.RoundTripper) http.RoundTripper

	// AllowHosts lists host names that metadata may refer to although they are not public, and over
	// http. The host of Resource is always allowed, over http only if Resource uses http; if it is
	// a loopback address, all loopback addresses are allowed.
	AllowHosts []string

	// Timeout bounds one attempt to obtain a token, with or without user interaction. Zero means 5
	// minutes.
	Timeout time.Duration

	// StepUps bounds how often the same scopes are requested within ten minutes at the request of a
	// server. Zero means 2.
	StepUps int

	// Report, if not nil, is called with errors that are not returned, such as those of the Store.
	Report func(what string, err error)

	once     sync.Once
	startErr error
	address  *url.URL
	policy   *outbound.Policy
	web      *http.Client
	idle     func() // closes idle connections of web
	nonces   nonces
	life     context.Context // ends with Close
	end      context.CancelCauseFunc
	trips    sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	loaded  bool
	session *session
	trip    *trip
	steps   map[string]*step
	servers map[string]*ServerMetadata
	regs    map[string]*Registration // dynamic registrations, by issuer
	bound   map[int]string           // the issuers of configured registrations without one
	refused refusal
}

// A session is a token in use.
type session struct {
	token *Token
	key   *Key // for DPoP
	first bool // obtained with a grant, not from the store or by refresh
	works atomic.Bool
}

// A trip is one exchange with the authorization server, shared by all requests that need a token.
type trip struct {
	done chan struct{}
	got  *session
	err  error
}

// A step counts how often a server required the same scopes.
type step struct {
	times int
	first time.Time
}

// A refusal records that a grant was refused, so that immediate retries by the caller are not sent.
type refusal struct {
	err   error
	until time.Time
}

const (
	tripTime   = 5 * time.Minute
	stepTime   = 10 * time.Minute
	maxSteps   = 64
	pause      = 5 * time.Second
	maxReplay  = 16 << 20 // bytes of a body that cannot be read again
	maxRenewal = 3        // 401 responses to one request
)

// ErrClosed is the error of requests after Close.
var ErrClosed = errors.New("oauth: the client is closed")

func (c *Client) start() error {
	c.once.Do(func() {
		c.address, c.startErr = parseAddress(c.Resource)
		if c.startErr != nil {
			c.startErr = fmt.Errorf("oauth: Client.Resource: %w", c.startErr)
			c.address = new(url.URL)
		}
		c.policy = new(outbound.Policy)
		c.policy.Allow(c.address)
		for _, h := range c.AllowHosts {
			c.policy.Plain = append(c.policy.Plain, strings.ToLower(h))
		}
		c.web = c.policy.Client()
		way := *c.web
		c.idle = way.CloseIdleConnections
		if c.Watch != nil {
			c.web.Transport = c.Watch(way.Transport)
		}
		c.life, c.end = context.WithCancelCause(context.Background())
		c.steps = make(map[string]*step)
		c.servers = make(map[string]*ServerMetadata)
		c.regs = make(map[string]*Registration)
		c.bound = make(map[int]string)
	})
	return c.startErr
}

// Close cancels exchanges with the authorization server and waits for them. It does not affect
// running requests to the MCP server.
func (c *Client) Close() error {
	_ = c.start() // a misconfigured client can be closed too
	c.mu.Lock()
	c.end(ErrClosed) // no exchange starts after this
	c.mu.Unlock()
	grace.Wait(&c.trips, grace.Time) // a function that shows the page to the user may not return
	c.idle()
	return nil
}

// CloseIdleConnections implements [http.Client.CloseIdleConnections].
func (c *Client) CloseIdleConnections() {
	if b, ok := c.base().(interface{ CloseIdleConnections() }); ok {
		b.CloseIdleConnections()
	}
}

func (c *Client) base() http.RoundTripper {
	if c.Base != nil {
		return c.Base
	}
	return http.DefaultTransport
}

func (c *Client) now() time.Time { return time.Now() }

func (c *Client) report(what string, err error) {
	if err != nil {
		report.Call(c.Report, "oauth", what, err)
	}
}

// RoundTrip sends r, with a token if one is available or required.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.start(); err != nil {
		closeBody(r)
		return nil, err
	}
	if !strings.EqualFold(r.URL.Scheme, c.address.Scheme) || !strings.EqualFold(hostPort(r.URL), hostPort(c.address)) {
		return c.base().RoundTrip(r) // our tokens are not for this origin
	}
	body, err := replay(r)
	if err != nil {
		return nil, err
	}
	s, err := c.current(r.Context())
	if err != nil {
		return nil, err
	}
	nonced, renewed := 0, 0
	for {
		resp, err := c.send(r, body, s)
		if err != nil {
			return nil, err
		}
		if s != nil && s.key != nil {
			c.nonces.keep(c.Resource, resp.Header)
		}
		if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			if s != nil {
				s.works.Store(true)
			}
			return resp, nil
		}
		// The challenges that could be parsed.
		all, _ := ParseChallenges(resp.Header.Values("WWW-Authenticate"))
		challenge, _ := find(all)
		var next *session
		switch {
		case resp.StatusCode == http.StatusForbidden:
			wanted := Scopes(challenge.Params["scope"])
			if challenge.Params["error"] != "insufficient_scope" || len(wanted) == 0 {
				if s != nil {
					s.works.Store(true)
				}
				return resp, nil // a refusal that more scopes would not change
			}
			drop(resp)
			next, err = c.stepUp(r.Context(), all, wanted, s)
		case challenge.Params["error"] == errorUseNonce && s != nil && s.key != nil && nonced < 2 && resp.Header.Get(headerNonce) != "":
			drop(resp)
			nonced++
			next = s
		case renewed >= maxRenewal:
			drop(resp)
			err = &Error{Op: "show", Status: resp.StatusCode, Err: ErrRejected}
		default:
			drop(resp)
			renewed++
			next, err = c.renew(r.Context(), all, s)
		}
		if err != nil {
			return nil, err
		}
		s = next
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// replay returns a function that returns the body of r from its start and closes the previous one.
func replay(r *http.Request) (func() (io.ReadCloser, error), error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	if r.GetBody != nil {
		return r.GetBody, nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxReplay+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxReplay {
		return nil, &Error{Op: "show", Err: errors.New("the request is too large to be sent again")}
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, nil
}

// drop closes the response without reading its body, so that a slow server does not delay the token
// request.
func drop(resp *http.Response) { resp.Body.Close() }

// send sends one copy of r.
func (c *Client) send(r *http.Request, body func() (io.ReadCloser, error), s *session) (*http.Response, error) {
	out := r.Clone(r.Context())
	if body != nil {
		b, err := body()
		if err != nil {
			return nil, err
		}
		out.Body = b
	}
	if s != nil {
		out.Header.Set("Authorization", s.token.Type+" "+s.token.Access)
		if s.key != nil {
			proof, err := s.key.proof(r.Method, r.URL.String(), s.token.Access, c.nonces.get(c.Resource))
			if err != nil {
				closeBody(out)
				return nil, &Error{Op: "show", Err: err}
			}
			out.Header.Set(headerDPoP, proof)
		}
	}
	return c.base().RoundTrip(out)
}

// current returns the token to start with, or nil. A token that is about to expire is refreshed
// first.
func (c *Client) current(ctx context.Context) (*session, error) {
	c.mu.Lock()
	if !c.loaded {
		c.mu.Unlock()
		s := c.load(ctx)
		c.mu.Lock()
		if !c.loaded {
			c.loaded, c.session = true, s
		}
	}
	s := c.session
	c.mu.Unlock()
	if s == nil || s.token.fresh(c.now()) {
		return s, nil
	}
	if s.token.Refresh == "" {
		return s, nil // the expiry is only an estimate; if it has expired, the server sends a 401
	}
	next, err := c.travel(ctx, func(ctx context.Context) (*session, error) { return c.refresh(ctx, s) }, s)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return s, nil // as above: after the server's 401 a new token is obtained
	}
	return next, nil
}

// Token returns the token that the next request would send, refreshed if necessary, or nil.
func (c *Client) Token(ctx context.Context) (*Token, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	s, err := c.current(ctx)
	if err != nil || s == nil {
		return nil, err
	}
	t := *s.token
	return &t, nil
}

// Forget deletes the token from memory and from the store: the next request starts without a token.
// Registrations remain.
func (c *Client) Forget(ctx context.Context) error {
	if err := c.start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.loaded, c.session, c.refused = true, nil, refusal{}
	clear(c.steps)
	c.mu.Unlock()
	return c.saveSession(ctx, nil)
}
