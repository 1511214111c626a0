package orchestrator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An invalid plan is rejected before anything starts, with line and column.
func TestBadPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for line := range strings.Lines(string(b)) {
				if rest, ok := strings.CutPrefix(line, "#! "); ok {
					want = append(want, strings.TrimSpace(rest))
				}
			}
			_, err = ParsePlan("", b)
			bad, ok := errors.AsType[*PlanError](err)
			if !ok {
				t.Fatalf("got %v, want a PlanError", err)
			}
			if d := cmp.Diff(want, strings.Split(bad.Error(), "\n")); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

func TestGoodPlans(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if _, err := ReadPlan(file); err != nil {
			t.Errorf("%s:\n%v", file, err)
		}
	}
}

func TestReadTeam(t *testing.T) {
	dir := t.TempDir()
	for i, c := range []struct{ text, want string }{
		{"team:\n  a: {target: \":1\", protocol: acp}\n  b: {command: [x], protocol: mcp}\n", ""},
		{"team:\n  a: {target: x}\n", `2:3: team.a.protocol: unknown protocol ""`},
		{"team: {}\n", "1:1: team: needs members"},
		{"steps: []\n", "1:1: steps: unknown member; the members are team"},
		{"", "1:1: plan: a plan must be one YAML document, this has 0"},
	} {
		name := filepath.Join(dir, fmt.Sprint(i, ".yaml"))
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		team, err := ReadTeam(name)
		if c.want == "" {
			if err != nil || len(team) != 2 || team["b"].Command[0] != "x" {
				t.Errorf("%v, %v", team, err)
			}
			continue
		}
		if _, ok := errors.AsType[*PlanError](err); !ok || !strings.HasPrefix(err.Error(), name+":"+c.want) {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
	if _, err := ReadTeam(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
