package authserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	jwtBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	idJAG         = "urn:ietf:params:oauth:token-type:id-jag"
	idToken       = "urn:ietf:params:oauth:token-type:id_token"
)

// token handles the token endpoint.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	f := r.PostForm
	jkt := ""
	if proofs := r.Header.Values("DPoP"); len(proofs) > 0 && s.opts.DPoP {
		var why string
		if jkt, why = s.proof(w, proofs, r.Method, s.Issuer+"/token"); why != "" {
			fail(w, http.StatusBadRequest, why, "")
			return
		}
	}
	kind := f.Get("grant_type")
	c, why := s.authenticate(r)
	if why != "" && (kind != jwtBearer || f.Get("client_id") != "" || r.Header.Get("Authorization") != "") {
		fail(w, http.StatusUnauthorized, "invalid_client", why)
		return
	}
	if c != nil && c.Grants != nil && !slices.Contains(c.Grants, kind) {
		fail(w, http.StatusBadRequest, "unauthorized_client", "")
		return
	}
	var g *grant
	var problem string
	switch kind {
	case "authorization_code":
		g, problem = s.redeem(c, f, jkt)
	case "refresh_token":
		g, problem = s.renew(c, f, jkt)
	case "client_credentials":
		if c.Method == "none" {
			problem = "unauthorized_client"
			break
		}
		g = &grant{client: c.ID, subject: c.ID, resource: f.Get("resource"), scopes: strings.Fields(f.Get("scope"))}
	case jwtBearer:
		g, problem = s.assertion(c, f)
	case tokenExchange:
		s.exchange(w, c, f)
		return
	default:
		problem = "unsupported_grant_type"
	}
	if problem != "" {
		fail(w, http.StatusBadRequest, problem, "")
		return
	}
	g.jkt = jkt
	s.give(w, g, (kind == "authorization_code" || kind == "refresh_token") && (c.Grants == nil || slices.Contains(c.Grants, "refresh_token")))
}

// redeem exchanges a code for a grant. A code is valid once.
func (s *Server) redeem(c *Client, f url.Values, jkt string) (*grant, string) {
	s.mu.Lock()
	k := s.codes[f.Get("code")]
	delete(s.codes, f.Get("code"))
	s.mu.Unlock()
	sum := sha256.Sum256([]byte(f.Get("code_verifier")))
	switch {
	case k == nil, k.client != c.ID, k.redirect != f.Get("redirect_uri"), time.Now().After(k.until),
		k.challenge != base64.RawURLEncoding.EncodeToString(sum[:]), k.dpop != "" && k.dpop != jkt:
		return nil, "invalid_grant"
	case k.resource != f.Get("resource"):
		return nil, "invalid_target"
	}
	return &k.grant, ""
}

// renew exchanges a refresh token for a grant. A refresh token is valid once: it rotates.
func (s *Server) renew(c *Client, f url.Values, jkt string) (*grant, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.refresh[f.Get("refresh_token")]
	delete(s.refresh, f.Get("refresh_token"))
	if g == nil || g.client != c.ID || g.jkt != jkt {
		return nil, "invalid_grant"
	}
	copied := *g
	return &copied, ""
}

// assertion returns a grant for the assertion of a trusted issuer: a platform's for a workload, or
// an identity provider's for a user.
func (s *Server) assertion(c *Client, f url.Values) (*grant, string) {
	claims, header, ok := s.trusted(f.Get("assertion"))
	if !ok || !hasAudience(claims, s.Issuer) {
		return nil, "invalid_grant"
	}
	subject, _ := claims["sub"].(string)
	g := &grant{subject: subject, client: subject, resource: f.Get("resource"), scopes: strings.Fields(f.Get("scope"))}
	if header == "oauth-id-jag+jwt" {
		id, _ := claims["client_id"].(string)
		resource, _ := claims["resource"].(string)
		if c == nil || c.Method == "none" || id != c.ID || g.resource != "" && resource != g.resource {
			return nil, "invalid_grant"
		}
		g.client, g.resource = c.ID, resource
	}
	if slices.Contains(g.scopes, "never") {
		return nil, "invalid_scope"
	}
	return g, ""
}

// exchange issues an assertion for an ID token, which is the identity provider's part.
func (s *Server) exchange(w http.ResponseWriter, c *Client, f url.Values) {
	claims, _, ok := s.own(f.Get("subject_token"))
	switch {
	case !ok || !hasAudience(claims, c.ID):
		fail(w, http.StatusBadRequest, "invalid_grant", "")
		return
	case f.Get("subject_token_type") != idToken || f.Get("requested_token_type") != idJAG || f.Get("audience") == "":
		fail(w, http.StatusBadRequest, "invalid_request", "")
		return
	}
	jag, err := s.sign(map[string]any{
		"iss": s.Issuer, "sub": claims["sub"], "aud": f.Get("audience"), "resource": f.Get("resource"), "scope": f.Get("scope"),
		"client_id": c.ID, "exp": time.Now().Add(time.Minute).Unix(), "iat": time.Now().Unix(), "jti": text(),
	}, "oauth-id-jag+jwt")
	if err != nil {
		fail(w, http.StatusInternalServerError, "server_error", err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": jag, "issued_token_type": idJAG, "token_type": "N_A", "expires_in": 60})
}

// IDToken returns an ID token of a user for a client, as a login would return it.
func (s *Server) IDToken(user, client string) (string, error) {
	return s.sign(map[string]any{"iss": s.Issuer, "sub": user, "aud": client, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix()}, "JWT")
}

// Sign returns a token with the given claims, signed with the server's key.
func (s *Server) Sign(claims map[string]any, kind string) (string, error) {
	return s.sign(claims, kind)
}

// give writes tokens for a grant.
func (s *Server) give(w http.ResponseWriter, g *grant, renewable bool) {
	now := time.Now()
	expires := now.Add(s.opts.TTL)
	if s.opts.Expired {
		expires = now.Add(-2 * time.Minute)
	}
	claims := map[string]any{"iss": s.Issuer, "sub": g.subject, "client_id": g.client, "iat": now.Unix(), "exp": expires.Unix(), "jti": text(),
		"scope": strings.Join(g.scopes, " ")}
	if claims["aud"] = s.opts.Otherwise; g.resource != "" {
		claims["aud"] = g.resource
	}
	if s.opts.Audience != "" {
		claims["aud"] = s.opts.Audience
	}
	if s.opts.TokenIssuer != "" {
		claims["iss"] = s.opts.TokenIssuer
	}
	out := map[string]any{"token_type": "Bearer", "expires_in": int(s.opts.TTL / time.Second), "scope": claims["scope"]}
	if g.jkt != "" && !s.opts.Unbound {
		claims["cnf"] = map[string]any{"jkt": g.jkt}
		out["token_type"] = "DPoP"
	}
	if s.opts.Opaque {
		k := text()
		claims["active"] = true
		s.mu.Lock()
		s.opaque[k] = claims
		s.mu.Unlock()
		out["access_token"] = k
	} else {
		kind := s.opts.Type
		if kind == "" {
			kind = "at+jwt"
		}
		signed, err := s.sign(claims, kind)
		if err != nil {
			fail(w, http.StatusInternalServerError, "server_error", err.Error())
			return
		}
		out["access_token"] = signed
	}
	if renewable && (s.opts.Scopes == nil || !slices.Contains(s.opts.Scopes, "offline_access") || slices.Contains(g.scopes, "offline_access")) {
		k := text()
		s.mu.Lock()
		s.refresh[k] = g
		s.mu.Unlock()
		out["refresh_token"] = k
	}
	answer(w, http.StatusOK, out)
}

// authenticate returns the client that sent a request.
func (s *Server) authenticate(r *http.Request) (*Client, string) {
	f := r.PostForm
	id, secret, basic := r.BasicAuth()
	method := "none"
	switch {
	case basic:
		var err1, err2 error
		id, err1 = url.QueryUnescape(id)
		secret, err2 = url.QueryUnescape(secret)
		if err1 != nil || err2 != nil {
			return nil, "bad encoding"
		}
		method = "client_secret_basic"
	case f.Get("client_assertion") != "":
		method, id = "private_key_jwt", f.Get("client_id")
	case f.Get("client_secret") != "":
		method, id, secret = "client_secret_post", f.Get("client_id"), f.Get("client_secret")
	default:
		id = f.Get("client_id")
	}
	c, why := s.client(r.Context(), id)
	switch {
	case why != "":
		return nil, why
	case c.Method != method:
		return nil, "another method than registered"
	case method == "private_key_jwt" && !s.clientAssertion(c, f):
		return nil, "bad assertion"
	case strings.HasPrefix(method, "client_secret") && subtle.ConstantTimeCompare([]byte(c.Secret), []byte(secret)) != 1:
		return nil, "bad secret"
	}
	return c, ""
}

// introspect handles token introspection (RFC 7662) for clients with a secret.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) {
	if c, why := s.authenticate(r); why != "" || c.Method == "none" {
		fail(w, http.StatusUnauthorized, "invalid_client", why)
		return
	}
	s.mu.Lock()
	claims, ok := s.opaque[r.PostForm.Get("token")]
	s.mu.Unlock()
	if !ok {
		claims = map[string]any{"active": false}
	}
	answer(w, http.StatusOK, claims)
}

// revoke handles token revocation (RFC 7009).
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	if _, why := s.authenticate(r); why != "" {
		fail(w, http.StatusUnauthorized, "invalid_client", why)
		return
	}
	s.mu.Lock()
	delete(s.refresh, r.PostForm.Get("token"))
	delete(s.opaque, r.PostForm.Get("token"))
	s.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{})
}

// Login acts as the browser: it requests an authorization URL and returns the query of the
// redirect.
func Login(ctx context.Context, address string) (url.Values, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		return nil, err
	}
	return to.Query(), nil
}
