package page

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
)

// What two programs said to each other that nobody here wrote is shown: who said what, what came of it, and what was odd.
func TestTappedSession(t *testing.T) {
	node22 := harness.Need(t, "Node 22", "../mcp/node/node_modules/.bin/node")
	inspector := harness.Need(t, "the inspector", "../mcp/node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	everything := harness.Need(t, "the everything server", "../mcp/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	program := os.Getenv("PARLEY_PROGRAM")
	if program == "" {
		program = harness.Parley(t)
	}
	file := filepath.Join(t.TempDir(), "everything.jsonl")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := harness.Command(ctx, t, []string{node22, inspector, "--cli", "--quiet", "--format", "json", "--protocol-era", "legacy", "--method", "tools/call", "--tool-name", "get-sum", "--tool-arg", "a=2", "b=3",
		"--", program, "tap", "--record", file, "--", node22, everything, "stdio"})
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the inspector: %v\n%s", err, out)
	}

	u := start(t)
	p := u.page(t, desk, "")
	p.see("heading", "Say something to a server")
	p.drop(file)
	p.row("initialize")
	p.row(`tools\/call .*get-sum`)
	p.row("stderr")
	p.clickOn(onRow("get-sum"))
	p.until("the result is not shown", `eyes.all("region", /^Result/).some((e) => /sum of 2 and 3/i.test(e.textContent))`)
	if broken := ask[bool](p, `!!eyes.first("button", /broken/)`); broken {
		t.Error("a rule is said to be broken")
	}
	p.guideImage("tapped")
	p.judgeBoth("tapped")
}
