package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// ClientCredentials is the grant for programs that act for themselves, with a secret or a key
// (OAuth 2.1, section 4.2; the extension io.modelcontextprotocol/oauth-client-credentials). The
// registration must be one of [Client] Registrations.
type ClientCredentials struct{}

// Token requests a token in the client's own name.
func (ClientCredentials) Token(ctx context.Context, ask *Ask) (*Token, error) {
	const op = "token"
	reg, err := ask.client.known(ctx, ask.Server)
	if err != nil {
		return nil, err
	}
	if reg.method(ask.Server) == AuthNone {
		return nil, &Error{Op: op, Err: fmt.Errorf("%w: this grant needs a secret or a key", ErrClient)}
	}
	return ask.exchange(ctx, op, reg, ask.withScopes(ask.form(grantClient)))
}

// Enterprise is the grant for companies whose identity provider decides on access (the extension
// io.modelcontextprotocol/enterprise-managed-authorization). The user's ID token is exchanged at
// the provider for an assertion for one authorization server (RFC 8693), and the assertion for a
// token there (RFC 7523). No page is shown. The registration at the authorization server must be
// one of [Client] Registrations.
type Enterprise struct {
	// IDToken returns the user's ID token from the identity provider. Required.
	IDToken func(ctx context.Context) (string, error)

	// Provider is the issuer of the ID token; its metadata names the token endpoint. TokenEndpoint,
	// if set, is used instead.
	Provider      string
	TokenEndpoint string

	// Client is the registration of this program at the provider. Required; Issuer and RedirectURIs
	// are ignored.
	Client Registration
}

// Token runs both exchanges.
func (g *Enterprise) Token(ctx context.Context, ask *Ask) (*Token, error) {
	const op = "exchange"
	reg, err := ask.client.known(ctx, ask.Server)
	if err != nil {
		return nil, err
	}
	provider := &ServerMetadata{Issuer: g.Provider, TokenEndpoint: g.TokenEndpoint}
	if provider.TokenEndpoint == "" {
		if provider, err = ask.client.server(ctx, g.Provider); err != nil {
			return nil, &Error{Op: op, Err: err}
		}
	} else if err := checkServer(provider, ask.client.policy); err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	idToken, err := g.IDToken(ctx)
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	form := url.Values{
		"grant_type":           {grantExchange},
		"requested_token_type": {typeIDJAG},
		"subject_token":        {idToken},
		"subject_token_type":   {typeIDToken},
		"audience":             {ask.Server.Issuer},
	}
	if ask.Resource != "" {
		form.Set("resource", ask.Resource)
	}
	got, err := post(ctx, ask.client.web, op, provider.TokenEndpoint, ask.withScopes(form), g.Client.auth(provider), nil, &ask.client.nonces)
	switch {
	case err != nil:
		return nil, err
	case got.IssuedType != typeIDJAG:
		return nil, &Error{Op: op, Err: errors.New("the identity provider did not return an assertion for this server")}
	case !isCredential(got.Access):
		return nil, &Error{Op: op, Err: errors.New("the identity provider returned an assertion that cannot be sent")}
	}
	bearer := ask.withScopes(ask.form(grantJWTBearer))
	bearer.Set("assertion", got.Access)
	return ask.exchange(ctx, "token", reg, bearer)
}

// Workload is the grant for programs that a platform vouches for, such as a pod with a service
// account: the platform's JWT is the assertion (RFC 7523, section 2.1; workload identity
// federation, SEP-1933). A refusal is final: nothing else is tried.
type Workload struct {
	// Assertion returns the platform's JWT for the authorization server. Required.
	Assertion func(ctx context.Context) (string, error)

	// ClientID is sent if it is not empty and [Client] Registrations has no entry for the server.
	ClientID string
}

// Token exchanges the platform's assertion for a token.
func (g *Workload) Token(ctx context.Context, ask *Ask) (*Token, error) {
	const op = "token"
	assertion, err := g.Assertion(ctx)
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	reg, err := ask.client.known(ctx, ask.Server)
	if err != nil {
		reg = &Registration{Issuer: ask.Server.Issuer, ClientID: g.ClientID}
		if g.ClientID == "" {
			reg.AuthMethod = authAbsent
		}
	}
	form := ask.withScopes(ask.form(grantJWTBearer))
	form.Set("assertion", assertion)
	return ask.exchange(ctx, op, reg, form)
}
