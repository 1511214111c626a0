package mcp_test

import (
	"testing"

	"github.com/da1ed7bb/parley/interop/authserver"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/mcp/oauth"
)

// TestAuthNPMClients checks that the clients of both TypeScript SDKs pass our guard, the newer one
// with bound tokens and nonces too.
func TestAuthNPMClients(t *testing.T) {
	t.Parallel()
	for kind, bound := range map[string]bool{"v1": false, "v2": false, "v2-dpop": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRealm(t, authserver.Options{DPoP: bound, Nonce: bound}, func(_ *realm, o *oauth.ProtectOptions) {
				if o.Nonces = bound; bound {
					o.DPoP = oauth.DPoPAlways
				}
			})
			harness.Checks(t, node(t, "node/auth.mjs", kind, r.resource))
		})
	}
}

// TestAuthNPMServer checks that our client can use a service on the TypeScript SDK with its own
// authorization server, which another project wrote.
func TestAuthNPMServer(t *testing.T) {
	t.Parallel()
	r := &realm{resource: harness.Server(t, node(t, "node/auth-server.mjs"))["http"]}
	c, err := r.connect(t, new(oauth.Client))
	if err != nil {
		t.Fatal(err)
	}
	if got := say(t, c, "whoami"); got != "mcp:tools for "+r.resource {
		t.Errorf("whoami = %q", got)
	}
}
