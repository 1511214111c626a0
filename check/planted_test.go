package check_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/check"
)

// defectsPage has the table of planted defects, after the findings in other libraries.
const defectsPage = "../docs/conformance.md"

const defectsHeading = "\n## Planted defects\n"

var writeDefects = flag.Bool("defects", false, "write the table of planted defects in "+defectsPage)

// TestDefectsTable requires that docs/conformance.md lists every planted defect with the rule that
// finds it. With -defects it writes the table.
func TestDefectsTable(t *testing.T) {
	page, err := os.ReadFile(defectsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, got, found := bytes.Cut(page, []byte(defectsHeading))
	want := defectsTable(t)
	if *writeDefects {
		if err := os.WriteFile(defectsPage, slices.Concat(before, []byte(defectsHeading), []byte(want)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !found || string(got) != want {
		t.Errorf("the table in %s differs; run go test ./check -run TestDefectsTable -defects", defectsPage)
	}
}

// defectsTable returns the table with its introduction.
func defectsTable(t *testing.T) string {
	levels := levelsOf(t)
	var b strings.Builder
	fmt.Fprintf(&b, `
`+"`make test`"+` plants %d defects in a server that is written without parley, and %d in servers of the
protocols on top of JSON-RPC 2.0. Each must be found by its rule and make the verdict fail; without a
defect, the servers pass all rules. The rules at the end of the first table, from
hard/depth-1000 on, need `+"`--hard`"+`.

| planted defect | rule that finds it | level | transports |
|---|---|---|---|
`, len(mutants)+len(hardMutants), len(profileMutants))
	row := func(m mutant, transports string) {
		level, known := levels[m.rule]
		if !known {
			t.Errorf("there is no rule %s", m.rule)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", m.defect, m.rule, level, transports)
	}
	for _, list := range [][]mutant{mutants, hardMutants} {
		for _, m := range list {
			row(m, strings.ReplaceAll(m.on, " ", ", "))
		}
	}
	b.WriteString("\n### In protocols on top\n\n| planted defect | rule that finds it | level | protocol |\n|---|---|---|---|\n")
	for _, m := range profileMutants {
		row(m.mutant(), m.profile)
	}
	return b.String()
}

// levelsOf returns the levels of all rules by ID.
func levelsOf(t *testing.T) map[string]check.Level {
	levels := map[string]check.Level{}
	for _, target := range serve(t, new(plainServer)) {
		for _, profile := range []string{"", "mcp", "a2a", "acp"} {
			o := everything()
			o.Profile, o.Budget = profile, 1 // no rule runs
			for _, r := range run(t, target, o).Rules {
				levels[r.ID] = r.Level
			}
		}
	}
	return levels
}

// TestHardRulesHaveDefects requires a planted defect for each rule that runs only with Hard and can
// change the verdict.
func TestHardRulesHaveDefects(t *testing.T) {
	planted := map[string]bool{}
	for _, m := range hardMutants {
		planted[m.rule] = true
	}
	hard := 0
	for _, target := range serve(t, new(plainServer)) {
		o := everything()
		o.Hard, o.Budget = false, 1 // no rule runs
		for _, r := range run(t, target, o).Rules {
			if r.Why != "needs --hard" || r.Level != check.Must && r.Level != check.Expect {
				continue
			}
			if hard++; !planted[r.ID] {
				t.Errorf("no defect is planted for %s", r.ID)
			}
		}
	}
	if hard < 30 {
		t.Errorf("%d rules need --hard", hard)
	}
}
