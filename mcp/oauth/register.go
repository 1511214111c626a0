package oauth

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// How a client shows at a token endpoint that it is itself (RFC 7591, section 2; OpenID Connect Core 1.0, section 9).
const (
	AuthBasic      = "client_secret_basic"
	AuthPost       = "client_secret_post"
	AuthNone       = "none"
	AuthPrivateKey = "private_key_jwt"

	authAbsent = "absent" // not even a client_id: the assertion says it all (RFC 7521, section 4.1)
)

// A Registration is how a client is known at one authorization server. Nothing of it is ever shown to another one.
type Registration struct {
	// Issuer is the authorization server that it belongs to, exactly as the server names itself. "" in [Client] Registrations: any, for
	// those who know that there is only one; it is bound to the first that is met.
	Issuer string `json:"issuer"`

	ClientID string `json:"client_id"`
	Secret   string `json:"client_secret,omitempty"`

	// AuthMethod is one of the Auth constants. "": chosen from what the server lists and from what is here, a key before a secret.
	AuthMethod string `json:"token_endpoint_auth_method,omitempty"`

	// Key signs assertions for [AuthPrivateKey].
	Key *Key `json:"-"`

	// RedirectURIs are where users may be sent back to. None: anywhere that [Code] finds room.
	RedirectURIs []string `json:"redirect_uris,omitempty"`

	// Expires is when the secret ends. Zero: never.
	Expires time.Time `json:"expires,omitzero"`
}

// method is how the client authenticates at a server.
func (r *Registration) method(server *ServerMetadata) string {
	listed := func(method string) bool { return offers(server.TokenAuthMethods, method, AuthBasic) }
	switch {
	case r.AuthMethod != "":
		return r.AuthMethod
	case r.Key != nil && (listed(AuthPrivateKey) || r.Secret == ""):
		return AuthPrivateKey
	case r.Secret == "":
		return AuthNone
	case server.guessed:
		return AuthPost // what servers without metadata were written for
	case listed(AuthBasic):
		return AuthBasic
	case listed(AuthPost):
		return AuthPost
	case listed(AuthNone):
		return AuthNone
	}
	return AuthBasic // each server with secrets has it (RFC 6749, section 2.3.1)
}

// auth is what goes with requests to the token endpoint.
func (r *Registration) auth(server *ServerMetadata) clientAuth {
	return clientAuth{id: r.ClientID, secret: r.Secret, key: r.Key, method: r.method(server), audience: server.Issuer}
}

// clientAuth authenticates one client.
type clientAuth struct {
	id, secret, method, audience string
	key                          *Key
}

// assertionClaims are the payload of a client's assertion (RFC 7523, section 3).
type assertionClaims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	IssuedAt int64  `json:"iat"`
	ID       string `json:"jti"`
}

// assertionTime is how long an assertion is good for.
const assertionTime = time.Minute

func (a clientAuth) apply(form url.Values, header http.Header) error {
	switch a.method {
	case authAbsent:
	case AuthNone:
		form.Set("client_id", a.id)
	case AuthPost:
		form.Set("client_id", a.id)
		form.Set("client_secret", a.secret)
	case AuthBasic:
		// Both halves are form-encoded first (RFC 6749, section 2.3.1).
		pair := url.QueryEscape(a.id) + ":" + url.QueryEscape(a.secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	case AuthPrivateKey:
		if a.key == nil {
			return errors.New("private_key_jwt without a key")
		}
		now := time.Now()
		headers := map[jose.HeaderKey]any{jose.HeaderType: "JWT"}
		if a.key.ID != "" {
			headers["kid"] = a.key.ID
		}
		assertion, err := a.key.sign(assertionClaims{Issuer: a.id, Subject: a.id, Audience: a.audience,
			Expires: now.Add(assertionTime).Unix(), IssuedAt: now.Unix(), ID: random(16)}, headers, false)
		if err != nil {
			return err
		}
		form.Set("client_id", a.id)
		form.Set("client_assertion_type", assertionJWT)
		form.Set("client_assertion", assertion)
	default:
		return fmt.Errorf("unknown client authentication %q", safeText(a.method, 40))
	}
	return nil
}

// wantedMethod is what a client that registers itself asks for: no secret when the server takes those, for an installed program
// keeps none (RFC 8252, section 8.4).
func wantedMethod(server *ServerMetadata) string {
	if server.guessed {
		return AuthPost
	}
	for _, method := range []string{AuthNone, AuthBasic, AuthPost} {
		if offers(server.TokenAuthMethods, method, AuthBasic) {
			return method
		}
	}
	return AuthNone
}

// registered is the answer to a registration (RFC 7591, section 3.2.1).
type registered struct {
	ClientID      string   `json:"client_id"`
	Secret        string   `json:"client_secret"`
	SecretExpires float64  `json:"client_secret_expires_at"` // seconds since 1970; 0 is never
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	RedirectURIs  []string `json:"redirect_uris"`
	Error         string   `json:"error"`
	Description   string   `json:"error_description"`
}

// registerDynamically asks a server to take a client that it has not heard of (RFC 7591).
func registerDynamically(ctx context.Context, web *http.Client, server *ServerMetadata, about ClientMetadata, redirect string, scopes []string) (*Registration, error) {
	const op = "register"
	about.ClientID = ""
	about.RedirectURIs = []string{redirect}
	if about.ClientName == "" {
		about.ClientName = "parley"
	}
	if about.GrantTypes == nil {
		about.GrantTypes = []string{grantCode, grantRefresh}
	}
	if about.ResponseTypes == nil {
		about.ResponseTypes = []string{"code"}
	}
	if about.TokenAuthMethod == "" {
		about.TokenAuthMethod = wantedMethod(server)
	}
	if about.ApplicationType == "" {
		about.ApplicationType = applicationType(redirect)
	}
	if about.Scope == "" {
		about.Scope = joinScopes(scopes)
	}
	body, err := json.Marshal(&about)
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.RegistrationEndpoint, bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Op: op, Err: errors.New("bad endpoint")}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	resp, err := outbound.Do(web, r)
	if err != nil {
		return nil, &Error{Op: op, Err: err}
	}
	var a registered
	readErr := decode(resp.Body, &a)
	if resp.Status/100 != 2 || a.Error != "" {
		return nil, &Error{Op: op, Status: resp.Status, Code: safeText(a.Error, 64), Description: safeText(a.Description, 200)}
	}
	if readErr != nil || a.ClientID == "" {
		return nil, &Error{Op: op, Status: resp.Status, Err: errors.New("the answer holds no client_id")}
	}
	reg := &Registration{Issuer: server.Issuer, ClientID: a.ClientID, Secret: a.Secret, AuthMethod: a.AuthMethod, RedirectURIs: a.RedirectURIs}
	if reg.AuthMethod == "" {
		reg.AuthMethod = about.TokenAuthMethod // a server that changes what was asked for says so
	}
	if reg.Secret == "" && reg.AuthMethod != AuthPrivateKey {
		reg.AuthMethod = AuthNone
	}
	if !slices.Contains(reg.RedirectURIs, redirect) {
		reg.RedirectURIs = append(reg.RedirectURIs, redirect)
	}
	if a.SecretExpires > 0 && a.SecretExpires < 1e11 {
		reg.Expires = time.Unix(int64(a.SecretExpires), 0)
	}
	return reg, nil
}

// applicationType is that of OpenID Connect Dynamic Client Registration 1.0, section 2: "native" for who comes back to this machine or
// to a scheme of its own.
func applicationType(redirect string) string {
	u, err := url.Parse(redirect)
	if err == nil && u.Scheme == "https" && !outbound.IsLoopback(u.Hostname()) {
		return "web"
	}
	return "native"
}
