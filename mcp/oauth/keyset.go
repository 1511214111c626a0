package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/outbound"
)

const (
	keysGood  = 15 * time.Minute // how long fetched keys are used without a new fetch
	keysPause = time.Minute      // between two fetches, whatever tokens claim
	keysStale = 24 * time.Hour   // how long old keys are used while the issuer cannot be reached
	keysTime  = 5 * time.Second  // of one fetch
	maxKeys   = 100
)

// A keySet holds the public keys of one issuer. It is an oidc.KeySet.
type keySet struct {
	issuer string
	url    string // if empty, from the issuer's metadata
	policy *outbound.Policy
	web    *http.Client

	mu      sync.Mutex // guards the fields below
	keys    map[string]jose.JSONWebKey
	fetched time.Time     // last successful fetch
	tried   time.Time     // last attempt
	failed  error         // the error of that attempt
	flight  chan struct{} // closed when the running fetch is done; nil if no fetch is running
}

func newKeySet(issuer, address string, hosts []string) (*keySet, error) {
	policy := &outbound.Policy{}
	for _, text := range []string{issuer, address} {
		if text == "" {
			continue
		}
		u, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		policy.Allow(u)
	}
	for _, h := range hosts {
		policy.Plain = append(policy.Plain, strings.ToLower(h))
	}
	web := policy.Client()
	web.Timeout = keysTime
	return &keySet{issuer: issuer, url: address, policy: policy, web: web}, nil
}

// ErrKeys reports that an issuer's keys cannot be fetched at the moment. The token may be valid.
var ErrKeys = errors.New("oauth: cannot fetch the issuer's keys")

// VerifySignature verifies the signature of a compact JWS with the key that it names, and returns
// its payload.
func (k *keySet) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	sig, err := jose.ParseSignedCompact(token, everyAlgorithm)
	if err != nil || len(sig.Signatures) != 1 {
		return nil, errors.New("not a signed JWT")
	}
	header := sig.Signatures[0].Protected
	key, err := k.key(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	algorithm := jose.SignatureAlgorithm(header.Algorithm)
	if !fits(algorithm, key.Key) || key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return nil, errors.New("the algorithm does not match the key")
	}
	return sig.Verify(key.Key) // rejects unknown critical headers
}

// key returns the key with the given ID and fetches keys if that may help.
func (k *keySet) key(ctx context.Context, id string) (jose.JSONWebKey, error) {
	for again := true; ; again = false {
		now := time.Now()
		k.mu.Lock()
		key, found := k.keys[id]
		age := now.Sub(k.fetched)
		switch {
		case found && age < keysGood:
			k.mu.Unlock()
			return key, nil
		case !again || k.flight == nil && !k.tried.IsZero() && now.Sub(k.tried) < keysPause:
			fresh := age < keysGood
			k.mu.Unlock()
			switch {
			case found && age < keysStale:
				return key, nil
			case fresh:
				return key, fmt.Errorf("%w: of an unknown key", ErrToken)
			}
			return key, k.lost()
		}
		flight := k.flight
		if flight == nil {
			flight = make(chan struct{})
			k.flight, k.tried = flight, now
			k.mu.Unlock()
			// Others wait for it, so it has its own timeout.
			k.fetch(context.WithoutCancel(ctx), flight)
			continue
		}
		k.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return jose.JSONWebKey{}, context.Cause(ctx)
		}
	}
}

// lost returns the error for missing keys.
func (k *keySet) lost() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		return ErrKeys
	}
	return fmt.Errorf("%w: %w", ErrKeys, k.failed)
}

// fetch fetches the keys. On failure the old ones remain.
func (k *keySet) fetch(ctx context.Context, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, keysTime)
	defer cancel()
	keys, err := k.read(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = err; err == nil {
		k.keys, k.fetched = keys, time.Now()
	}
	k.flight = nil
	close(flight)
}

func (k *keySet) read(ctx context.Context) (map[string]jose.JSONWebKey, error) {
	address := k.url
	if address == "" {
		m, err := serverMetadata(ctx, k.web, k.policy, k.issuer)
		if err != nil {
			return nil, err
		}
		if m.JWKSURI == "" {
			return nil, errors.New("the issuer publishes no keys")
		}
		address = m.JWKSURI
	}
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := fetch(ctx, k.web, address, &set); err != nil {
		return nil, err
	}
	return readKeys(set.Keys)
}

// readKeys returns the keys of a set that can verify: public, with an ID, and not for encryption.
// Other keys are ignored, because a set may contain unknown kinds (RFC 7517, section 5).
func readKeys(list []jsontext.Value) (map[string]jose.JSONWebKey, error) {
	if len(list) > maxKeys {
		return nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	keys := make(map[string]jose.JSONWebKey)
	for _, text := range list {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) != nil || !key.IsPublic() || key.KeyID == "" || key.Use != "" && key.Use != "sig" || usual(key.Key) == "" {
			continue
		}
		if _, twice := keys[key.KeyID]; twice {
			return nil, errors.New("two keys with one ID")
		}
		keys[key.KeyID] = key
	}
	if len(keys) == 0 {
		return nil, errors.New("no usable key")
	}
	return keys, nil
}
