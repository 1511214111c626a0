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

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// DPoP says when tokens are to be bound to a key of ours (RFC 9449).
type DPoP uint8

const (
	DPoPWhenAsked DPoP = iota // when the server's challenge or metadata asks for it
	DPoPAlways                // or there is no authorization
	DPoPNever
)

// A Client shows tokens to one MCP server and gets them: an [http.RoundTripper] for the [http.Client] of a connection.
//
//	c := &oauth.Client{Resource: "https://example.com/mcp", Grant: &oauth.Code{Begin: new(oauth.Loopback).Begin}}
//	defer c.Close()
//	client := &http.Client{Transport: c}
//
// It begins without a token, or with a stored one. An answer 401 sends it to the server's metadata and from there to the authorization
// server; 403 with insufficient_scope makes it ask for more; a token that ends is refreshed. The request is then sent again. What can
// not be had ends in an [*Error], within the [*url.Error] of http.Client; no answer 401 is ever handed on.
//
// Many goroutines may use it; while one of them waits for a token, the others that need one wait too. A trip to the authorization
// server goes on when the request that caused it is cancelled: the next one finds it under way. It ends by itself, or by Close. Fields are set before
// the first use.
type Client struct {
	// Resource is the address of the MCP server. Required. Tokens go to its origin and nowhere else.
	Resource string

	// Grant is how a first token is got. Required: without it 401 is final.
	Grant Grant

	// Registrations are those made beforehand, one for an issuer.
	Registrations []Registration

	// Document is the address of this program's client metadata, which is its ID at servers that take such (MCP 2025-11-25, Client ID
	// Metadata Documents). "": there is none.
	Document string

	// About is what it says about itself when it registers dynamically, the last resort (RFC 7591). Redirect addresses are filled in; so are
	// the other fields when they are empty. NoRegistration forbids that.
	About          ClientMetadata
	NoRegistration bool

	// Scopes, when not nil, are asked for instead of what the server names at the beginning.
	Scopes []string

	// NoOffline keeps it from asking for a refresh token by scope offline_access where the authorization server has that.
	NoOffline bool

	// DPoP says when tokens are bound to a key.
	DPoP DPoP

	// Store keeps tokens and registrations. Nil: they end with the Client.
	Store Store

	// Base carries requests to the MCP server. Nil is http.DefaultTransport.
	Base http.RoundTripper

	// Watch, if not nil, is put around the requests to authorization servers, and for metadata: what it returns sees them in clear, with codes
	// and tokens in them. The one that it is given checks where they lead, and is their only way out.
	Watch func(way http.RoundTripper) http.RoundTripper

	// AllowHosts are names that metadata may lead to although they are not public, and by http. The host of Resource is one by itself, by http only
	// if Resource is; all loopback addresses are if it is one.
	AllowHosts []string

	// Timeout bounds one trip for a token, with a user in it or not. Zero means 5 minutes.
	Timeout time.Duration

	// StepUps is how often it asks for the same scopes within ten minutes because a server wants them. Zero means 2.
	StepUps int

	// Report, if not nil, gets what nobody else hears: a store that failed.
	Report func(what string, err error)

	once     sync.Once
	startErr error
	address  *url.URL
	policy   *outbound.Policy
	web      *http.Client
	idle     func() // closes the idle connections of web
	nonces   nonces
	life     context.Context // until Close
	end      context.CancelCauseFunc
	trips    sync.WaitGroup

	mu      sync.Mutex // guards what is below
	loaded  bool
	session *session
	trip    *trip
	steps   map[string]*step
	servers map[string]*ServerMetadata
	regs    map[string]*Registration // dynamic ones, by issuer
	bound   map[int]string           // which issuer a configured one without belongs to
	refused refusal
}

// A session is a token in use.
type session struct {
	token *Token
	key   *Key // of DPoP
	first bool // came from a grant, not from the store or a refresh token
	works atomic.Bool
}

// A trip is one way to the authorization server, which all wait for that need a token.
type trip struct {
	done chan struct{}
	got  *session
	err  error
}

// A step counts how often the same scopes were asked for on a server's word.
type step struct {
	times int
	first time.Time
}

// A refusal remembers that a grant was refused, so that callers who try again at once do not repeat it on the wire.
type refusal struct {
	err   error
	until time.Time
}

const (
	tripTime   = 5 * time.Minute
	stepTime   = 10 * time.Minute
	maxSteps   = 64
	pause      = 5 * time.Second
	maxReplay  = 16 << 20 // bytes of a body that cannot be got again
	maxRenewal = 3        // answers 401 to one request
)

// ErrClosed is what requests end with after Close.
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

// Close ends trips to the authorization server and waits for them. Requests under way at the MCP server are not touched.
func (c *Client) Close() error {
	_ = c.start() // an unusable client is closed all the same
	c.mu.Lock()
	c.end(ErrClosed) // no trip begins after this
	c.mu.Unlock()
	c.trips.Wait()
	c.idle()
	return nil
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
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
	if c.Report != nil && err != nil {
		c.Report(what, err)
	}
}

// RoundTrip sends r with a token, once one is needed.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.start(); err != nil {
		closeBody(r)
		return nil, err
	}
	if !strings.EqualFold(r.URL.Scheme, c.address.Scheme) || !strings.EqualFold(hostPort(r.URL), hostPort(c.address)) {
		return c.base().RoundTrip(r) // our tokens mean nothing there
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
		all, _ := ParseChallenges(resp.Header.Values("WWW-Authenticate")) // what can be read of it
		challenge, _ := find(all)
		var next *session
		switch {
		case resp.StatusCode == http.StatusForbidden:
			wanted := Scopes(challenge.Params["scope"])
			if challenge.Params["error"] != "insufficient_scope" || len(wanted) == 0 {
				if s != nil {
					s.works.Store(true)
				}
				return resp, nil // a no that more scopes would not change
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

// replay returns a function that gives the body of r from its beginning, and closes the one that is there.
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
		return nil, &Error{Op: "show", Err: errors.New("the request is too large to be sent twice")}
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }, nil
}

// drop gives up an answer without reading its body: who wants a token does not wait for a server that is slow to say more.
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

// current returns the token to begin with, nil for none. One that is about to end is refreshed first.
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
		return s, nil // its end is only what we think: the server says 401 if it is one
	}
	next, err := c.travel(ctx, func(ctx context.Context) (*session, error) { return c.refresh(ctx, s) }, s)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return s, nil // again: the server's 401 leads to a whole new token
	}
	return next, nil
}

// Token returns the token that the next request would show, refreshed if it is old, or nil.
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

// Forget drops the token, here and in the store: the next request begins without. Registrations stay.
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
