package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// A Grant is a way to a token: [Code], [ClientCredentials], [Enterprise], [Workload]. It may be used by many goroutines.
type Grant interface {
	// Token gets a token for what ask says. It never tries another way when it was refused.
	Token(ctx context.Context, ask *Ask) (*Token, error)
}

// An Ask is what a [Grant] is to get a token for.
type Ask struct {
	Resource string          // goes into the resource parameter (RFC 8707); "" for servers of MCP 2025-03-26
	Scopes   []string        // none: leave the parameter out
	Server   *ServerMetadata // the authorization server; its issuer was checked

	client *Client
	key    *Key // for DPoP; nil for bearer tokens
}

// form begins the body of a token request.
func (a *Ask) form(grant string) url.Values {
	f := url.Values{"grant_type": {grant}}
	if a.Resource != "" {
		f.Set("resource", a.Resource)
	}
	return f
}

func (a *Ask) withScopes(f url.Values) url.Values {
	if len(a.Scopes) > 0 {
		f.Set("scope", joinScopes(a.Scopes))
	}
	return f
}

// exchange sends a token request and makes a Token of the answer.
func (a *Ask) exchange(ctx context.Context, op string, reg *Registration, form url.Values) (*Token, error) {
	got, err := post(ctx, a.client.web, op, a.Server.TokenEndpoint, form, reg.auth(a.Server), a.key, &a.client.nonces)
	if err != nil {
		return nil, err
	}
	t, err := got.token(op, a.key, a.Scopes, a.client.now())
	if err != nil {
		return nil, err
	}
	t.Issuer, t.Resource, t.ClientID = a.Server.Issuer, a.Resource, reg.ClientID
	return t, nil
}

// A Visit is one trip of the user to an authorization server and back.
type Visit struct {
	// Redirect is the address that the user comes back to.
	Redirect string

	// Go shows address to the user, waits until Redirect is asked for, and returns the query of that request.
	Go func(ctx context.Context, address string) (url.Values, error)

	// Close ends the waiting. It may be nil.
	Close func()
}

// Code is the authorization code grant with PKCE (OAuth 2.1, section 4.1): the user says yes in a browser.
type Code struct {
	// Begin readies a place to come back to, one of wanted if it can, which were registered before and may be the only ones that the
	// server takes. [Loopback.Begin] is one such.
	Begin func(ctx context.Context, wanted []string) (*Visit, error)
}

// Token sends the user to the server.
func (g *Code) Token(ctx context.Context, ask *Ask) (*Token, error) {
	const op = "authorize"
	server := ask.Server
	if server.AuthorizationEndpoint == "" {
		return nil, &Error{Op: op, Err: errors.New("the authorization server has no authorization endpoint")}
	}
	if !server.guessed && !slices.Contains(server.CodeChallengeMethods, "S256") {
		return nil, &Error{Op: op, Err: ErrPKCE}
	}
	visit, err := g.Begin(ctx, ask.client.redirects(ctx, server))
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	if visit.Close != nil {
		defer visit.Close()
	}
	reg, err := ask.client.register(ctx, server, visit.Redirect, ask.Scopes)
	if err != nil {
		return nil, err
	}

	verifier, state := random(32), random(16)
	query := url.Values{
		"response_type":         {"code"},
		"client_id":             {reg.ClientID},
		"redirect_uri":          {visit.Redirect},
		"state":                 {state},
		"code_challenge":        {digest(verifier)},
		"code_challenge_method": {"S256"},
	}
	if ask.Resource != "" {
		query.Set("resource", ask.Resource)
	}
	if ask.key != nil {
		query.Set("dpop_jkt", ask.key.Thumbprint()) // the code is then of use to nobody else (RFC 9449, section 10)
	}
	if !ask.client.NoOffline && slices.Contains(server.ScopesSupported, ScopeOffline) {
		ask.Scopes = addScopes(ask.Scopes, ScopeOffline) // only where there are some (MCP 2026-07-28, Authorization)
		query.Set("prompt", "consent")                   // OpenID Connect Core 1.0, section 11
	}
	ask.withScopes(query)
	address, err := withQuery(server.AuthorizationEndpoint, query)
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	back, err := visit.Go(ctx, address)
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	code, err := readRedirect(back, state, server)
	if err != nil {
		return nil, err
	}
	form := ask.form(grantCode)
	form.Set("code", code)
	form.Set("redirect_uri", visit.Redirect)
	form.Set("code_verifier", verifier)
	return ask.exchange(ctx, "token", reg, form)
}

// withQuery adds parameters to an endpoint, which may have some of its own (RFC 6749, section 3.1).
func withQuery(endpoint string, query url.Values) (string, error) {
	u, err := parseAddress(endpoint)
	if err != nil {
		return "", err
	}
	own, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", errors.New("the authorization endpoint has an unreadable query")
	}
	for name, values := range query {
		own[name] = values
	}
	u.RawQuery = own.Encode()
	return u.String(), nil
}

// readRedirect takes the code out of the answer to an authorization request. What another server may have put there is not even shown:
// state and issuer come first (RFC 9207, section 2.4; MCP 2026-07-28, Authorization).
func readRedirect(back url.Values, state string, server *ServerMetadata) (string, error) {
	const op = "authorize"
	for _, name := range []string{"state", "iss", "code", "error"} {
		if len(back[name]) > 1 {
			return "", &Error{Op: op, Err: fmt.Errorf("%w: %s twice", ErrState, name)}
		}
	}
	if back.Get("state") != state {
		return "", &Error{Op: op, Err: ErrState}
	}
	switch iss, present := back["iss"]; {
	case present && iss[0] != server.Issuer: // byte by byte
		return "", &Error{Op: op, Err: ErrIssuer}
	case !present && server.IssParameter:
		return "", &Error{Op: op, Err: fmt.Errorf("%w: the answer does not say whose it is", ErrIssuer)}
	}
	if code := back.Get("error"); code != "" {
		return "", &Error{Op: op, Code: safeText(code, 64), Description: safeText(back.Get("error_description"), 200)}
	}
	if back.Get("code") == "" {
		return "", &Error{Op: op, Err: errors.New("the answer holds no code")}
	}
	return back.Get("code"), nil
}
