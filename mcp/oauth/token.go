package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// A Token is a token that an authorization server issued for one resource.
type Token struct {
	Access  string    `json:"access_token"`
	Type    string    `json:"token_type"` // [SchemeBearer] or [SchemeDPoP]
	Refresh string    `json:"refresh_token,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero if unknown
	// Scopes holds the granted scopes, or the requested ones if the server did not list them.
	Scopes []string `json:"scopes,omitempty"`
	Issuer string   `json:"issuer"`
	// Resource is the sent resource parameter; it is empty for servers of MCP 2025-03-26.
	Resource string `json:"resource,omitempty"`
	ClientID string `json:"client_id,omitempty"`
}

// early is how long before its expiry a token is no longer used.
const early = 10 * time.Second

// fresh reports whether the token can be used at the given time.
func (t *Token) fresh(now time.Time) bool {
	return t != nil && t.Access != "" && (t.Expires.IsZero() || now.Add(early).Before(t.Expires))
}

// An Error reports why authorization failed. Its text contains nothing from a peer except the error
// code and, if the peer is the authorization server in use, its description: printable ASCII, at
// most 200 bytes.
type Error struct {
	// Op is the operation: "discover", "register", "authorize", "token", "refresh", "exchange",
	// "step up" or "show".
	Op          string
	Code        string // the OAuth error code, such as "invalid_grant"; "" if no server sent one
	Description string // the error_description of that response
	Status      int    // the HTTP status of that response; 0 if there was none
	Err         error  // the local reason; nil if Code is sufficient
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("oauth: " + e.Op)
	if e.Code != "" {
		b.WriteString(": " + e.Code)
		if e.Description != "" {
			b.WriteString(" (" + e.Description + ")")
		}
	}
	if e.Err != nil {
		b.WriteString(": " + strings.TrimPrefix(e.Err.Error(), "oauth: "))
	}
	if e.Code == "" && e.Err == nil {
		b.WriteString(": status " + strconv.Itoa(e.Status))
	}
	return b.String()
}

// Unwrap returns the local reason.
func (e *Error) Unwrap() error { return e.Err }

// Reasons for use with errors.Is.
var (
	// ErrResource reports that the metadata is about another resource than the called server.
	ErrResource = errors.New("oauth: the metadata describes another resource")

	// ErrIssuer reports that metadata, a response or a stored token names another issuer than the
	// expected one (RFC 8414, section 3.3; RFC 9207).
	ErrIssuer = errors.New("oauth: unexpected issuer")

	// ErrPKCE reports that the authorization server does not list support for S256 code challenges.
	ErrPKCE = errors.New("oauth: the authorization server does not support PKCE with S256")

	// ErrState reports a response to an authorization request that this client did not make.
	ErrState = errors.New("oauth: a response to another request")

	// ErrClient reports that the client has no way to identify itself to the authorization server:
	// no registration, no document, no dynamic registration.
	ErrClient = errors.New("oauth: no registration at this authorization server")

	// ErrScope reports that the server keeps requiring a scope that was not granted, or that was
	// granted without effect.
	ErrScope = errors.New("oauth: the token lacks a required scope")

	// ErrRejected reports that the server rejects a token that its own authorization server has
	// just issued.
	ErrRejected = errors.New("oauth: the server rejects a new token")

	// ErrDPoP reports a token that is not bound to the client's key although the server requires
	// it.
	ErrDPoP = errors.New("oauth: cannot get a DPoP-bound token")
)

// Grant types and token types (RFC 6749, RFC 7523, RFC 8693,
// draft-ietf-oauth-identity-assertion-authz-grant).
const (
	grantCode         = "authorization_code"
	grantRefresh      = "refresh_token"
	grantClient       = "client_credentials"
	grantExchange     = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantJWTBearer    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeIDToken       = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG         = "urn:ietf:params:oauth:token-type:id-jag"
	typeAccessToken   = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT           = "urn:ietf:params:oauth:token-type:jwt"
	assertionJWT      = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	headerDPoP        = "DPoP"
	headerNonce       = "DPoP-Nonce"
	errorUseNonce     = "use_dpop_nonce"
	errorInvalidGrant = "invalid_grant"
	maxTokenText      = 32 << 10 // bytes of an accepted access or refresh token
)

// answer is the success or error response of a token endpoint (RFC 6749, sections 5.1 and 5.2).
type answer struct {
	Access      string         `json:"access_token"`
	Type        string         `json:"token_type"`
	IssuedType  string         `json:"issued_token_type"`
	Refresh     string         `json:"refresh_token"`
	ExpiresIn   jsontext.Value `json:"expires_in"` // a number; some servers send a string
	Scope       *string        `json:"scope"`
	Error       string         `json:"error"`
	Description string         `json:"error_description"`
}

// seconds parses expires_in. A value that is not a number is ignored.
func (a *answer) seconds() (time.Duration, bool) {
	text := strings.Trim(string(a.ExpiresIn), `"`)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1e9 {
		return 0, false
	}
	return time.Duration(n * float64(time.Second)), true
}

// post sends a form to a token endpoint and parses the response. With a key it sends a proof, and
// sends the request once more if the server requires its nonce (RFC 9449, section 8).
func post(ctx context.Context, web *http.Client, op, endpoint string, form url.Values, auth clientAuth, key *Key, nonces *nonces) (*answer, error) {
	for again := true; ; again = false {
		sent := make(url.Values, len(form)+4)
		for name, values := range form {
			sent[name] = values
		}
		header := make(http.Header)
		if err := auth.apply(sent, header); err != nil {
			return nil, &Error{Op: op, Err: err}
		}
		if key != nil {
			proof, err := key.proof(http.MethodPost, endpoint, "", nonces.get(endpoint))
			if err != nil {
				return nil, &Error{Op: op, Err: err}
			}
			header.Set(headerDPoP, proof)
		}
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		header.Set("Accept", "application/json")
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(sent.Encode()))
		if err != nil {
			return nil, &Error{Op: op, Err: errors.New("bad endpoint")}
		}
		r.Header = header
		resp, err := outbound.Do(web, r)
		if err != nil {
			return nil, &Error{Op: op, Err: err}
		}
		nonces.keep(endpoint, resp.Header)
		var a answer
		readErr := decode(resp.Body, &a)
		if resp.Status/100 == 2 && a.Error == "" {
			if readErr != nil {
				return nil, &Error{Op: op, Status: resp.Status, Err: readErr}
			}
			return &a, nil
		}
		if again && key != nil && a.Error == errorUseNonce && resp.Header.Get(headerNonce) != "" {
			continue
		}
		if readErr != nil {
			a = answer{}
		}
		return nil, &Error{Op: op, Status: resp.Status, Code: safeText(a.Error, 64), Description: safeText(a.Description, 200)}
	}
}

// safeText returns a peer's text for display: printable ASCII of bounded length.
func safeText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), most)])
	return text
}

// token converts a response to a Token.
func (a *answer) token(op string, key *Key, asked []string, now time.Time) (*Token, error) {
	t := &Token{Access: a.Access, Refresh: a.Refresh, Scopes: asked}
	if !isCredential(a.Access) || a.Refresh != "" && !isCredential(a.Refresh) {
		return nil, &Error{Op: op, Err: errors.New("the response has no usable token")}
	}
	switch {
	case strings.EqualFold(a.Type, SchemeBearer):
		t.Type = SchemeBearer
	case strings.EqualFold(a.Type, SchemeDPoP) && key != nil:
		t.Type = SchemeDPoP
	default:
		return nil, &Error{Op: op, Err: fmt.Errorf("a token of unknown type %q", safeText(a.Type, 40))}
	}
	if key != nil && t.Type != SchemeDPoP {
		return nil, &Error{Op: op, Err: fmt.Errorf("%w: the server issued a token that is not bound to a key", ErrDPoP)}
	}
	if d, ok := a.seconds(); ok {
		t.Expires = now.Add(d)
	}
	if a.Scope != nil {
		t.Scopes = Scopes(*a.Scope)
	}
	return t, nil
}

// isCredential reports whether a text is valid in an Authorization header: visible ASCII without
// spaces.
func isCredential(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxTokenText
}
