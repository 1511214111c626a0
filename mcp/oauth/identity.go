package oauth

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/internal/x/principal"
)

// An Identity describes the token of a request: its owner and what it grants.
type Identity struct {
	Issuer   string
	Subject  string    // the user, or the program itself
	ClientID string    // the program; "" if the token does not contain it
	Scopes   []string  // the granted scopes
	Expires  time.Time // zero if unknown
	// Key is the thumbprint of the key it is bound to (RFC 9449, section 6). It is empty for a
	// bearer token.
	Key    string
	Claims jsontext.Value // all claims of the token or of the introspection response
}

// Principal returns a text that is unique to the caller: issuer, subject and client, each with its
// length.
func (i *Identity) Principal() string {
	if i == nil {
		return ""
	}
	var b []byte
	for _, part := range []string{i.Issuer, i.Subject, i.ClientID} {
		b = strconv.AppendInt(b, int64(len(part)), 10)
		b = append(b, ':')
		b = append(b, part...)
	}
	return string(b)
}

type identityKey struct{}

// IdentityOf returns the identity of the request that ctx belongs to, or nil outside of a [Guard].
func IdentityOf(ctx context.Context) *Identity {
	i, _ := ctx.Value(identityKey{}).(*Identity)
	return i
}

// PrincipalOf returns the [Identity.Principal] of ctx, or "" outside of a [Guard]. Use it for
// mcp.ServerOptions Principal and wherever HTTP sessions are bound to their creator.
func PrincipalOf(ctx context.Context) string { return IdentityOf(ctx).Principal() }

// WithIdentity returns a context with the identity i, for tests of handlers and for other means of
// authentication.
func WithIdentity(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(principal.With(ctx, i.Principal()), identityKey{}, i)
}

// A Verifier verifies tokens. It is safe for concurrent use. An [ErrToken] error means that the
// token is invalid; any other error means that it cannot be verified at the moment.
type Verifier interface {
	Verify(ctx context.Context, token string) (*Identity, error)
}

// VerifierFunc is a function that implements [Verifier].
type VerifierFunc func(ctx context.Context, token string) (*Identity, error)

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, token string) (*Identity, error) {
	return f(ctx, token)
}

// ErrToken reports an invalid token: malformed, from another issuer, for another audience, expired
// or revoked.
var ErrToken = errors.New("oauth: the token is not valid")

// Either accepts a token that one of several verifiers accepts, for a server with several
// authorization servers. The verifiers are tried in order.
func Either(verifiers ...Verifier) Verifier {
	return VerifierFunc(func(ctx context.Context, token string) (*Identity, error) {
		failed := ErrToken
		for _, v := range verifiers {
			i, err := v.Verify(ctx, token)
			if err == nil {
				return i, nil
			}
			if !errors.Is(err, ErrToken) || errors.Is(failed, ErrToken) {
				failed = err
			}
		}
		return nil, failed
	})
}
