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

// Authentication methods of a client at a token endpoint (RFC 7591, section 2; OpenID Connect Core
// 1.0, section 9).
const (
	AuthBasic      = "client_secret_basic"
	AuthPost       = "client_secret_post"
	AuthNone       = "none"
	AuthPrivateKey = "private_key_jwt"

	// authAbsent sends not even a client_id: the assertion identifies the client (RFC 7521, section
	// 4.1).
	authAbsent = "absent"
)

// A Registration is a client's registration at one authorization server. No part of it is ever sent
// to another one.
type Registration struct {
	// Issuer is the authorization server, exactly as it names itself. In [Client] Registrations it
	// may be empty if there is only one authorization server; the registration is then bound to the
	// first one found.
	Issuer string `json:"issuer"`

	ClientID string `json:"client_id"`
	Secret   string `json:"client_secret,omitempty"`

	// AuthMethod is one of the Auth constants. If empty, it is chosen from the methods that the
	// server lists and the credentials in the Registration, a key before a secret.
	AuthMethod string `json:"token_endpoint_auth_method,omitempty"`

	// Key signs assertions for [AuthPrivateKey].
	Key *Key `json:"-"`

	// RedirectURIs lists the registered redirect addresses. If empty, [Code] may use any.
	RedirectURIs []string `json:"redirect_uris,omitempty"`

	// Expires is when the secret expires. The zero time means never.
	Expires time.Time `json:"expires,omitzero"`
}

// method returns how the client authenticates at a server.
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
		return AuthPost // the default for servers without metadata
	case listed(AuthBasic):
		return AuthBasic
	case listed(AuthPost):
		return AuthPost
	case listed(AuthNone):
		return AuthNone
	}
	return AuthBasic // required of all servers that support secrets (RFC 6749, section 2.3.1)
}

// auth returns the credentials for requests to the token endpoint.
func (r *Registration) auth(server *ServerMetadata) clientAuth {
	return clientAuth{id: r.ClientID, secret: r.Secret, key: r.Key, method: r.method(server), audience: server.Issuer}
}

// clientAuth authenticates one client.
type clientAuth struct {
	id, secret, method, audience string
	key                          *Key
}

// assertionClaims is the payload of a client's assertion (RFC 7523, section 3).
type assertionClaims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	IssuedAt int64  `json:"iat"`
	ID       string `json:"jti"`
}

// assertionTime is how long an assertion is valid.
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
		// Both parts are form-encoded first (RFC 6749, section 2.3.1).
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

// wantedMethod returns the method to request in a dynamic registration: no secret if the server
// supports that, because an installed program cannot protect one (RFC 8252, section 8.4).
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

// registered is the response to a registration (RFC 7591, section 3.2.1).
type registered struct {
	ClientID      string   `json:"client_id"`
	Secret        string   `json:"client_secret"`
	SecretExpires float64  `json:"client_secret_expires_at"` // seconds since 1970; 0 means never
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	RedirectURIs  []string `json:"redirect_uris"`
	Error         string   `json:"error"`
	Description   string   `json:"error_description"`
}

// registerDynamically registers the client at a server (RFC 7591).
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
		return nil, &Error{Op: op, Status: resp.Status, Err: errors.New("the response has no client_id")}
	}
	reg := &Registration{Issuer: server.Issuer, ClientID: a.ClientID, Secret: a.Secret, AuthMethod: a.AuthMethod, RedirectURIs: a.RedirectURIs}
	if reg.AuthMethod == "" {
		// A server that changes the requested method sends it.
		reg.AuthMethod = about.TokenAuthMethod
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

// applicationType returns the application type of OpenID Connect Dynamic Client Registration 1.0,
// section 2: "native" if the redirect address is on this machine or has a custom scheme.
func applicationType(redirect string) string {
	u, err := url.Parse(redirect)
	if err == nil && u.Scheme == "https" && !outbound.IsLoopback(u.Hostname()) {
		return "web"
	}
	return "native"
}
