// Package agent_test calls one Go function with clients of other projects in four protocols.
package agent_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/da1ed7bb/parley/interop/harness"
)

// packed is what each client must have received.
type packed struct {
	Agent    string         `json:"agent"`
	Skill    string         `json:"skill"`
	Question string         `json:"question"`
	Progress []string       `json:"progress"`
	Text     string         `json:"text"`
	Summary  map[string]int `json:"summary"`
	End      string         `json:"end"`
}

var want = packed{
	Agent: "packer", Skill: "Pack", Question: "For how many days?", Progress: []string{"packing socks", "packing shirt"},
	Text: "3 × socks\n3 × shirt\n", Summary: map[string]int{"days": 3, "things": 2}, End: "completed",
}

// script runs one of the scripts in the folder of the suite that has its packages.
func script(t *testing.T, name, suite string, args ...string) packed {
	t.Helper()
	text, err := os.ReadFile("node/" + name)
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("node is missing (%v); install Node 20.19 or newer", err)
	}
	harness.Need(t, "Node's packages", "../"+suite+"/node/node_modules/.installed-from")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := harness.Command(ctx, t, append([]string{program, "--input-type=module", "--eval", string(text), "--"}, args...))
	cmd.Dir = "../" + suite + "/node"
	harness.KeepStderr(t, cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	var got packed
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%s said %s", name, out)
	}
	return got
}

// TestOneFunctionInFourProtocols calls the function of examples/agent with acp-sdk, @a2a-js/sdk,
// @agentclientprotocol/sdk and two clients of MCP.
func TestOneFunctionInFourProtocols(t *testing.T) {
	source, err := os.ReadFile("../../examples/agent/pack.go")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func pack(")
	body, _, _ = strings.Cut(body, "\n}\n")
	if lines := strings.Count(body, "\n") + 2; lines > 30 {
		t.Errorf("the function has %d lines", lines)
	}

	program := harness.Program(t, "./examples/agent")
	at := harness.Server(t, []string{program, "127.0.0.1:0"})
	for _, c := range []struct {
		name string
		call func(t *testing.T) packed
	}{
		{"ACP, acp-sdk", func(t *testing.T) packed { return script(t, "acp.mjs", "acp", at["acp"]) }},
		{"A2A, @a2a-js/sdk", func(t *testing.T) packed { return script(t, "a2a.mjs", "a2a", at["a2a"]) }},
		{"editor protocol, @agentclientprotocol/sdk, with forms", func(t *testing.T) packed { return script(t, "editor.mjs", "editor", program, "forms") }},
		{"editor protocol, @agentclientprotocol/sdk, with turns", func(t *testing.T) packed { return script(t, "editor.mjs", "editor", program, "turns") }},
		{"MCP 2025-11-25, @modelcontextprotocol/client", func(t *testing.T) packed { return script(t, "mcp.mjs", "mcp", at["mcp"], "legacy") }},
		{"MCP 2026-07-28, @modelcontextprotocol/client", func(t *testing.T) packed { return script(t, "mcp.mjs", "mcp", at["mcp"], "auto") }},
		{"MCP, go-sdk", func(t *testing.T) packed { return fromGo(t, at["mcp"]) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(want, c.call(t)); diff != "" {
				t.Errorf("what the client heard (-want +got):\n%s", diff)
			}
		})
	}
}

// fromGo calls the function with the official Go client of MCP.
func fromGo(t *testing.T, address string) packed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got packed
	steps := make(chan string, 10)
	c := gosdk.NewClient(&gosdk.Implementation{Name: "traveller", Version: "1.0"}, &gosdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *gosdk.ElicitRequest) (*gosdk.ElicitResult, error) {
			got.Question = r.Params.Message
			return &gosdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "3"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *gosdk.ProgressNotificationClientRequest) { steps <- r.Params.Message },
	})
	session, err := c.Connect(ctx, &gosdk.StreamableClientTransport{Endpoint: address}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	got.Agent = tools.Tools[0].Name
	card, _ := tools.Tools[0].Meta["parley/card"].(map[string]any)
	got.Skill, _ = card["skills"].([]any)[0].(map[string]any)["name"].(string)
	params := &gosdk.CallToolParams{Name: "packer", Arguments: map[string]any{"text": "socks, shirt"}, Meta: gosdk.Meta{}}
	params.SetProgressToken("steps")
	result, err := session.CallTool(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	got.End = "completed"
	if result.IsError {
		got.End = "failed"
	}
	for _, block := range result.Content {
		switch b := block.(type) {
		case *gosdk.TextContent:
			got.Text += b.Text
		case *gosdk.EmbeddedResource:
			if err := json.Unmarshal([]byte(b.Resource.Text), &got.Summary); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range want.Progress {
		select {
		case step := <-steps:
			got.Progress = append(got.Progress, step)
		case <-ctx.Done():
			t.Fatal("progress is missing")
		}
	}
	return got
}
