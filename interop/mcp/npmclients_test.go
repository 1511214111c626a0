package mcp_test

import (
	"os"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestNPMClients calls our server with the clients of both TypeScript SDKs, over all their
// transports and versions.
func TestNPMClients(t *testing.T) {
	t.Parallel()
	for _, script := range [][]string{
		{"node/client-v1.mjs"}, {"node/client-v2.mjs", "auto"}, {"node/client-v2.mjs", "legacy"}, {"node/client-v2.mjs", "2026-07-28"},
	} {
		for _, mode := range []string{"http", "sse", "stdio"} {
			if mode == "sse" && script[len(script)-1] == "2026-07-28" {
				continue // the SDK supports that version only on the other two
			}
			t.Run(strings.Join(append(script[:len(script):len(script)], mode), " "), func(t *testing.T) {
				t.Parallel()
				target := os.Args[0]
				if mode != "stdio" {
					target = ourEndpoint(t) + map[string]string{"http": "/mcp", "sse": "/sse"}[mode]
				}
				harness.Checks(t, node(t, script[0], append(script[1:len(script):len(script)], mode, target)...))
			})
		}
	}
}
