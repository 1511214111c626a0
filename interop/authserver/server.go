package authserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
)

// Iss is how the issuer is included in the response of the authorization endpoint (RFC 9207).
type Iss uint8

const (
	IssRight Iss = iota
	IssAbsent
	IssWrong
	IssSlash // correct except for a trailing slash
)

// Options configures a server and its deliberate errors.
type Options struct {
	Path   string   // of the issuer, such as "/tenant"; "" for none
	OpenID bool     // metadata at the OpenID Connect path only
	Scopes []string // scopes_supported
	// token_endpoint_auth_methods_supported; if nil: none, basic, post, private_key_jwt.
	AuthMethods    []string
	Documents      bool // client metadata documents are accepted
	NoRegistration bool // no dynamic registration
	Opaque         bool // access tokens are not JWTs: use introspection
	TTL            time.Duration
	DPoP           bool // bound tokens are available
	Nonce          bool // proofs must include a nonce
	Clients        []Client
	Trusted        []Trusted // issuers of assertions
	Otherwise      string    // audience of tokens for clients that request no resource

	NoPKCE         bool   // metadata has no code challenge methods
	Iss            Iss    // in redirects
	HideIss        bool   // omitted from the metadata
	MetadataIssuer string // replaces the correct issuer in the metadata
	Audience       string // of each token, in place of the requested one
	TokenIssuer    string // of each token
	Expired        bool   // tokens have expired when they are issued
	Unbound        bool   // bearer tokens despite a proof
	Deny           bool   // users deny consent
	Ask            bool   // users are asked, on a page with two buttons
	ForeignKey     bool   // tokens are signed with a key that is not published
	Type           string // typ of tokens instead of at+jwt
}

// A Client is a registered client.
type Client struct {
	ID, Secret string
	Name       string  // display name
	Key        jwk.Key // public; for private_key_jwt
	Method     string  // none, client_secret_basic, client_secret_post, private_key_jwt
	Redirects  []string
	Grants     []string // if nil, all
}

// Trusted is an issuer whose assertions are accepted.
type Trusted struct {
	Issuer string
	Key    jwk.Key // public
}

// A Seen is one received request.
type Seen struct {
	Path   string
	Form   url.Values // query of authorize, body of the other requests
	Header http.Header
}

// A Server is one authorization server. It is safe for concurrent use.
type Server struct {
	Issuer string
	opts   Options
	key    jwk.Key // private
	http   *http.Server
	served chan struct{}

	mu      sync.Mutex // guards the fields below
	clients map[string]*Client
	codes   map[string]*code
	refresh map[string]*grant
	opaque  map[string]map[string]any
	revoked map[string]bool
	jtis    map[string]bool
	nonce   int
	seen    []Seen
}

// A code is an authorization code that a user has consented to.
type code struct {
	grant
	challenge, redirect string
	until               time.Time
	dpop                string // thumbprint of the key that the code is bound to
}

// A grant is what tokens are issued for.
type grant struct {
	client, subject, resource string
	scopes                    []string
	jkt                       string
}

// Start listens on 127.0.0.1 and serves until Close.
func Start(ctx context.Context, o Options) (*Server, error) { return Listen(ctx, "127.0.0.1:0", o) }

// Listen is Start at an address.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Issuer: "http://" + listener.Addr().String() + o.Path, opts: o, served: make(chan struct{}),
		clients: map[string]*Client{}, codes: map[string]*code{}, refresh: map[string]*grant{}, opaque: map[string]map[string]any{},
		revoked: map[string]bool{}, jtis: map[string]bool{},
	}
	if s.key, err = NewKey("as-1"); err != nil {
		return nil, err
	}
	if s.opts.TTL == 0 {
		s.opts.TTL = time.Hour
	}
	if s.opts.AuthMethods == nil {
		s.opts.AuthMethods = []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"}
	}
	for _, c := range o.Clients {
		s.clients[c.ID] = &c
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // Close ends it
	}()
	return s, nil
}

// Close stops serving.
func (s *Server) Close() {
	_ = s.http.Close()
	<-s.served
}

// NewKey returns a private key for ES256 with an ID.
func NewKey(id string) (jwk.Key, error) {
	raw, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := jwk.Import(raw)
	if err != nil {
		return nil, err
	}
	if err := key.Set(jwk.KeyIDKey, id); err != nil {
		return nil, err
	}
	return key, key.Set(jwk.AlgorithmKey, jwa.ES256())
}

// KeysURL is the URL at which the server publishes its keys.
func (s *Server) KeysURL() string { return s.Issuer + "/jwks" }

// IntrospectionURL is the URL at which resource servers inspect tokens.
func (s *Server) IntrospectionURL() string { return s.Issuer + "/introspect" }

// Seen returns the requests for a path below the issuer, in order of arrival.
func (s *Server) Seen(path string) []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Seen
	for _, one := range s.seen {
		if one.Path == path {
			list = append(list, one)
		}
	}
	return list
}

// Rotate replaces the signing key: older tokens become invalid, and verifiers must fetch the new
// key.
func (s *Server) Rotate() error {
	key, err := NewKey(text())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key = key
	return nil
}

// RevokeAll revokes all tokens issued so far, including refresh tokens.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refresh)
	clear(s.opaque)
}

// Forget removes the clients that registered themselves.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case s.isMetadata(path):
		s.metadata(w)
		return
	case !strings.HasPrefix(path, s.opts.Path+"/"):
		http.NotFound(w, r)
		return
	}
	path = strings.TrimPrefix(path, s.opts.Path)
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	if r.Header.Get("Content-Type") != "application/json" && r.ParseForm() != nil {
		fail(w, http.StatusBadRequest, "invalid_request", "no form")
		return
	}
	s.mu.Lock()
	s.seen = append(s.seen, Seen{Path: path, Form: r.Form, Header: r.Header.Clone()})
	s.mu.Unlock()
	switch r.Method + " " + path {
	case "GET /authorize":
		s.authorize(w, r)
	case "POST /token":
		s.token(w, r)
	case "POST /register":
		s.register(w, r)
	case "POST /revoke":
		s.revoke(w, r)
	case "POST /introspect":
		s.introspect(w, r)
	case "GET /jwks":
		s.keys(w)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) isMetadata(path string) bool {
	const openID = "/.well-known/openid-configuration"
	if s.opts.OpenID {
		return path == openID+s.opts.Path && s.opts.Path == "" || path == s.opts.Path+openID
	}
	return path == "/.well-known/oauth-authorization-server"+s.opts.Path
}

func (s *Server) metadata(w http.ResponseWriter) {
	issuer := s.Issuer
	if s.opts.MetadataIssuer != "" {
		issuer = s.opts.MetadataIssuer
	}
	m := map[string]any{
		"issuer":                                issuer,
		"authorization_endpoint":                s.Issuer + "/authorize",
		"token_endpoint":                        s.Issuer + "/token",
		"revocation_endpoint":                   s.Issuer + "/revoke",
		"introspection_endpoint":                s.IntrospectionURL(),
		"jwks_uri":                              s.KeysURL(),
		"response_types_supported":              []string{"code"},
		"grant_types_supported":                 []string{"authorization_code", "refresh_token", "client_credentials", jwtBearer, tokenExchange},
		"token_endpoint_auth_methods_supported": s.opts.AuthMethods,
		"client_id_metadata_document_supported": s.opts.Documents,
	}
	if !s.opts.NoPKCE {
		m["code_challenge_methods_supported"] = []string{"S256"}
	}
	if !s.opts.HideIss {
		m["authorization_response_iss_parameter_supported"] = true
	}
	if !s.opts.NoRegistration {
		m["registration_endpoint"] = s.Issuer + "/register"
	}
	if s.opts.Scopes != nil {
		m["scopes_supported"] = s.opts.Scopes
	}
	if s.opts.DPoP {
		m["dpop_signing_alg_values_supported"] = []string{"ES256", "EdDSA"}
	}
	answer(w, http.StatusOK, m)
}

func (s *Server) keys(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := jwk.NewSet()
	public, err := s.key.PublicKey()
	if err == nil {
		err = set.AddKey(public)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, set)
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Grants    []string `json:"grant_types"`
		Name      string   `json:"client_name"`
	}
	if s.opts.NoRegistration || json.NewDecoder(r.Body).Decode(&in) != nil {
		fail(w, http.StatusBadRequest, "invalid_client_metadata", "")
		return
	}
	if len(in.Redirects) == 0 {
		fail(w, http.StatusBadRequest, "invalid_redirect_uri", "")
		return
	}
	if in.Method == "" {
		in.Method = "client_secret_basic"
	}
	if !slices.Contains(s.opts.AuthMethods, in.Method) {
		fail(w, http.StatusBadRequest, "invalid_client_metadata", "token_endpoint_auth_method")
		return
	}
	c := &Client{ID: "dyn/" + text(), Name: in.Name, Method: in.Method, Redirects: in.Redirects, Grants: in.Grants}
	out := map[string]any{"client_id": c.ID, "redirect_uris": c.Redirects, "token_endpoint_auth_method": c.Method, "client_name": in.Name}
	if strings.HasPrefix(c.Method, "client_secret") {
		c.Secret = text() + "+/ %" // characters that must be encoded
		out["client_secret"], out["client_secret_expires_at"] = c.Secret, 0
	}
	s.mu.Lock()
	s.clients[c.ID] = c
	s.mu.Unlock()
	answer(w, http.StatusCreated, out)
}

// text returns 16 random bytes in base64url.
func text() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has gone
}

func fail(w http.ResponseWriter, status int, code, why string) {
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="token"`)
	}
	m := map[string]any{"error": code}
	if why != "" {
		m["error_description"] = fmt.Sprint(why)
	}
	answer(w, status, m)
}
