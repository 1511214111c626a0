package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
)

// JWT verifies access tokens that are signed JWTs (RFC 9068) with the keys that their issuer
// publishes. Set the fields before the first use.
type JWT struct {
	// Issuer is the authorization server, exactly as it names itself. Required.
	Issuer string

	// Audience is the required audience of tokens: the resource identifier of the MCP server (RFC
	// 8707), see [Canonical]. Required.
	Audience string

	// KeysURL is where the issuer publishes its keys. If empty, it is taken from the issuer's
	// metadata.
	KeysURL string

	// Algorithms lists the accepted signature algorithms, whatever the token claims. If nil: ES256,
	// EdDSA, RS256, PS256. Algorithms with a shared secret, and "none", are never accepted.
	Algorithms []string

	// AllowHosts lists host names that may be fetched from although they are not public, or over
	// http. The hosts of Issuer and KeysURL are always allowed.
	AllowHosts []string

	once     sync.Once
	startErr error
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

const (
	maxJWT = 8 << 10          // bytes of a token, checked before decoding
	skew   = 30 * time.Second // the tolerated clock difference
)

// claims holds the claims of an access token that are checked (RFC 9068, section 2.2; some servers
// use scp for scope).
type claims struct {
	Issuer    string         `json:"iss"`
	Subject   string         `json:"sub"`
	Audience  oneOrMore      `json:"aud"`
	Expires   jsontext.Value `json:"exp"`
	NotBefore jsontext.Value `json:"nbf"`
	ClientID  string         `json:"client_id"`
	Party     string         `json:"azp"`
	Scope     string         `json:"scope"`
	ScopeList oneOrMore      `json:"scp"`
	Confirm   struct {
		Thumbprint string `json:"jkt"`
	} `json:"cnf"`
}

// oneOrMore is a string or an array of strings.
type oneOrMore []string

// UnmarshalJSONFrom accepts both forms.
func (o *oneOrMore) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		t, err := d.ReadToken()
		*o = oneOrMore{t.String()}
		return err
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		*o = oneOrMore{}
		for d.PeekKind() == '"' {
			t, err := d.ReadToken()
			if err != nil {
				return err
			}
			*o = append(*o, t.String())
		}
		if d.PeekKind() != ']' {
			return errors.New("a list whose elements are not strings")
		}
		_, err := d.ReadToken()
		return err
	}
	return errors.New("neither a string nor a list")
}

func (v *JWT) start() error {
	v.once.Do(func() {
		algorithms := v.Algorithms
		if algorithms == nil {
			algorithms = strong
		}
		if v.Issuer == "" || v.Audience == "" {
			v.startErr = errors.New("oauth: JWT needs Issuer and Audience")
			return
		}
		for _, a := range algorithms {
			if !asymmetric(a) {
				v.startErr = fmt.Errorf("oauth: JWT.Algorithms: %q does not use a public key", a)
				return
			}
		}
		v.keys, v.startErr = newKeySet(v.Issuer, v.KeysURL, v.AllowHosts)
		v.verifier = oidc.NewVerifier(v.Issuer, v.keys, &oidc.Config{
			ClientID:             v.Audience,
			SupportedSigningAlgs: algorithms,
			SkipExpiryCheck:      true, // checked below, with less tolerance
		})
	})
	return v.startErr
}

// Verify checks the signature, issuer, audience and times of a token.
func (v *JWT) Verify(ctx context.Context, token string) (*Identity, error) {
	if err := v.start(); err != nil {
		return nil, err
	}
	if len(token) > maxJWT || strings.Count(token, ".") != 2 {
		return nil, fmt.Errorf("%w: not a JWT", ErrToken)
	}
	kid, err := checkHeader(token)
	if err != nil {
		return nil, err
	}
	if _, err := v.keys.key(ctx, kid); err != nil {
		return nil, err
	}
	checked, err := v.verifier.Verify(ctx, token)
	if err != nil {
		// The error would quote the token.
		return nil, fmt.Errorf("%w: signature, issuer or audience", ErrToken)
	}
	var text rawClaims
	if err := checked.Claims(&text); err != nil {
		return nil, fmt.Errorf("%w: no claims", ErrToken)
	}
	return identify(jsontext.Value(text), v.Issuer, v.Audience, true)
}

// rawClaims is the payload unchanged.
type rawClaims []byte

// UnmarshalJSON stores text.
func (r *rawClaims) UnmarshalJSON(text []byte) error {
	*r = append((*r)[:0], text...)
	return nil
}

// checkHeader rejects JWTs made for another purpose: assertions, logout tokens, proofs (RFC 8725,
// section 3.11). It returns the ID of the key.
func checkHeader(token string) (kid string, err error) {
	sig, err := jose.ParseSignedCompact(token, everyAlgorithm)
	if err != nil || len(sig.Signatures) != 1 {
		return "", fmt.Errorf("%w: not a signed JWT", ErrToken)
	}
	header := sig.Signatures[0].Protected
	kind, _ := header.ExtraHeaders[jose.HeaderType].(string)
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	if kind != "" && kind != "jwt" && kind != "at+jwt" {
		return "", fmt.Errorf("%w: a JWT of another type", ErrToken)
	}
	if header.KeyID == "" {
		return "", fmt.Errorf("%w: without a key ID", ErrToken)
	}
	return header.KeyID, nil
}

// everyAlgorithm lists the algorithms that a header may name; the accepted ones are checked later.
var everyAlgorithm = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.ES512, jose.RS256, jose.RS384, jose.RS512,
	jose.PS256, jose.PS384, jose.PS512, jose.EdDSA}

// identify converts verified claims to an identity. If strict, the claims must contain issuer and
// time.
func identify(text jsontext.Value, issuer, audience string, strict bool) (*Identity, error) {
	var c claims
	if err := decode(text, &c); err != nil {
		return nil, fmt.Errorf("%w: its claims: %w", ErrToken, err)
	}
	now := time.Now()
	expires, expiresOK := numericDate(c.Expires)
	notBefore, notBeforeOK := numericDate(c.NotBefore)
	switch {
	case c.Issuer != issuer && (strict || c.Issuer != ""):
		return nil, fmt.Errorf("%w: of another issuer", ErrToken)
	case !slices.Contains(c.Audience, audience):
		return nil, fmt.Errorf("%w: for another audience", ErrToken)
	case !expiresOK && (strict || c.Expires != nil):
		return nil, fmt.Errorf("%w: without an expiry", ErrToken)
	case expiresOK && !now.Before(expires.Add(skew)):
		return nil, fmt.Errorf("%w: expired", ErrToken)
	case c.NotBefore != nil && (!notBeforeOK || now.Add(skew).Before(notBefore)):
		return nil, fmt.Errorf("%w: not valid yet", ErrToken)
	}
	i := &Identity{Issuer: issuer, Subject: c.Subject, ClientID: c.ClientID, Expires: expires, Key: c.Confirm.Thumbprint, Claims: text}
	if i.ClientID == "" {
		i.ClientID = c.Party
	}
	if i.Subject == "" && i.ClientID == "" {
		return nil, fmt.Errorf("%w: without a subject", ErrToken)
	}
	i.Scopes = Scopes(c.Scope)
	for _, list := range c.ScopeList {
		i.Scopes = addScopes(i.Scopes, strings.Fields(list)...)
	}
	return i, nil
}

// numericDate parses seconds since 1970, which may have a fraction (RFC 7519, section 2).
func numericDate(text jsontext.Value) (time.Time, bool) {
	seconds, err := strconv.ParseFloat(string(text), 64)
	if err != nil || seconds < 0 || seconds > 1e11 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}
