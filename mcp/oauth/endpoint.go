package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// An Endpoint requests tokens from a token endpoint that is configured, for programs that pass on
// requests of others, such as gateways. It discovers nothing and stores nothing. It is safe for
// concurrent use; set URL before the first use.
type Endpoint struct {
	// URL is the token endpoint. Required. Its host is allowed although it is not public, and over
	// http if URL uses http.
	URL string

	once     sync.Once
	startErr error
	web      *http.Client
	nonces   nonces
}

// A TokenRequest describes the token that [Endpoint.Token] requests.
type TokenRequest struct {
	// Subject is the access token of a caller, verified by this program, that is exchanged for one
	// of the same caller for another server (RFC 8693). If empty, the token is for this program
	// itself (RFC 6749, section 4.4).
	Subject string

	// Audience and Resource name the server that the token is for (RFC 8693, section 2.1; RFC 8707).
	// Empty ones are not sent.
	Audience, Resource string

	Scopes []string // requested scopes; nil leaves the choice to the authorization server
}

// Token requests a token. client is the registration of this program there; its Issuer and
// RedirectURIs are ignored. Besides errors of the context, the error is an [*Error]; it does not
// contain a token.
func (e *Endpoint) Token(ctx context.Context, client *Registration, ask *TokenRequest) (*Token, error) {
	op := "token"
	form := url.Values{"grant_type": {grantClient}}
	if ask.Subject != "" {
		op = "exchange"
		form = url.Values{
			"grant_type":           {grantExchange},
			"subject_token":        {ask.Subject},
			"subject_token_type":   {typeAccessToken},
			"requested_token_type": {typeAccessToken},
		}
	}
	e.once.Do(func() {
		u, err := parseAddress(e.URL)
		if err != nil {
			e.startErr = errors.New("Endpoint.URL is not an address")
			return
		}
		policy := new(outbound.Policy)
		policy.Allow(u)
		e.web = policy.Client()
	})
	if e.startErr != nil {
		return nil, &Error{Op: op, Err: e.startErr}
	}
	for name, value := range map[string]string{"audience": ask.Audience, "resource": ask.Resource, "scope": joinScopes(ask.Scopes)} {
		if value != "" {
			form.Set(name, value)
		}
	}
	server := &ServerMetadata{Issuer: e.URL, TokenEndpoint: e.URL}
	got, err := post(ctx, e.web, op, e.URL, form, client.auth(server), nil, &e.nonces)
	if err != nil {
		return nil, err
	}
	if ask.Subject != "" && got.IssuedType != "" && got.IssuedType != typeAccessToken && got.IssuedType != typeJWT {
		return nil, &Error{Op: op, Err: fmt.Errorf("the authorization server returned no access token but %q", safeText(got.IssuedType, 60))}
	}
	t, err := got.token(op, nil, ask.Scopes, time.Now())
	if err != nil {
		return nil, err
	}
	t.Issuer, t.Resource, t.ClientID = e.URL, ask.Resource, client.ClientID
	return t, nil
}

// Close closes idle connections. Tokens can still be requested.
func (e *Endpoint) Close() {
	if e.web != nil {
		e.web.CloseIdleConnections()
	}
}
