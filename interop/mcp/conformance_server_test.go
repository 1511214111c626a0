package mcp_test

import (
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestConformanceServer runs the official suite against our server: the same program for all
// protocol versions, and all scenarios of both requirement sets, scored or not. The numbers are
// those of the suite when it was pinned: a lower number means that a scenario did not run. The
// suite mostly waits, so its runs are concurrent, each with its own server.
func TestConformanceServer(t *testing.T) {
	t.Parallel()
	program := harness.Program(t, "./interop/everything-server")
	serve := func(t *testing.T) string {
		t.Helper()
		t.Parallel()
		endpoint := harness.Server(t, []string{program, "-http", "127.0.0.1:0"})["mcp"]
		if endpoint == "" {
			t.Fatal("everything-server did not say where /mcp is")
		}
		return endpoint
	}
	for _, set := range []struct {
		revision         string
		scored, unscored int
		checks           int
	}{
		{"2025-11-25", 30, 3, 83},
		{"2026-07-28", 37, 13, 196},
	} {
		t.Run(set.revision, func(t *testing.T) {
			endpoint := serve(t)
			scored, unscored := required(t, set.revision, "server")
			if len(scored) != set.scored || len(unscored) != set.unscored {
				t.Errorf("the set has %d scored and %d unscored scenarios, not %d and %d", len(scored), len(unscored), set.scored, set.unscored)
			}
			all := runSuite(t, "server", "--url", endpoint, "--requirements", set.revision)
			judge(t, all, withoutEmpty(t, all, slices.Concat(scored, unscored)))
			count(t, all, set.checks)
		})
	}
	t.Run("2025-06-18", func(t *testing.T) {
		all := runSuite(t, "server", "--url", serve(t), "--suite", "all", "--spec-version", "2025-06-18")
		if len(all) < 27 {
			t.Errorf("%d scenarios were played, not 27", len(all))
		}
		judge(t, all, names(all))
		count(t, all, 56)
	})
	t.Run("2025-03-26", func(t *testing.T) {
		all := runSuite(t, "server", "--url", serve(t), "--suite", "all", "--spec-version", "2025-03-26")
		judge(t, all, []string{"server-session-lifecycle"})
		count(t, all, 3)
	})
	for name, checks := range map[string]int{"directory": 7, "enumeration": 32, "manifest": 6} {
		name = "sep-2640-skills-" + name
		t.Run(name, func(t *testing.T) {
			all := runSuite(t, "server", "--url", serve(t), "--scenario", name, "--force")
			judge(t, all, []string{name})
			count(t, all, checks)
		})
	}
}

// emptyScenario checks nothing in 0.2.0-alpha.12: its text announces a rewrite for
// subscriptions/listen.
const emptyScenario = "tasks-status-notifications"

// withoutEmpty removes the empty scenario, and fails once it is no longer empty.
func withoutEmpty(t *testing.T, all map[string]played, want []string) []string {
	t.Helper()
	p, ok := all[emptyScenario]
	if !slices.Contains(want, emptyScenario) {
		return want
	}
	if !ok || len(p.checks) != 1 || p.checks[0].Status != "SKIPPED" {
		t.Errorf("%s has checks now: %v", emptyScenario, p.checks)
	}
	delete(all, emptyScenario)
	return slices.DeleteFunc(want, func(name string) bool { return name == emptyScenario })
}

func names(all map[string]played) []string {
	var out []string
	for name := range all {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// count checks that the given number of checks ran and passed.
func count(t *testing.T, all map[string]played, want int) {
	t.Helper()
	passed := 0
	for _, p := range all {
		for _, c := range p.checks {
			if c.Status == "SUCCESS" {
				passed++
			}
		}
	}
	if passed < want {
		t.Errorf("%d checks passed, %d are known to be made", passed, want)
	}
}
