package parley

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/netip"
	"time"

	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Principal is an authenticated caller. It must not be changed once it is in a context.
type Principal struct {
	// Name is unique to the caller: two callers never have the same. Sessions, tasks and limits
	// belong to it. It is not empty.
	Name string

	// Issuer is the authorization server that vouches for the caller. It is empty for other means
	// of authentication.
	Issuer string

	// Groups are the groups or roles of the caller, and Scopes are what its token grants.
	Groups, Scopes []string

	// Claims are all claims of the caller's token, as a JSON object. They are nil without such a
	// token.
	Claims jsonrpc.Raw

	// Expires is when the credentials expire. Connections and open streams of the caller are closed
	// then; running calls over HTTP finish. Zero means that they do not expire.
	Expires time.Time
}

type principalKey struct{}

// WithPrincipal returns a context whose caller is p. [Listener.Verify] returns such a context;
// servers of all protocols bind sessions and tasks to p.Name.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(principal.With(ctx, p.Name), principalKey{}, p)
}

// PrincipalOf returns the caller that ctx belongs to, or nil if it is not known. A caller that
// other middleware than a Listener has authenticated has only a Name.
func PrincipalOf(ctx context.Context) *Principal {
	name := principal.Of(ctx)
	if name == "" {
		return nil
	}
	if p, _ := ctx.Value(principalKey{}).(*Principal); p != nil && p.Name == name {
		return p
	}
	return &Principal{Name: name}
}

type remoteKey struct{}

// RemoteAddr returns the IP address of the caller that ctx belongs to, as the connection has it. It
// is the zero address for callers without one, such as those on a Unix socket.
func RemoteAddr(ctx context.Context) netip.Addr {
	if addr, ok := ctx.Value(remoteKey{}).(netip.Addr); ok {
		return addr
	}
	if g := guestOf(ctx); g != nil {
		return g.remote
	}
	return netip.Addr{}
}

// withRemote returns a context for a connection from addr.
func withRemote(ctx context.Context, addr netip.Addr) context.Context {
	if !addr.IsValid() {
		return ctx
	}
	return context.WithValue(ctx, remoteKey{}, addr)
}

// certified returns the caller that a verified client certificate names, or nil. chains are those
// of [crypto/tls.ConnectionState].
func certified(chains [][]*x509.Certificate) *Principal {
	if len(chains) == 0 || len(chains[0]) == 0 {
		return nil
	}
	leaf := chains[0][0]
	name := leaf.Subject.String()
	switch {
	case len(leaf.URIs) > 0:
		name = leaf.URIs[0].String()
	case len(leaf.DNSNames) > 0:
		name = leaf.DNSNames[0]
	case len(leaf.EmailAddresses) > 0:
		name = leaf.EmailAddresses[0]
	case len(leaf.IPAddresses) > 0:
		name = leaf.IPAddresses[0].String()
	}
	if name == "" {
		return nil
	}
	return &Principal{Name: "tls:" + name}
}

// withCertificate adds the caller that the client certificate of a request names, unless a token
// has named one already.
func withCertificate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && principal.Of(r.Context()) == "" {
			if p := certified(r.TLS.VerifiedChains); p != nil {
				r = r.WithContext(WithPrincipal(r.Context(), p))
			}
		}
		next.ServeHTTP(w, r)
	})
}

// withValues returns ctx with the values of another context, which ctx's own values precede. The
// caller of the other context replaces that of ctx.
func withValues(ctx, values context.Context) context.Context {
	joined := context.Context(joinedContext{ctx, context.WithoutCancel(values)})
	if p := PrincipalOf(values); p != nil {
		joined = WithPrincipal(joined, p)
	}
	return joined
}

type joinedContext struct {
	context.Context
	values context.Context
}

func (c joinedContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
