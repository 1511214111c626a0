package authserver

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
)

// sign returns a compact JWS of claims.
func (s *Server) sign(claims map[string]any, kind string) (string, error) {
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	id, _ := key.KeyID()
	if s.opts.ForeignKey {
		other, err := NewKey(id)
		if err != nil {
			return "", err
		}
		key = other
	}
	return SignWith(key, claims, kind)
}

// SignWith returns a compact JWS of claims, signed with a key whose id is in its header.
func SignWith(key jwk.Key, claims map[string]any, kind string) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	h := jws.NewHeaders()
	id, _ := key.KeyID()
	for name, value := range map[string]any{jws.TypeKey: kind, jws.KeyIDKey: id} {
		if err := h.Set(name, value); err != nil {
			return "", err
		}
	}
	signed, err := jws.Sign(payload, jws.WithKey(jwa.ES256(), key, jws.WithProtectedHeaders(h)))
	return string(signed), err
}

// open verifies a compact JWS and returns claims and typ.
func open(token string, key jwk.Key) (claims map[string]any, kind string, ok bool) {
	m, err := jws.Parse([]byte(token), jws.WithCompact())
	if err != nil || len(m.Signatures()) != 1 {
		return nil, "", false
	}
	h := m.Signatures()[0].ProtectedHeaders()
	alg, _ := h.Algorithm()
	if !slices.Contains([]string{"ES256", "RS256", "PS256", "EdDSA"}, alg.String()) {
		return nil, "", false
	}
	payload, err := jws.Verify([]byte(token), jws.WithKey(alg, key))
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return nil, "", false
	}
	kind, _ = h.Type()
	return claims, kind, true
}

// isCurrent reports whether claims have not expired.
func isCurrent(claims map[string]any) bool {
	exp, ok := claims["exp"].(float64)
	return ok && time.Now().Unix() < int64(exp)
}

func hasAudience(claims map[string]any, want string) bool {
	switch aud := claims["aud"].(type) {
	case string:
		return aud == want
	case []any:
		return slices.Contains(aud, any(want))
	}
	return false
}

// trusted verifies and opens an assertion of one of the trusted issuers.
func (s *Server) trusted(token string) (map[string]any, string, bool) {
	for _, t := range s.opts.Trusted {
		if claims, kind, ok := open(token, t.Key); ok && claims["iss"] == t.Issuer && isCurrent(claims) {
			return claims, kind, true
		}
	}
	return nil, "", false
}

// own verifies and opens a token of this server.
func (s *Server) own(token string) (map[string]any, string, bool) {
	public, err := s.PublicKey()
	if err != nil {
		return nil, "", false
	}
	claims, kind, ok := open(token, public)
	return claims, kind, ok && claims["iss"] == s.Issuer && isCurrent(claims)
}

// PublicKey returns the key that verifies the server's tokens.
func (s *Server) PublicKey() (jwk.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key.PublicKey()
}

// clientAssertion checks private_key_jwt (RFC 7523, section 3).
func (s *Server) clientAssertion(c *Client, f url.Values) bool {
	if c.Key == nil || f.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
		return false
	}
	claims, _, ok := open(f.Get("client_assertion"), c.Key)
	if !ok || claims["iss"] != c.ID || claims["sub"] != c.ID || !isCurrent(claims) || !hasAudience(claims, s.Issuer) && !hasAudience(claims, s.Issuer+"/token") {
		return false
	}
	return s.once(fmt.Sprint("assertion ", claims["jti"]))
}

// once reports whether an ID is new.
func (s *Server) once(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jtis[id] {
		return false
	}
	s.jtis[id] = true
	return true
}

// proof checks a DPoP proof (RFC 9449, section 4.3), and returns the thumbprint of its key, or an
// error code.
func (s *Server) proof(w http.ResponseWriter, proofs []string, method, address string) (jkt, code string) {
	const bad = "invalid_dpop_proof"
	if len(proofs) != 1 {
		return "", bad
	}
	m, err := jws.Parse([]byte(proofs[0]), jws.WithCompact())
	if err != nil || len(m.Signatures()) != 1 {
		return "", bad
	}
	key, ok := m.Signatures()[0].ProtectedHeaders().JWK()
	if !ok {
		return "", bad
	}
	if private, err := jwk.IsPrivateKey(key); err != nil || private {
		return "", bad
	}
	claims, kind, ok := open(proofs[0], key)
	iat, _ := claims["iat"].(float64)
	age := time.Since(time.Unix(int64(iat), 0))
	jti, _ := claims["jti"].(string)
	if !ok || kind != "dpop+jwt" || claims["htm"] != method || claims["htu"] != address || age > time.Minute || age < -time.Minute ||
		jti == "" || !s.once("proof "+jti) {
		return "", bad
	}
	if s.opts.Nonce {
		s.mu.Lock()
		want := fmt.Sprintf("nonce-%d", s.nonce)
		good := claims["nonce"] == want
		if good {
			s.nonce++ // each is valid for one request
			want = fmt.Sprintf("nonce-%d", s.nonce)
		}
		s.mu.Unlock()
		w.Header().Set("DPoP-Nonce", want)
		if !good {
			return "", "use_dpop_nonce"
		}
	}
	sum, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", bad
	}
	return base64.RawURLEncoding.EncodeToString(sum), ""
}

// Challenge returns the S256 code challenge of a verifier.
func Challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
