package oauth

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// An Identity is whose token came with a request, and what it is good for.
type Identity struct {
	Issuer   string
	Subject  string         // the user, or the program itself
	ClientID string         // the program; "" when the token does not say
	Scopes   []string       // what was granted
	Expires  time.Time      // zero: not known
	Key      string         // thumbprint of the key that it is bound to (RFC 9449, section 6); "" for a bearer token
	Claims   jsontext.Value // all that the token, or the answer about it, says
}

// Principal returns a text that differs for different callers: issuer, subject and client, each with its length.
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

// IdentityOf returns whose request ctx belongs to; nil outside of a [Guard].
func IdentityOf(ctx context.Context) *Identity {
	i, _ := ctx.Value(identityKey{}).(*Identity)
	return i
}

// PrincipalOf returns the [Identity.Principal] of ctx, "" outside of a [Guard]. It fits into mcp.ServerOptions Principal, and where HTTP
// sessions are bound to who opened them.
func PrincipalOf(ctx context.Context) string { return IdentityOf(ctx).Principal() }

// WithIdentity returns a context that belongs to i: for tests of handlers, and for other ways to find out who asks.
func WithIdentity(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// A Verifier finds out whose a token is. It is safe for concurrent use. Errors that are [ErrToken] mean that the token is no good; all
// others, that nobody can say at the moment.
type Verifier interface {
	Verify(ctx context.Context, token string) (*Identity, error)
}

// VerifierFunc is a function as a [Verifier].
type VerifierFunc func(ctx context.Context, token string) (*Identity, error)

// Verify calls f.
func (f VerifierFunc) Verify(ctx context.Context, token string) (*Identity, error) {
	return f(ctx, token)
}

// ErrToken is a token that is not taken: malformed, of somebody else, for somebody else, too old, withdrawn.
var ErrToken = errors.New("oauth: the token is not valid")

// Either takes a token that one of several verifiers takes: for a server with several authorization servers. They are asked in order.
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
