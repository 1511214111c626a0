package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

const (
	maxVerified  = 10_000           // tokens of authorization servers that are remembered
	verifiedTime = time.Minute      // how long a token is not verified again
	maxGroups    = 1_000            // of one principal; further ones are ignored
	maxGroup     = 256              // bytes of a group; longer ones are ignored
	expirySkew   = 30 * time.Second // as package oauth tolerates
)

// An identity verifies callers by the configuration: tokens of a file, access tokens of
// authorization servers, or both. It never changes. Use it so:
//
//	id, err := newIdentity(gw.Identity, gw.PublicURL, report)
//	listener.Verify = func(ctx context.Context, token string) (context.Context, error) {
//		return current().identity.verify(ctx, token) // that of the present configuration
//	}
//	listener.Challenge = id.challenge()
//	if id.isMetadata(r.URL.Path) { id.ServeHTTP(w, r) } // in listener.Pages: without a token
//
// Handlers get the caller with callerOf(ctx), and pass it to current, since a connection may be
// older than the configuration. If nil, all callers are "local".
type identity struct {
	config  *config.Identity
	tokens  []staticToken
	byToken map[[sha256.Size]byte]int // indexes of tokens by digest
	issuers map[string]oauth.Verifier // by their name, byte by byte
	names   []string                  // of the issuers, in the order of the file
	scopes  []string                  // required
	groups  []*expr.Expr
	public  string // without a slash at the end; may be empty
	target  string // the audience
	keep    bool   // tokens remain in memory, for upstreams that get them
	report  func(what string, err error)

	mu       sync.Mutex // guards verified
	verified map[[sha256.Size]byte]verifiedToken
}

// A staticToken is a token of the file of tokens.
type staticToken struct {
	digest [sha256.Size]byte
	caller *caller
}

// A verifiedToken is a token of an authorization server that was valid a short time ago.
type verifiedToken struct {
	caller *caller
	until  time.Time
}

// newIdentity returns the identity for a configuration: old if nothing differs. keep is set if an
// upstream gets the tokens of callers, in any form.
func newIdentity(c *config.Identity, public string, keep bool, old *identity, report func(what string, err error)) (*identity, error) {
	if c == nil {
		return nil, nil
	}
	public = strings.TrimSuffix(public, "/")
	if old != nil && old.public == public && old.keep == keep && reflect.DeepEqual(old.config, c) {
		return old, nil
	}
	id := &identity{config: c, public: public, keep: keep, report: report, byToken: make(map[[sha256.Size]byte]int), verified: make(map[[sha256.Size]byte]verifiedToken)}
	for _, t := range c.Tokens {
		known := newCaller(&parley.Principal{Name: tokenPrefix + t.Name, Groups: t.Groups})
		known.digest = t.SHA256
		id.byToken[t.SHA256] = len(id.tokens)
		id.tokens = append(id.tokens, staticToken{t.SHA256, known})
	}
	if c.OAuth == nil {
		return id, nil
	}
	id.issuers, id.names = make(map[string]oauth.Verifier), c.OAuth.Issuers
	id.scopes, id.target = c.OAuth.Scopes, c.OAuth.Audience
	for _, issuer := range c.OAuth.Issuers {
		id.issuers[issuer] = &oauth.JWT{Issuer: issuer, Audience: c.OAuth.Audience}
	}
	for _, text := range c.OAuth.Groups {
		e, err := expr.ParseStrict(text)
		if err == nil {
			err = e.Check(expr.ClaimNames)
		}
		if err != nil {
			return nil, fmt.Errorf("gateway: identity.oauth.groups: %w", err)
		}
		id.groups = append(id.groups, e)
	}
	return id, nil
}

// verify implements [parley.Listener.Verify].
func (id *identity) verify(ctx context.Context, token string) (context.Context, error) {
	if id == nil {
		return nil, errNoIdentity
	}
	digest := sha256.Sum256([]byte(token))
	c := id.staticCaller(digest)
	if c == nil {
		var err error
		if c, err = id.tokenCaller(ctx, token, digest); err != nil {
			return nil, err
		}
	}
	if id.keep && c.token.value() == "" {
		withToken := *c
		withToken.token = newBearer(token)
		c = &withToken
	}
	return withCaller(ctx, c), nil
}

// current returns a caller as the present configuration has it, or nil if its token is not valid
// any more.
func (id *identity) current(c *caller) *caller {
	switch {
	case id == nil || c == local:
		return c
	case c.digest != [sha256.Size]byte{}:
		now := id.staticCaller(c.digest)
		if now == nil || c.token.value() == "" {
			return now
		}
		withToken := *now
		withToken.token = c.token
		return &withToken
	case c.Issuer != "" && id.issuers[c.Issuer] == nil:
		return nil
	}
	return c
}

var (
	errNoIdentity = errors.New("gateway: the configuration has no identity any more")
	errOverage    = fmt.Errorf("%w: it does not contain the groups of its user, who has too many (claim _claim_names)", oauth.ErrToken)
	errBound      = fmt.Errorf("%w: it is bound to a key", oauth.ErrToken)
)

// staticCaller returns the caller with a token of the file, or nil. A file may have 10,000 tokens,
// so that their digests are looked up. The time of a lookup shows nothing of them: a client cannot
// choose the digest of what it sends. The comparison with the one that is found takes constant
// time.
func (id *identity) staticCaller(digest [sha256.Size]byte) *caller {
	i, found := id.byToken[digest]
	if !found || subtle.ConstantTimeCompare(digest[:], id.tokens[i].digest[:]) != 1 {
		return nil
	}
	return id.tokens[i].caller
}

// tokenCaller verifies an access token. A token is verified once a minute.
func (id *identity) tokenCaller(ctx context.Context, token string, digest [sha256.Size]byte) (*caller, error) {
	if len(id.issuers) == 0 {
		return nil, oauth.ErrToken
	}
	now := time.Now()
	id.mu.Lock()
	known, ok := id.verified[digest]
	id.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.caller, nil
	}
	c, err := id.verifyToken(ctx, token)
	if err != nil {
		return nil, err
	}
	if id.keep {
		c.token = newBearer(token)
	}
	until := now.Add(verifiedTime)
	if e := c.Expires; !e.IsZero() && e.Before(until) {
		until = e
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if len(id.verified) >= maxVerified {
		clear(id.verified) // this costs only new verifications
	}
	id.verified[digest] = verifiedToken{c, until}
	return c, nil
}

// verifyToken verifies a token with the keys of the issuer that it names. Other issuers are not
// asked for keys.
func (id *identity) verifyToken(ctx context.Context, token string) (*caller, error) {
	v := id.issuers[issuerOf(token)]
	if v == nil {
		return nil, fmt.Errorf("%w: of an unknown issuer", oauth.ErrToken)
	}
	i, err := v.Verify(ctx, token)
	switch {
	case err != nil && errors.Is(err, oauth.ErrToken):
		return nil, err
	case err != nil:
		id.report(ReportIdentity, err)
		return nil, parley.ErrNotVerified
	case i.Key != "": // without a proof, anybody could have copied it
		return nil, errBound
	}
	groups, err := id.groupsOf(jsonrpc.Raw(i.Claims))
	if err != nil {
		id.report(ReportIdentity, err)
		return nil, err
	}
	for _, scope := range id.scopes {
		if !slices.Contains(i.Scopes, scope) {
			return nil, &parley.ScopeError{Scopes: id.scopes}
		}
	}
	p := &parley.Principal{Name: principalName(i), Issuer: i.Issuer, Groups: groups, Scopes: i.Scopes, Claims: jsonrpc.Raw(i.Claims)}
	if !i.Expires.IsZero() {
		p.Expires = i.Expires.Add(expirySkew)
	}
	return newCaller(p), nil
}

// issuerOf returns the issuer that a JWT names, without verifying anything, or "".
func issuerOf(token string) string {
	const longest = 8 << 10 // as package oauth
	parts := strings.Split(token, ".")
	if len(token) > longest || len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return ""
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.Issuer
}

// principalName returns issuer|subject|client. A sign of the format in one of the parts is escaped,
// so that no two callers have one name.
func principalName(i *oauth.Identity) string {
	return escapeName.Replace(i.Issuer) + "|" + escapeName.Replace(i.Subject) + "|" + escapeName.Replace(i.ClientID)
}

var escapeName = strings.NewReplacer("%", "%25", "|", "%7C")

// claimScope has the claims of a token for expressions.
type claimScope struct{ claims jsonrpc.Raw }

// Lookup implements [expr.Scope].
func (s claimScope) Lookup(name string) (jsonrpc.Raw, bool) { return s.claims, name == "claims" }

// groupsOf evaluates the expressions of groups. A result is a list of texts or one text; other
// values are ignored. Microsoft Entra leaves out the groups of users who have many: such a token is
// not valid here, since rules that deny a group would not apply.
func (id *identity) groupsOf(claims jsonrpc.Raw) ([]string, error) {
	var groups []string
	missing := false
	for _, e := range id.groups {
		value, err := e.Eval(claimScope{claims})
		if err != nil {
			continue // a claim of another form
		}
		if expr.Kind(value) == 'n' {
			missing = true
		}
		groups = appendGroup(groups, value)
		for element := range value.Elements() {
			groups = appendGroup(groups, element)
		}
	}
	if missing && expr.Kind(expr.MemberOf(expr.MemberOf(claims, "_claim_names"), "groups")) != 'n' {
		return nil, errOverage
	}
	return groups, nil
}

func appendGroup(groups []string, value jsonrpc.Raw) []string {
	group, ok := expr.StringOf(value)
	if !ok || group == "" || len(group) > maxGroup || len(groups) >= maxGroups || slices.Contains(groups, group) {
		return groups
	}
	return append(groups, group)
}

// metadataPath is the well-known path of the metadata of protected resources (RFC 9728, section 3).
const metadataPath = "/.well-known/oauth-protected-resource"

// challenge returns the value of WWW-Authenticate.
func (id *identity) challenge() string {
	if id == nil || len(id.issuers) == 0 || id.public == "" {
		return ""
	}
	value := `Bearer resource_metadata="` + id.public + metadataPath + resourcePath(id.resource(nil)) + `"`
	if len(id.scopes) > 0 {
		value += `, scope="` + strings.Join(id.scopes, " ") + `"`
	}
	return value
}

// resource returns the identifier of the gateway as a resource: the audience if it is an address,
// or else the address of the MCP endpoint as the configuration or the request names it.
func (id *identity) resource(r *http.Request) string {
	if u, err := url.Parse(id.target); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		return id.target
	}
	if id.public != "" || r == nil {
		return id.public + "/mcp"
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/mcp"
}

// resourcePath returns the path of a resource, for the address of its metadata.
func resourcePath(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(u.EscapedPath(), "/")
}

// isMetadata reports whether a path is that of the metadata. A path after the well-known one is
// that of a resource: all of the gateway have the same metadata.
func (id *identity) isMetadata(path string) bool {
	return id != nil && len(id.issuers) > 0 && (path == metadataPath || strings.HasPrefix(path, metadataPath+"/"))
}

// ServeHTTP serves the metadata, which anybody may read.
func (id *identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		guard.MethodOnly("GET, HEAD").Write(w, r)
		return
	}
	text, err := json.Marshal(&oauth.ResourceMetadata{
		Resource:             id.resource(r),
		AuthorizationServers: id.names,
		ScopesSupported:      id.scopes,
		BearerMethods:        []string{"header"},
	}, json.Deterministic(true))
	if err != nil {
		http.Error(w, "no metadata", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store") // it may name the host of this request
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(bytes.TrimSpace(text)) // the client may be gone
}
