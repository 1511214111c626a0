package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
)

// A Grant obtains tokens: [Code], [ClientCredentials], [Enterprise], [Workload]. It is safe for
// concurrent use.
type Grant interface {
	// Token obtains a token for ask. If it is refused, it does not try another way.
	Token(ctx context.Context, ask *Ask) (*Token, error)
}

// An Ask specifies the token that a [Grant] obtains.
type Ask struct {
	Resource string          // the resource parameter (RFC 8707); "" for servers of MCP 2025-03-26
	Scopes   []string        // if empty, the scope parameter is omitted
	Server   *ServerMetadata // the authorization server; its issuer has been checked

	client *Client
	key    *Key // for DPoP; nil for bearer tokens
}

// form returns the common parameters of a token request.
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

// exchange sends a token request and returns the token in the response.
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

// A Visit is one visit of the user to an authorization server.
type Visit struct {
	// Redirect is the redirect address.
	Redirect string

	// Go shows address to the user, waits for the request to Redirect, and returns its query.
	Go func(ctx context.Context, address string) (url.Values, error)

	// Close stops waiting. It may be nil.
	Close func()
}

// Code is the authorization code grant with PKCE (OAuth 2.1, section 4.1): the user consents in a
// browser.
type Code struct {
	// Begin prepares a redirect address. It should use one of wanted if possible: these were
	// registered before and may be the only ones the server accepts. [Loopback.Begin] is an
	// implementation.
	Begin func(ctx context.Context, wanted []string) (*Visit, error)
}

// Token sends the user to the authorization server.
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
		// Binds the code to the key (RFC 9449, section 10).
		query.Set("dpop_jkt", ask.key.Thumbprint())
	}
	if !ask.client.NoOffline && slices.Contains(server.ScopesSupported, ScopeOffline) {
		// Only if other scopes are requested (MCP 2026-07-28, Authorization).
		ask.Scopes = addScopes(ask.Scopes, ScopeOffline)
		query.Set("prompt", "consent") // OpenID Connect Core 1.0, section 11
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

// withQuery adds parameters to an endpoint, which may already have a query (RFC 6749, section 3.1).
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

// readRedirect returns the code from the response to an authorization request. It checks state and
// issuer first (RFC 9207, section 2.4; MCP 2026-07-28, Authorization). Until then nothing of the
// response is even shown, because another server may have sent it.
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
	case present && iss[0] != server.Issuer: // compared byte by byte
		return "", &Error{Op: op, Err: ErrIssuer}
	case !present && server.IssParameter:
		return "", &Error{Op: op, Err: fmt.Errorf("%w: the response has no issuer", ErrIssuer)}
	}
	if code := back.Get("error"); code != "" {
		return "", &Error{Op: op, Code: safeText(code, 64), Description: safeText(back.Get("error_description"), 200)}
	}
	if back.Get("code") == "" {
		return "", &Error{Op: op, Err: errors.New("the response has no code")}
	}
	return back.Get("code"), nil
}
