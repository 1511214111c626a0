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

// A Token is what an authorization server gave for one resource.
type Token struct {
	Access   string    `json:"access_token"`
	Type     string    `json:"token_type"` // [SchemeBearer] or [SchemeDPoP]
	Refresh  string    `json:"refresh_token,omitempty"`
	Expires  time.Time `json:"expires,omitzero"` // zero: not known
	Scopes   []string  `json:"scopes,omitempty"` // what it was given for; what was asked for when the server did not say
	Issuer   string    `json:"issuer"`
	Resource string    `json:"resource,omitempty"` // as sent in the resource parameter; "" for servers of MCP 2025-03-26
	ClientID string    `json:"client_id,omitempty"`
}

// early is how long before its end a token is not used any more.
const early = 10 * time.Second

// fresh reports whether the token can be shown at a time.
func (t *Token) fresh(now time.Time) bool {
	return t != nil && t.Access != "" && (t.Expires.IsZero() || now.Add(early).Before(t.Expires))
}

// An Error is why there is no authorization. Nothing in its text comes from a peer except the error code and, where the peer is the
// authorization server that was asked, its description: printable ASCII, at most 200 bytes.
type Error struct {
	Op          string // what was tried: "discover", "register", "authorize", "token", "refresh", "exchange", "step up", "show"
	Code        string // the OAuth error code, such as "invalid_grant"; "" when no server gave one
	Description string // error_description of that answer
	Status      int    // HTTP status of that answer; 0 when there was none
	Err         error  // our own reason; nil when Code says it all
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

// Unwrap returns our own reason.
func (e *Error) Unwrap() error { return e.Err }

// Reasons that callers may look for with errors.Is.
var (
	// ErrResource: the metadata speaks for another resource than the server that was called.
	ErrResource = errors.New("oauth: the metadata is about another resource")

	// ErrIssuer: metadata, an answer or a stored token names another issuer than the one it was asked of (RFC 8414, section 3.3; RFC 9207).
	ErrIssuer = errors.New("oauth: another issuer than expected")

	// ErrPKCE: the authorization server does not say that it checks S256 code challenges.
	ErrPKCE = errors.New("oauth: the authorization server does not support PKCE with S256")

	// ErrState: an answer to an authorization request that we did not make.
	ErrState = errors.New("oauth: an answer to another request")

	// ErrClient: no way to be known to the authorization server: not registered, no document, no dynamic registration.
	ErrClient = errors.New("oauth: no registration at this authorization server")

	// ErrScope: the server keeps asking for a scope that the token was not given, or was given in vain.
	ErrScope = errors.New("oauth: the token does not reach far enough")

	// ErrRejected: the server does not take a token that its own authorization server has just given.
	ErrRejected = errors.New("oauth: the server rejects a new token")

	// ErrDPoP: a token that is not bound to our key where the server demands one.
	ErrDPoP = errors.New("oauth: no DPoP-bound token to be had")
)

// Grant types and token types (RFC 6749, RFC 7523, RFC 8693, draft-ietf-oauth-identity-assertion-authz-grant).
const (
	grantCode         = "authorization_code"
	grantRefresh      = "refresh_token"
	grantClient       = "client_credentials"
	grantExchange     = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantJWTBearer    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	typeIDToken       = "urn:ietf:params:oauth:token-type:id_token"
	typeIDJAG         = "urn:ietf:params:oauth:token-type:id-jag"
	assertionJWT      = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	headerDPoP        = "DPoP"
	headerNonce       = "DPoP-Nonce"
	errorUseNonce     = "use_dpop_nonce"
	errorInvalidGrant = "invalid_grant"
	maxTokenText      = 32 << 10 // bytes of an access or refresh token that we keep
)

// answer is what a token endpoint says, in success and in failure (RFC 6749, sections 5.1 and 5.2).
type answer struct {
	Access      string         `json:"access_token"`
	Type        string         `json:"token_type"`
	IssuedType  string         `json:"issued_token_type"`
	Refresh     string         `json:"refresh_token"`
	ExpiresIn   jsontext.Value `json:"expires_in"` // a number; some servers send it as a string
	Scope       *string        `json:"scope"`
	Error       string         `json:"error"`
	Description string         `json:"error_description"`
}

// seconds reads expires_in. What is no number counts as not said.
func (a *answer) seconds() (time.Duration, bool) {
	text := strings.Trim(string(a.ExpiresIn), `"`)
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1e9 {
		return 0, false
	}
	return time.Duration(n * float64(time.Second)), true
}

// post sends a form to a token endpoint and reads the answer. With a key it shows a proof, and sends again, once, when the server wants
// its nonce in it (RFC 9449, section 8).
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

// safeText returns a peer's text for people: printable ASCII, bounded.
func safeText(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), most)])
	return text
}

// token makes a Token of an answer.
func (a *answer) token(op string, key *Key, asked []string, now time.Time) (*Token, error) {
	t := &Token{Access: a.Access, Refresh: a.Refresh, Scopes: asked}
	if !isCredential(a.Access) || a.Refresh != "" && !isCredential(a.Refresh) {
		return nil, &Error{Op: op, Err: errors.New("the answer holds no token that could be sent")}
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
		return nil, &Error{Op: op, Err: fmt.Errorf("%w: the server gave a token for anybody", ErrDPoP)}
	}
	if d, ok := a.seconds(); ok {
		t.Expires = now.Add(d)
	}
	if a.Scope != nil {
		t.Scopes = Scopes(*a.Scope)
	}
	return t, nil
}

// isCredential reports whether a text can stand in an Authorization header: visible ASCII without spaces.
func isCredential(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return text != "" && len(text) <= maxTokenText
}
