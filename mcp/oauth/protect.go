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

// ProtectOptions say how [Protect] guards an MCP server.
type ProtectOptions struct {
	// Resource is the server's address as clients know it, behind all proxies: the resource identifier. Required.
	Resource string

	// Servers are the issuers of tokens, as clients are to ask them. Required.
	Servers []string

	// Verify finds out whose a token is. Required: [JWT], [Introspection], [Either] of several, or your own.
	Verify Verifier

	// Required are scopes that each request needs.
	Required []string

	// Needs, if not nil, names scopes that a request needs besides: for a method and, with it, the name of the tool or prompt or the URI of the
	// resource, "" when there is none. The body is then read before it is let through. It must know all methods that matter:
	// what it names no scope for needs none.
	Needs func(method, name string) []string

	// Supported are all scopes that clients may want. Nil: Required. Never list offline_access: refreshing is not the resource's business.
	Supported []string

	// Name and Documentation of the server, for people. They may be empty.
	Name, Documentation string

	// DPoP: by default a token that is bound to a key needs a proof, and one that is not needs none. DPoPAlways takes bound tokens only,
	// DPoPNever none of them.
	DPoP DPoP

	// Nonces makes proofs carry a nonce of this server (RFC 9449, section 9): then they cannot be made long before they are used.
	Nonces bool

	// MaxMessage bounds the body that is read for Needs, in bytes. Zero means 4 MiB.
	MaxMessage int64

	// Report, if not nil, hears why tokens were refused. The texts hold no token.
	Report func(r *http.Request, err error)
}

// A Guard lets requests with good tokens through to an MCP server's handler, and publishes how to get one.
type Guard struct {
	next     http.Handler
	opts     ProtectOptions
	resource *url.URL
	paths    []string // of the metadata
	document []byte
	named    string // address of the metadata
	nonces   *issuedNonces
	used     used
	body     guard.Body
}

// Protect makes the resource server of OAuth around an MCP server (MCP 2025-06-18 and later, Authorization): what comes without a good
// token gets 401 and is told where the metadata is (RFC 9728), what has too narrow a token gets 403 and the scopes that it takes
// (RFC 6750, section 3.1). Handlers find the [Identity] in their context; the Authorization header does not reach them.
//
//	g, err := oauth.Protect(handler, &oauth.ProtectOptions{
//		Resource: "https://example.com/mcp",
//		Servers:  []string{"https://login.example.com"},
//		Verify:   &oauth.JWT{Issuer: "https://login.example.com", Audience: "https://example.com/mcp"},
//		Needs: func(method, name string) []string { … },
//	})
//	mux.Handle("/", g)
//
// The Guard answers for the metadata itself; where only the path of the server leads to it, [Guard.MetadataPaths] are to lead to it too.
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
	g := &Guard{next: next, opts: *o, resource: u, body: guard.Body{Max: o.MaxMessage}}
	if g.opts.Supported == nil {
		g.opts.Supported = o.Required
	}
	if slices.Contains(g.opts.Supported, ScopeOffline) {
		return nil, errors.New("oauth: ProtectOptions.Supported lists offline_access, which is the authorization server's business")
	}
	for _, location := range resourceLocations(u) {
		at, err := url.Parse(location)
		if err != nil {
			return nil, errors.New("oauth: ProtectOptions.Resource: no place for its metadata")
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

// MetadataPaths are the paths that the Guard publishes its metadata under: with the server's path behind the well-known one, and the
// well-known one alone, for clients that only look there.
func (g *Guard) MetadataPaths() []string { return slices.Clone(g.paths) }

// ServeHTTP answers for the metadata, and guards everything else.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	_, _ = w.Write(g.document) // the client may be gone
}

// A fault is why a request is turned away.
type fault struct {
	status int
	code   string // of RFC 6750; "" when there were no credentials
	text   string
	scopes []string
	scheme string // of the challenge
	cause  error  // for the log
}

// schemes of the challenges, by what the server takes.
func (g *Guard) scheme(bound bool) string {
	if g.opts.DPoP == DPoPAlways || bound {
		return SchemeDPoP
	}
	return SchemeBearer
}

// admit finds out who asks.
func (g *Guard) admit(w http.ResponseWriter, r *http.Request) (*Identity, *fault) {
	values := r.Header["Authorization"]
	scheme, token, _ := strings.Cut(strings.Join(values, ""), " ")
	bound := strings.EqualFold(scheme, SchemeDPoP)
	f := &fault{status: http.StatusUnauthorized, scheme: g.scheme(bound)}
	switch {
	case len(values) == 0, !bound && !strings.EqualFold(scheme, SchemeBearer):
		f.text = "a token is needed"
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
		return nil, &fault{status: http.StatusServiceUnavailable, text: "tokens cannot be checked at the moment", cause: err}
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

// checkProof looks at the DPoP header (RFC 9449, section 7.1).
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
		f.text = "one DPoP proof is needed"
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

// within holds the request against the scopes of the token, and returns it as its handler sees it; nil when it was answered already.
func (g *Guard) within(w http.ResponseWriter, r *http.Request, i *Identity) (*http.Request, *fault) {
	ctx := WithIdentity(r.Context(), i)
	if !i.Expires.IsZero() && isOpen(r) {
		// What listens does not listen for longer than it may.
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
		return r, &fault{status: http.StatusForbidden, code: "insufficient_scope", text: "the token does not reach far enough", scopes: needed,
			scheme: g.scheme(i.Key != "")}
	}
	return out, nil
}

// isOpen reports whether a request is one to listen by, in either era.
func isOpen(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// refuse writes the answer, with the challenge.
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

// refuseText answers a body that is not JSON as MCP servers do.
func (g *Guard) refuseText(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	body := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`
	if !errors.Is(err, errSyntax) {
		body = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`
	}
	_, _ = io.WriteString(w, body) // the client may be gone
}

// A call is what a message asks for.
type call struct{ method, name string }

// halves lets the halves of characters pass that some programs cut texts into; they match no name.
var halves = jsontext.AllowInvalidUTF8(true)

var errSyntax = errors.New("oauth: not JSON")

// peek reads methods and names out of a body: of one message or of a batch. It is at least as strict as what reads the body afterwards, so
// that both see the same: nothing twice, exact names.
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
			continue // no message: it will be refused, and asks for nothing
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

// unquote returns what a JSON string means, "" for anything else.
func unquote(text jsontext.Value) string {
	if text.Kind() != '"' {
		return ""
	}
	out, _ := jsontext.AppendUnquote(nil, text) // valid already
	return string(out)
}
