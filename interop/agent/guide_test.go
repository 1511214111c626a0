package agent_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

func TestGuideRunsAsItStands(t *testing.T) {
	at := harness.Server(t, []string{harness.Program(t, "./examples/agent"), "127.0.0.1:0"})
	base, err := url.Parse(at["acp"])
	if err != nil {
		t.Fatal(err)
	}
	g := harness.Guide{
		Page: "agent.md", Code: "examples/agent/*.go", Tests: "agent/*/*_test.go", Reference: "docs/agent-mapping.md",
		Address: "localhost:8000", At: "localhost:" + base.Port(),
		Commands: 2, Snippets: 7,
	}
	g.Check(t)
}

// TestGuideHasTheRowsOfTheContract compares the rows of the guide's table with those of the
// contract.
func TestGuideHasTheRowsOfTheContract(t *testing.T) {
	contract := harness.Read(t, "agent/agenttest/agenttest.go")
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[a-z_]+`(, `[a-z_]+`)*) \\|").FindAllStringSubmatch(harness.Read(t, "docs/agent-mapping.md"), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			rows[strings.Trim(name, "`")] = true
		}
	}
	for row := range rows {
		if !strings.Contains(contract, `{"`+row+`", s.`) {
			t.Errorf("no test is the row %s", row)
		}
	}
	for _, m := range regexp.MustCompile(`\{"([a-z_]+)", s\.`).FindAllStringSubmatch(contract, -1) {
		if !rows[m[1]] && m[1] != "many_at_once" {
			t.Errorf("the table has no row %s", m[1])
		}
	}
	if len(rows) != 21-1 {
		t.Errorf("%d rows", len(rows))
	}
}
