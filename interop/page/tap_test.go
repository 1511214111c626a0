package page

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
)

// TestTappedSession checks that the traffic between two third-party programs is shown: the sender
// of each message, its result and its findings.
func TestTappedSession(t *testing.T) {
	t.Parallel()
	const (
		packages = "../mcp/node"
		// The inspector requires a newer Node than the system may have.
		node22     = "node_modules/.bin/node"
		inspector  = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
		everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
	)
	for _, path := range []string{node22, inspector, everything} {
		harness.Need(t, "an npm package", filepath.Join(packages, path))
	}
	program := os.Getenv("PARLEY_PROGRAM")
	if program == "" {
		program = harness.Parley(t)
	}
	file := filepath.Join(t.TempDir(), "everything.jsonl")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := harness.Command(ctx, t, []string{harness.Need(t, "Node 22", filepath.Join(packages, node22)), inspector, "--cli", "--quiet", "--format", "json", "--protocol-era", "legacy", "--method", "tools/call", "--tool-name", "get-sum", "--tool-arg", "a=2", "b=3",
		"--", program, "tap", "--record", file, "--", node22, everything, "stdio"})
	cmd.Dir = packages // so that the recording and the screenshot contain no path of this machine
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the inspector: %v\n%s", err, out)
	}

	u := start(t)
	p := u.page(t, desk, "")
	p.see("heading", "Send a message to a server")
	p.drop(file)
	p.row(`tools\/call .*get-sum`) // first, because the live traffic also contains an initialize
	p.row("initialize")
	p.row("stderr")
	p.clickOn(onRow("get-sum"))
	p.until("the result is not shown", `eyes.all("region", /^Result/).some((e) => /sum of 2 and 3/i.test(e.textContent))`)
	for _, r := range p.rows() {
		// The inspector may exit before it answers the server's request, which is reported.
		if strings.Contains(r.Text, "broken") && !strings.Contains(r.Text, "roots/list") {
			t.Errorf("a rule is said to be broken: %s", r.Text)
		}
	}
	p.guideImage("tapped")
	p.judgeBoth("tapped")
}
