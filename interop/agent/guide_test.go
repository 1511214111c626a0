package agent_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/interop/harness"
)

var (
	anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z`)
)

// The commands of the guide run as they stand, but for the port, and print what it says; its Go code is that of the example; the rows of its tables
// are those of the contract.
func TestGuideRunsAsItStands(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guides/agent.md")
	if err != nil {
		t.Fatal(err)
	}
	code := read(t, "../../examples/agent/*.go")
	at := harness.Server(t, []string{harness.Program(t, "./examples/agent"), "127.0.0.1:0"})
	base, err := url.Parse(at["acp"])
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(guide), "```")
	ran, shown := 0, 0
	for i := 1; i < len(blocks); i += 2 {
		kind, body, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "go":
			if !strings.Contains(code, body) {
				t.Errorf("not in examples/agent:\n%s", body)
			}
			shown++
		case "sh":
			_, want, _ := strings.Cut(blocks[i+2], "\n")
			cmd := harness.Command(t.Context(), t, []string{"bash", "-c", strings.ReplaceAll(body, "localhost:8000", "localhost:"+base.Port())})
			harness.KeepStderr(t, cmd)
			out, err := cmd.Output()
			got := anyTime.ReplaceAllString(anyUUID.ReplaceAllString(string(out), "UUID"), "TIME")
			if err != nil || strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("%v\n%s\ngot\n%s\nwant\n%s", err, body, got, want)
			}
			ran++
		}
	}
	if ran != 2 || shown != 7 {
		t.Errorf("%d blocks of commands ran, and %d of code were compared", ran, shown)
	}

	contract := read(t, "../../agent/agenttest/agenttest.go")
	tests := read(t, "../../agent/*/*_test.go")
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[a-z_]+`(, `[a-z_]+`)*) \\|").FindAllStringSubmatch(blocks[len(blocks)-1], -1) {
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
	for _, name := range regexp.MustCompile("`(Test[A-Za-z]+)").FindAllStringSubmatch(string(guide), -1) {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("there is no %s", name[1])
		}
	}
}

// read returns the text of all files that fit a pattern, and fails when there is none.
func read(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	var b strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}
