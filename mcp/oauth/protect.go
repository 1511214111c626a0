package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/guard"
)

// ProtectOptions configures [Protect].
type ProtectOptions struct {
	// Resource is the server's public address, as used by clients in front of all proxies: the
	// resource identifier. Required.
	Resource string

	// Servers lists the issuers that clients obtain tokens from. Required.
	Servers []string

	// Verify verifies tokens. Required: [JWT], [Introspection], [Either] of several, or another
	// implementation.
	Verify Verifier

	// Required lists the scopes that every request needs.
	Required []string

	// Needs, if not nil, returns the additional scopes that a request needs. It is called with the
	// method and the name of the tool or prompt or the URI of the resource, or "" if the request
	// has no such name. The guard then reads the body before it passes the request on. Needs must
	// cover all methods that need a scope: a method for which it returns none needs none.
	Needs func(method, name string) []string

	// Supported lists all scopes that clients may request. If nil, it is Required. Never list
	// offline_access: the resource is not concerned with refresh tokens.
	Supported []string

	// Name and Documentation describe the server for people. They may be empty.
	Name, Documentation string

	// DPoP sets whether tokens must be bound to a key. By default bound tokens need a proof, and
	// bearer tokens are accepted. DPoPAlways accepts only bound tokens, DPoPNever accepts no bound
	// tokens.
	DPoP DPoP

	// Nonces requires a nonce of this server in each proof (RFC 9449, section 9), so that proofs
	// cannot be created long before they are used.
	Nonces bool

	// Origins lists the origins of web pages that may call from a browser, such as
	// "https://app.example". They get CORS headers, also for the metadata. The wrapped handler must
	// allow them too.
	Origins []string

	// MaxMessage bounds the body that is read for Needs, in bytes. Zero means 4 MiB.
	MaxMessage int64

	// Report, if not nil, is called with the reason why a token was rejected. The errors contain no
	// token.
	Report func(r *http.Request, err error)
}

// A Guard passes requests with valid tokens to an MCP server's handler, and publishes how to obtain
// tokens.
type Guard struct {
	next     http.Handler
	door     *guard.Door // only for CORS
	opts     ProtectOptions
	resource *url.URL
	paths    []string // of the metadata
	document []byte
	named    string // address of the metadata
	nonces   *issuedNonces
	used     used
	body     guard.Body
}

// Protect wraps an MCP server's handler in an OAuth resource server (MCP 2025-06-18 and later,
// Authorization). A request without a valid token gets a 401 with the address of the metadata (RFC
// 9728). A request whose token lacks scopes gets a 403 with the required scopes (RFC 6750, section
// 3.1). Handlers find the [Identity] in their context; the Authorization header is not passed to
// them.
//
//	g, err := oauth.Protect(handler, &oauth.ProtectOptions{
//		Resource: "https://example.com/mcp",
//		Servers:  []string{"https://login.example.com"},
//		Verify:   &oauth.JWT{Issuer: "https://login.example.com", Audience: "https://example.com/mcp"},
//		Needs: func(method, name string) []string { … },
//	})
//	mux.Handle("/", g)
//
// The Guard serves the metadata itself. If only the server's path is routed to the Guard, route
// [Guard.MetadataPaths] to it as well.
func Protect(next http.Handler, o *ProtectOptions) (*Guard, error) {
	u, err := parseAddress(o.Resource)
	if err != nil {
		return nil, fmt.Errorf("oauth: ProtectOptions.Resource: %w", err)
	}
	if u.Fragment != "" || u.User != nil {
		return nil, errors.New("oauth: ProtectOptions.Resource has a fragment or a password")
	}
	if o.Verify == nil || len(o.Servers) == 0 {
		return nil, errors.New("oauth: ProtectOptions need Servers and Verify")
	}
	door, err := guard.New(&guard.Options{Origins: o.Origins})
	if err != nil {
		return nil, fmt.Errorf("oauth: ProtectOptions.Origins: %w", err)
	}
	g := &Guard{next: next, opts: *o, resource: u, door: door, body: guard.Body{Max: o.MaxMessage}}
	if g.opts.Supported == nil {
		g.opts.Supported = o.Required
	}
	if slices.Contains(g.opts.Supported, ScopeOffline) {
		return nil, errors.New("oauth: ProtectOptions.Supported must not list offline_access, which only the authorization server uses")
	}
	for _, location := range resourceLocations(u) {
		at, err := url.Parse(location)
		if err != nil {
			return nil, errors.New("oauth: ProtectOptions.Resource: no address for its metadata")
		}
		if g.named == "" {
			g.named = location
		}
		g.paths = append(g.paths, at.Path)
	}
	m := ResourceMetadata{
		Resource:             o.Resource,
		AuthorizationServers: o.Servers,
		ScopesSupported:      g.opts.Supported,
		BearerMethods:        []string{"header"},
		ResourceName:         o.Name,
		Documentation:        o.Documentation,
		DPoPRequired:         o.DPoP == DPoPAlways,
	}
	if o.DPoP != DPoPNever {
		m.DPoPAlgorithms = []string{"ES256", "EdDSA", "RS256", "PS256"}
	}
	if g.document, err = json.Marshal(&m, json.Deterministic(true)); err != nil {
		return nil, err
	}
	if o.Nonces {
		g.nonces = newIssuedNonces()
	}
	return g, nil
}

// MetadataPaths returns the paths of the metadata: the well-known path followed by the server's
// path, and the well-known path alone, for clients that use only that.
func (g *Guard) MetadataPaths() []string { return slices.Clone(g.paths) }

// ServeHTTP serves the metadata and guards everything else.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if g.door.CORS(w, r) {
		return
	}
	if slices.Contains(g.paths, r.URL.Path) {
		g.serveMetadata(w, r)
		return
	}
	i, f := g.admit(w, r)
	if f == nil {
		r, f = g.within(w, r, i)
	}
	if f != nil {
		g.refuse(w, r, f)
		return
	}
	if r != nil {
		g.next.ServeHTTP(w, r)
	}
}

func (g *Guard) serveMetadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(g.document) // the client may have disconnected
}

// A fault is the reason why a request is rejected.
type fault struct {
	status int
	code   string // of RFC 6750; "" if there were no credentials
	text   string
	scopes []string
	scheme string // of the challenge
	cause  error  // for the log
}

// scheme returns the scheme of the challenge, depending on which tokens are accepted.
func (g *Guard) scheme(bound bool) string {
	if g.opts.DPoP == DPoPAlways || bound {
		return SchemeDPoP
	}
	return SchemeBearer
}

// admit authenticates the caller.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) (*Identity, *fault) {
	values := r.Header["Authorization"]
	scheme, token, _ := strings.Cut(strings.Join(values, ""), " ")
	bound := strings.EqualFold(scheme, SchemeDPoP)
	f := &fault{status: http.StatusUnauthorized, scheme: g.scheme(bound)}
	switch {
	case len(values) == 0, !bound && !strings.EqualFold(scheme, SchemeBearer):
		f.text = "a token is required"
		f.scopes = g.opts.Required
		return nil, f
	case len(values) > 1:
		f.status, f.code, f.text = http.StatusBadRequest, "invalid_request", "more than one Authorization header"
		return nil, f
	}
	f.code, f.text, f.scopes = "invalid_token", "the token is not valid", g.opts.Required
	token = strings.Trim(token, " ")
	if !isCredential(token) {
		return nil, f
	}
	i, err := g.opts.Verify.Verify(r.Context(), token)
	switch {
	case err != nil && !errors.Is(err, ErrToken):
		return nil, &fault{status: http.StatusServiceUnavailable, text: "tokens cannot be validated at the moment", cause: err}
	case err != nil:
		f.cause = err
		return nil, f
	case i == nil:
		return nil, f
	}
	switch {
	case i.Key == "" && (bound || g.opts.DPoP == DPoPAlways):
		f.text = "the token is not bound to a key"
		return nil, f
	case i.Key != "" && (!bound || g.opts.DPoP == DPoPNever):
		f.scheme, f.text = SchemeDPoP, "the token is bound to a key and needs a proof"
		return nil, f
	case i.Key != "":
		if f := g.checkProof(w, r, token, i); f != nil {
			return nil, f
		}
	}
	return i, nil
}

// checkProof checks the DPoP header (RFC 9449, section 7.1).
func (g *Guard) checkProof(w http.ResponseWriter, r *http.Request, token string, i *Identity) *fault {
	now := time.Now()
	var good func(string) bool
	if g.nonces != nil {
		w.Header().Set(headerNonce, g.nonces.current(now))
		good = func(nonce string) bool { return g.nonces.good(nonce, now) }
	}
	f := &fault{status: http.StatusUnauthorized, code: "invalid_dpop_proof", text: "the DPoP proof is not valid", scheme: SchemeDPoP}
	proofs := r.Header[http.CanonicalHeaderKey(headerDPoP)]
	if len(proofs) != 1 {
		f.text = "exactly one DPoP proof is required"
		return f
	}
	target := url.URL{Scheme: g.resource.Scheme, Host: g.resource.Host, Path: r.URL.Path, RawPath: r.URL.RawPath}
	id, err := checkProof(proofs[0], r.Method, target.String(), token, i.Key, good, now)
	if err == nil {
		err = g.used.take(i.Key, id, now)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNonce):
		f.code, f.text = errorUseNonce, "the DPoP proof needs the nonce of this server"
	case errors.Is(err, errFull):
		return &fault{status: http.StatusServiceUnavailable, text: "too many requests at once", cause: err}
	}
	f.cause = err
	return f
}

// within checks the request against the scopes of the token. It returns the request for the
// handler, or nil if a response was already sent.
func (g *Guard) within(w http.ResponseWriter, r *http.Request, i *Identity) (*http.Request, *fault) {
	ctx := WithIdentity(r.Context(), i)
	if !i.Expires.IsZero() && isOpen(r) {
		// A listening request ends when its token expires.
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, i.Expires.Add(skew), fmt.Errorf("%w: expired", ErrToken))
		context.AfterFunc(r.Context(), cancel)
	}
	out := r.WithContext(ctx)
	out.Header = r.Header.Clone()
	out.Header.Del("Authorization")
	out.Header.Del(headerDPoP)
	needed := g.opts.Required
	if g.opts.Needs != nil && r.Method == http.MethodPost {
		text, refusal := g.body.Read(w, r, nil)
		if refusal != nil {
			refusal.Write(w, r)
			return nil, nil
		}
		calls, err := peek(text)
		if err != nil {
			g.refuseText(w, err)
			return nil, nil
		}
		for _, c := range calls {
			needed = addScopes(needed, g.opts.Needs(c.method, c.name)...)
		}
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
	if !hasScopes(i.Scopes, needed) {
		return r, &fault{status: http.StatusForbidden, code: "insufficient_scope", text: "the token lacks a required scope", scopes: needed,
			scheme: g.scheme(i.Key != "")}
	}
	return out, nil
}

// isOpen reports whether a request listens for messages, in either era.
func isOpen(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// refuse writes the error response with the challenge.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, f *fault) {
	if g.opts.Report != nil && (f.cause != nil || f.code != "") && f.code != errorUseNonce {
		err := f.cause
		if err == nil {
			err = errors.New("oauth: " + f.text)
		}
		g.opts.Report(r, err)
	}
	answer := &guard.Refusal{Status: f.status, Text: f.text}
	switch f.status {
	case http.StatusServiceUnavailable:
		answer.Name, answer.Value = "Retry-After", "5"
	default:
		c := Challenge{Scheme: f.scheme, Params: map[string]string{"resource_metadata": g.named}}
		if f.code != "" {
			c.Params["error"], c.Params["error_description"] = f.code, f.text
		}
		if len(f.scopes) > 0 {
			c.Params["scope"] = joinScopes(f.scopes)
		}
		if f.scheme == SchemeDPoP {
			c.Params["algs"] = "ES256 EdDSA RS256 PS256"
		}
		answer.Name, answer.Value = "WWW-Authenticate", c.String()
	}
	answer.Write(w, r)
}

// refuseText writes the same error as MCP servers for a body that is not JSON.
func (g *Guard) refuseText(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	body := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	if !errors.Is(err, errSyntax) {
		body = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`
	}
	_, _ = io.WriteString(w, body) // the client may have disconnected
}

// A call is the method and name of a message.
type call struct{ method, name string }

// halves accepts unpaired surrogates, which some programs send when they cut texts; they match no
// name.
var halves = jsontext.AllowInvalidUTF8(true)

var errSyntax = errors.New("oauth: not JSON")

// peek parses the methods and names of a body that holds one message or a batch. It is at least as
// strict as the parser that reads the body afterwards, so that both get the same result: no
// duplicates, exact names.
func peek(text []byte) ([]call, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	value := jsontext.Value(text)
	if !value.IsValid(halves) {
		return nil, errSyntax
	}
	list := []jsontext.Value{value}
	if value.Kind() == '[' {
		if err := json.Unmarshal(value, &list, halves); err != nil {
			return nil, err
		}
	}
	var calls []call
	for _, one := range list {
		var m struct {
			Method jsontext.Value `json:"method"`
			Params jsontext.Value `json:"params"`
		}
		if one.Kind() != '{' {
			continue // not a message: it will be rejected and needs no scope
		}
		if err := json.Unmarshal(one, &m, halves); err != nil {
			return nil, err
		}
		c := call{method: unquote(m.Method)}
		if m.Params.Kind() == '{' {
			var p struct {
				Name jsontext.Value `json:"name"`
				URI  jsontext.Value `json:"uri"`
			}
			if err := json.Unmarshal(m.Params, &p, halves); err != nil {
				return nil, err
			}
			c.name = unquote(p.Name)
			if c.method == "resources/read" || c.method == "resources/subscribe" || c.method == "resources/unsubscribe" {
				c.name = unquote(p.URI)
			}
		}
		if m.Method.Kind() == '"' {
			calls = append(calls, c)
		}
	}
	return calls, nil
}

// unquote returns the value of a JSON string, or "" for any other value.
func unquote(text jsontext.Value) string {
	if text.Kind() != '"' {
		return ""
	}
	out, _ := jsontext.AppendUnquote(nil, text) // already validated
	return string(out)
}
