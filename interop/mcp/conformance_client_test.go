package mcp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestConformanceClient lets the official suite judge our client: all scenarios of both requirement sets, scored or not. The suite tells the client
// which revision to speak; a second time the client does not listen, and finds out by itself.
func TestConformanceClient(t *testing.T) {
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

// TestConformanceClientOlder plays what is left of the older revisions.
func TestConformanceClientOlder(t *testing.T) {
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

// TestConformanceClientSkills plays the scenarios of the skills extension, which are in no set.
func TestConformanceClientSkills(t *testing.T) {
	program := harness.Program(t, "./interop/everything-client")
	for _, name := range []string{"no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"} {
		name = "sep-2640-client-" + name
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge(t, runSuite(t, "client", "--command", program, "--scenario", name, "--force"), []string{name})
		})
	}
}

// judge holds that all that is wanted was played, and well.
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
