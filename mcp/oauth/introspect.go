package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

// Introspection verifies opaque tokens by querying the authorization server (RFC 7662). Set the
// fields before the first use.
type Introspection struct {
	// Endpoint is the introspection endpoint. Required.
	Endpoint string

	// Issuer is the authorization server, as used in principals. Required.
	Issuer string

	// Audience is the required audience of tokens: the resource identifier of the MCP server.
	// Required.
	Audience string

	// Client is this server's registration there: a secret or a key.
	Client Registration

	// Keep is how long an "active" response is cached, at most until the token expires. Zero
	// disables the cache, so that a revoked token is rejected at once. At most 10,000 responses are
	// cached.
	Keep time.Duration

	once     sync.Once
	startErr error
	web      *http.Client

	mu    sync.Mutex // guards the fields below
	known map[string]kenned
}

type kenned struct {
	identity *Identity
	until    time.Time
}

const maxKenned = 10_000

// Verify queries the authorization server.
func (v *Introspection) Verify(ctx context.Context, token string) (*Identity, error) {
	v.once.Do(func() {
		u, err := parseAddress(v.Endpoint)
		if err != nil || v.Issuer == "" || v.Audience == "" {
			v.startErr = errors.New("oauth: Introspection needs Endpoint, Issuer and Audience")
			return
		}
		policy := new(outbound.Policy)
		policy.Allow(u)
		v.web = policy.Client()
	})
	if v.startErr != nil {
		return nil, v.startErr
	}
	if !isCredential(token) || len(token) > maxJWT {
		return nil, fmt.Errorf("%w: not a token", ErrToken)
	}
	hash := digest(token)
	now := time.Now()
	v.mu.Lock()
	k, ok := v.known[hash]
	v.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.identity, nil
	}
	i, err := v.ask(ctx, token)
	if err != nil || v.Keep <= 0 {
		return i, err
	}
	until := now.Add(v.Keep)
	if !i.Expires.IsZero() && i.Expires.Before(until) {
		until = i.Expires
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known == nil || len(v.known) >= maxKenned {
		v.known = make(map[string]kenned) // dropping the cache costs only new queries
	}
	v.known[hash] = kenned{i, until}
	return i, nil
}

func (v *Introspection) ask(ctx context.Context, token string) (*Identity, error) {
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	auth := v.Client.auth(&ServerMetadata{Issuer: v.Issuer})
	if v.Client.ClientID == "" {
		auth.method = authAbsent
	}
	if err := auth.apply(form, header); err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, v.Endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("oauth: introspection: bad endpoint")
	}
	r.Header = header
	resp, err := outbound.Do(v.web, r)
	if err != nil {
		return nil, fmt.Errorf("oauth: introspection: %w", err)
	}
	if resp.Status != http.StatusOK {
		return nil, fmt.Errorf("oauth: introspection: status %d", resp.Status)
	}
	var said struct {
		Active bool `json:"active"`
	}
	if err := decode(resp.Body, &said); err != nil {
		return nil, fmt.Errorf("oauth: introspection: %w", err)
	}
	if !said.Active {
		return nil, fmt.Errorf("%w: not active", ErrToken)
	}
	return identify(resp.Body, v.Issuer, v.Audience, false)
}
