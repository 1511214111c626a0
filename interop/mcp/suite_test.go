package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
)

const suiteFolder = "node/node_modules/@modelcontextprotocol/conformance"

// node returns the command line of a script in node/.
func node(t *testing.T, script string, args ...string) []string {
	t.Helper()
	program, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing (%v); install Node 20.19 or newer", err)
	}
	harness.Need(t, "Node's packages", "node/node_modules/.installed-from")
	return append([]string{program, harness.Need(t, script, script)}, args...)
}

// A check is one verdict of the conformance suite.
type check struct {
	ID           string          `json:"id"`
	Status       string          `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	ErrorMessage string          `json:"errorMessage"`
	Description  string          `json:"description"`
	Details      json.RawMessage `json:"details"`
}

// A played is the result of one scenario.
type played struct {
	checks []check
	stderr string // of a client
}

// stamp matches the timestamp that the suite appends to the name of a scenario.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z$`)

// runSuite runs the conformance suite, with `leg` "client" or "server", and returns its verdicts by
// scenario. The caller must check the verdicts, because the exit status of the suite covers the
// scored scenarios only.
func runSuite(t *testing.T, leg string, args ...string) map[string]played {
	t.Helper()
	out := t.TempDir()
	argv := node(t, suiteFolder+"/dist/index.js", leg)
	argv = append([]string{argv[0], "--import", "./node/globsync.mjs"}, argv[1:]...)
	argv = append(append(argv, args...), "-o", out)
	ctx, cancel := context.WithTimeout(t.Context(), 80*time.Second)
	defer cancel()
	cmd := harness.Command(ctx, t, argv)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	exit := cmd.Run()
	found := map[string]played{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var p played
		if err := json.Unmarshal(text, &p.checks); err != nil {
			return err
		}
		if stderr, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stderr.txt")); err == nil {
			p.stderr = string(stderr)
		}
		name, err := filepath.Rel(out, filepath.Dir(path))
		found[strings.TrimPrefix(stamp.ReplaceAllString(filepath.ToSlash(name), ""), leg+"-")] = p
		return err
	})
	if err != nil || len(found) == 0 || ctx.Err() != nil {
		t.Fatalf("the suite left nothing to read: %v, %v\n%s", err, exit, log.String())
	}
	return found
}

// verdicts reports each check that did not pass, and a scenario without any.
func (p played) verdicts(t *testing.T) {
	t.Helper()
	good := 0
	for _, c := range p.checks {
		switch c.Status {
		case "SUCCESS":
			good++
		case "INFO", "SKIPPED":
		default:
			t.Errorf("%s %s: %s\n%s\n%.2000s", c.Status, c.ID, c.Description, c.ErrorMessage, c.Details)
		}
	}
	if good == 0 {
		t.Error("no check passed")
	}
	if t.Failed() && p.stderr != "" {
		t.Logf("stderr:\n%s", p.stderr)
	}
}

// required returns the scenarios in a requirement set of the suite for a leg: scored and unscored.
func required(t *testing.T, revision, leg string) (scored, unscored []string) {
	t.Helper()
	text, err := os.ReadFile(harness.Need(t, "the conformance suite", suiteFolder+"/requirements/"+revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	section, last := "", ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		item, isItem := strings.CutPrefix(line, "  - ")
		switch {
		case strings.HasSuffix(line, ":") && !strings.HasPrefix(line, " "):
			section = strings.TrimSuffix(line, ":")
		case isItem && section == leg:
			scored = append(scored, item)
		case isItem && section == "not_scored":
			last = strings.TrimPrefix(item, "scenario: ")
		case section == "not_scored" && line == "    leg: "+leg:
			unscored = append(unscored, last)
		}
	}
	if len(scored) == 0 || len(unscored) == 0 {
		t.Fatalf("requirements of %s for a %s: %d scored, %d unscored; has the file another form?", revision, leg, len(scored), len(unscored))
	}
	return scored, unscored
}
