package mcp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestConformanceClient runs the official suite against our client: all scenarios of both
// requirement sets, scored or not. The suite passes the protocol version to the client; in a second
// run the client ignores it, and detects the version.
func TestConformanceClient(t *testing.T) {
	t.Parallel()
	program := harness.Program(t, "./interop/everything-client")
	for revision, want := range map[string][2]int{"2025-11-25": {18, 7}, "2026-07-28": {32, 7}} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			scored, unscored := required(t, revision, "client")
			if len(scored) != want[0] || len(unscored) != want[1] {
				t.Errorf("the set has %d scored and %d unscored scenarios, not %v", len(scored), len(unscored), want)
			}
			for name, command := range map[string]string{"told": program, "found out": "env -u MCP_CONFORMANCE_PROTOCOL_VERSION " + program} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					judge(t, runSuite(t, "client", "--command", command, "--requirements", revision), slices.Concat(scored, unscored))
				})
			}
		})
	}
}

// TestConformanceClientOlder runs the remaining scenarios of the older protocol versions.
func TestConformanceClientOlder(t *testing.T) {
	t.Parallel()
	program := harness.Program(t, "./interop/everything-client")
	for revision, want := range map[string][]string{
		"2025-06-18": {"initialize", "tools_call", "auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none"},
		"2025-03-26": {"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"},
	} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			judge(t, runSuite(t, "client", "--command", program, "--suite", "all", "--spec-version", revision), want)
		})
	}
}

// TestConformanceClientSkills runs the scenarios of the skills extension, which are in no
// requirement set.
func TestConformanceClientSkills(t *testing.T) {
	t.Parallel()
	program := harness.Program(t, "./interop/everything-client")
	for _, name := range []string{"no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"} {
		name = "sep-2640-client-" + name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge(t, runSuite(t, "client", "--command", program, "--scenario", name, "--force"), []string{name})
		})
	}
}

// judge checks that all required scenarios ran and passed.
func judge(t *testing.T, all map[string]played, want []string) {
	t.Helper()
	for _, name := range want {
		t.Run(strings.ReplaceAll(name, "/", "."), func(t *testing.T) {
			p, ok := all[name]
			if !ok {
				t.Fatal("it was not played")
			}
			p.verdicts(t)
		})
	}
	for name := range all {
		if !slices.Contains(want, name) {
			t.Errorf("%s was played and nobody expected it", name)
		}
	}
}
