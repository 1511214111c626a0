package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// travel runs f for all callers that need a token, or waits for the running trip. used is the token
// that was not accepted; if it has been replaced meanwhile, travel returns the replacement.
func (c *Client) travel(ctx context.Context, f func(context.Context) (*session, error), used *session) (*session, error) {
	c.mu.Lock()
	if c.session != used && c.session != nil {
		s := c.session
		c.mu.Unlock()
		return s, nil
	}
	t := c.trip
	if t == nil {
		if c.life.Err() != nil {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		t = &trip{done: make(chan struct{})}
		c.trip = t
		c.trips.Go(func() { c.run(ctx, t, f) })
	}
	c.mu.Unlock()
	select {
	case <-t.done:
		return t.got, t.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run makes one trip. It uses the values of the request's context but not its cancellation.
func (c *Client) run(ctx context.Context, t *trip, f func(context.Context) (*session, error)) {
	limit := c.Timeout
	if limit == 0 {
		limit = tripTime
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(c.life, func() { stop(ErrClosed) })()

	var got *session
	err := rescue.Call(c.report, func() (err error) { // of a Grant, a Store or an http.RoundTripper
		got, err = f(ctx)
		return err
	})
	if err != nil {
		if e, ok := errors.AsType[*Error](err); !ok || e == nil {
			err = &Error{Op: "authorize", Err: err}
		}
	} else {
		c.report(jsonrpc.ReportStore, rescue.Call(c.report, func() error { return c.saveSession(ctx, got) }))
	}
	c.mu.Lock()
	if err == nil {
		c.session, c.loaded = got, true
	}
	c.trip = nil
	c.mu.Unlock()
	t.got, t.err = got, err
	close(t.done)
}

// renew obtains a token to replace one that the server rejected, or the first token.
func (c *Client) renew(ctx context.Context, challenges []Challenge, used *session) (*session, error) {
	if c.Grant == nil {
		return nil, &Error{Op: "authorize", Status: 401, Err: errors.New("the server requires a token, and no grant is configured")}
	}
	if err := c.lately(); err != nil {
		return nil, err
	}
	return c.travel(ctx, func(ctx context.Context) (*session, error) {
		if stored := c.load(ctx); stored != nil && used != nil && stored.token.Access != used.token.Access && stored.token.fresh(c.now()) {
			return stored, nil // another process of this user has stored it
		}
		if used != nil && used.first && !used.works.Load() {
			return nil, c.remember(&Error{Op: "show", Status: 401, Err: ErrRejected})
		}
		p, err := c.discover(ctx, challenges, used)
		if err != nil {
			return nil, err
		}
		if used != nil && used.token.Refresh != "" && (used.works.Load() || !used.token.fresh(c.now())) {
			if p.server.Issuer == used.token.Issuer && p.indicator() == used.token.Resource {
				s, err := c.refresh(ctx, used)
				if e, ok := errors.AsType[*Error](err); err == nil || !ok || e.Code == "" {
					return s, err
				}
			}
		}
		return c.grant(ctx, challenges, used, p)
	}, used)
}

// stepUp obtains a token with more scopes than the one that was sent (MCP 2025-11-25, Scope
// Challenge Handling).
func (c *Client) stepUp(ctx context.Context, challenges []Challenge, wanted []string, used *session) (*session, error) {
	if c.Grant == nil {
		return nil, &Error{Op: "step up", Code: "insufficient_scope", Status: 403, Err: ErrScope}
	}
	if err := c.lately(); err != nil {
		return nil, err
	}
	return c.travel(ctx, func(ctx context.Context) (*session, error) {
		if !c.mayStep(wanted) {
			return nil, &Error{Op: "step up", Code: "insufficient_scope", Status: 403,
				Err: fmt.Errorf("%w: %s was requested without success", ErrScope, safeText(joinScopes(wanted), 100))}
		}
		p, err := c.discover(ctx, challenges, used)
		if err != nil {
			return nil, err
		}
		s, err := c.grant(ctx, challenges, used, p)
		if s != nil {
			// Unlike a 401, a 403 means that the token itself is accepted.
			s.works.Store(used == nil || used.works.Load())
		}
		return s, err
	}, used)
}

// mayStep counts how often the same scopes are requested and reports whether they may be requested
// again.
func (c *Client) mayStep(wanted []string) bool {
	most := c.StepUps
	if most == 0 {
		most = 2
	}
	sorted := slices.Clone(wanted)
	slices.Sort(sorted)
	key := joinScopes(sorted)
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.steps[key]
	if s == nil || now.Sub(s.first) > stepTime {
		if len(c.steps) >= maxSteps {
			clear(c.steps)
		}
		s = &step{first: now}
		c.steps[key] = s
	}
	s.times++
	return s.times <= most
}

// lately returns a recent refusal.
func (c *Client) lately() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused.err != nil && c.now().Before(c.refused.until) {
		return c.refused.err
	}
	return nil
}

// remember stores a refusal for a while: the layers above retry in other ways, and each retry would
// be another request.
func (c *Client) remember(err *Error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = refusal{err: err, until: c.now().Add(pause)}
	return err
}

// discover finds the authorization server of the MCP server. It runs each time, because the result
// can change.
func (c *Client) discover(ctx context.Context, challenges []Challenge, used *session) (*place, error) {
	const op = "discover"
	challenge, _ := find(challenges)
	m, err := resourceMetadata(ctx, c.web, c.address, challenge.Params["resource_metadata"])
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	if m == nil {
		server, err := legacyServer(ctx, c.web, c.policy, c.address)
		if err != nil {
			return nil, &Error{Op: op, Err: err}
		}
		return &place{server: server}, nil
	}
	server, err := c.server(ctx, c.choose(m.AuthorizationServers, used))
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	return &place{resource: m, server: server}, nil
}

// choose selects one of several authorization servers: the issuer of the last token, else one where
// the client is registered, else the first.
func (c *Client) choose(issuers []string, used *session) string {
	if used != nil && slices.Contains(issuers, used.token.Issuer) {
		return used.token.Issuer
	}
	for _, r := range c.Registrations {
		if slices.Contains(issuers, r.Issuer) {
			return r.Issuer
		}
	}
	return issuers[0]
}

// server fetches the metadata of an issuer and stores it for [Client.known].
func (c *Client) server(ctx context.Context, issuer string) (*ServerMetadata, error) {
	m, err := serverMetadata(ctx, c.web, c.policy, issuer)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.servers) >= maxNonces {
		clear(c.servers)
	}
	c.servers[issuer] = m
	return m, nil
}

// grant obtains a first token.
func (c *Client) grant(ctx context.Context, challenges []Challenge, used *session, p *place) (*session, error) {
	key, err := c.bindingKey(challenges, p)
	if err != nil {
		return nil, err
	}
	ask := &Ask{Resource: p.indicator(), Scopes: c.scopes(challenges, used, p), Server: p.server, client: c, key: key}
	t, err := c.Grant.Token(ctx, ask)
	if err != nil {
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Code == "" {
			return nil, err
		}
		if e.Code == "invalid_client" {
			// If the server no longer has our registration, register again.
			c.unregister(ctx, p.server.Issuer)
		}
		return nil, c.remember(e)
	}
	if t.Refresh == "" && used != nil && used.token.Issuer == t.Issuer && used.token.Resource == t.Resource && used.key == key {
		t.Refresh = used.token.Refresh
	}
	return &session{token: t, key: key, first: true}, nil
}

// scopes returns the scopes to request (MCP 2025-11-25, Scope Selection Strategy): those of the
// challenge, else all scopes of the resource, else none. The scopes of the last token from there
// are added (MCP 2026-07-28). The grant decides whether to request a refresh token.
func (c *Client) scopes(challenges []Challenge, used *session, p *place) []string {
	var list []string
	challenge, _ := find(challenges)
	if used != nil && used.token.Issuer == p.server.Issuer {
		list = addScopes(list, used.token.Scopes...)
	}
	text, named := challenge.Params["scope"]
	step := challenge.Params["error"] == "insufficient_scope"
	switch {
	case c.Scopes != nil && !step:
		list = addScopes(list, c.Scopes...)
	case named:
		list = addScopes(list, Scopes(text)...)
	case p.resource != nil:
		list = addScopes(list, p.resource.ScopesSupported...)
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return name == ScopeOffline })
}

// bindingKey returns the key to bind the token to, or nil for a bearer token.
func (c *Client) bindingKey(challenges []Challenge, p *place) (*Key, error) {
	asked, bearer := p.resource != nil && p.resource.DPoPRequired, false
	for _, ch := range challenges {
		asked = asked || strings.EqualFold(ch.Scheme, SchemeDPoP)
		bearer = bearer || strings.EqualFold(ch.Scheme, SchemeBearer)
	}
	bearer = bearer && (p.resource == nil || !p.resource.DPoPRequired)
	if c.DPoP == DPoPNever || c.DPoP == DPoPWhenAsked && !asked {
		return nil, nil
	}
	const algorithm = "ES256"
	able := slices.Contains(p.server.DPoPAlgorithms, algorithm)
	if p.resource != nil && p.resource.DPoPAlgorithms != nil {
		able = able && slices.Contains(p.resource.DPoPAlgorithms, algorithm)
	}
	switch {
	case able:
	case bearer && c.DPoP == DPoPWhenAsked:
		return nil, nil
	default:
		return nil, &Error{Op: "authorize", Err: fmt.Errorf("%w: the authorization server does not offer them with %s", ErrDPoP, algorithm)}
	}
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil && s.key != nil {
		return s.key, nil
	}
	key, err := NewKey()
	if err != nil {
		return nil, &Error{Op: "authorize", Err: err}
	}
	return key, nil
}

// refresh uses the refresh token (RFC 6749, section 6) at its issuer.
func (c *Client) refresh(ctx context.Context, used *session) (*session, error) {
	const op = "refresh"
	if stored := c.load(ctx); stored != nil && stored.token.Access != used.token.Access && stored.token.fresh(c.now()) {
		// Another process of this user has used the refresh token and stored the result.
		return stored, nil
	}
	c.mu.Lock()
	server := c.servers[used.token.Issuer]
	c.mu.Unlock()
	var err error
	switch {
	case server != nil:
	case used.token.Resource == "":
		server, err = legacyServer(ctx, c.web, c.policy, c.address)
	default:
		server, err = c.server(ctx, used.token.Issuer)
	}
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	if server.Issuer != used.token.Issuer {
		return nil, &Error{Op: op, Err: ErrIssuer}
	}
	reg, err := c.known(ctx, server)
	if err != nil || reg.ClientID != used.token.ClientID {
		reg = &Registration{Issuer: server.Issuer, ClientID: used.token.ClientID, AuthMethod: AuthNone}
	}
	form := url.Values{"grant_type": {grantRefresh}, "refresh_token": {used.token.Refresh}}
	if used.token.Resource != "" {
		form.Set("resource", used.token.Resource)
	}
	got, err := post(ctx, c.web, op, server.TokenEndpoint, form, reg.auth(server), used.key, &c.nonces)
	if err != nil {
		return nil, err
	}
	t, err := got.token(op, used.key, used.token.Scopes, c.now())
	if err != nil {
		return nil, err
	}
	if t.Refresh == "" {
		t.Refresh = used.token.Refresh
	}
	t.Issuer, t.Resource, t.ClientID = used.token.Issuer, used.token.Resource, reg.ClientID
	return &session{token: t, key: used.key}, nil
}
