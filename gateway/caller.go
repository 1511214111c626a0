package gateway

import (
	"context"
	"crypto/sha256"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// localName is the principal of callers without an identity, who are on this machine.
const localName = "local"

// A caller is a principal as policies, limits and the audit log need it.
type caller struct {
	parley.Principal
	json jsonrpc.Raw // the value of principal in expressions

	// digest is that of a token of the file of tokens; zero for others.
	digest [sha256.Size]byte

	// token is what the caller has shown. It is only for the credentials of upstreams that are
	// configured to get it, and empty if there are no such upstreams.
	token bearer
}

// A bearer is a token that is not printed by accident: of a pointer in a struct, package fmt prints
// the address.
type bearer struct{ text *string }

func newBearer(token string) bearer { return bearer{&token} }

// value returns the token, or "" without one.
func (b bearer) value() string {
	if b.text == nil {
		return ""
	}
	return *b.text
}

var local = newCaller(&parley.Principal{Name: localName})

func newCaller(p *parley.Principal) *caller {
	c := &caller{Principal: *p}
	b := jsonrpc.AppendString([]byte(`{"name":`), p.Name)
	b = appendStrings(append(b, `,"groups":`...), p.Groups)
	b = appendStrings(append(b, `,"scopes":`...), p.Scopes)
	if p.Claims != nil {
		b = append(append(b, `,"claims":`...), p.Claims...)
	}
	c.json = append(b, '}')
	return c
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonrpc.AppendString(b, s)
	}
	return append(b, ']')
}

type callerKey struct{}

// withCaller returns a context of c's.
func withCaller(ctx context.Context, c *caller) context.Context {
	return context.WithValue(parley.WithPrincipal(ctx, &c.Principal), callerKey{}, c)
}

// callerOf returns the caller of a request. It is never nil: without an identity it is local.
func callerOf(ctx context.Context) *caller {
	p := parley.PrincipalOf(ctx)
	if p == nil {
		return local
	}
	if c, _ := ctx.Value(callerKey{}).(*caller); c != nil && c.Name == p.Name {
		return c
	}
	return newCaller(p) // of a client certificate
}
