package tap_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/da1ed7bb/parley/interop/harness"
)

const (
	inspectorCLI = "../mcp/node/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
	everything   = "../mcp/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)

// visits lists the inspector's commands, one run each.
var visits = [][]string{
	{"--method", "tools/list"},
	{"--method", "tools/call", "--tool-name", "get-sum", "--tool-arg", "a=2", "--tool-arg", "b=40"},
	{"--method", "resources/list"},
	{"--method", "prompts/list"},
}

func inspect(t *testing.T, words, target []string) string {
	t.Helper()
	argv := node(t, inspectorCLI, "--cli", "--quiet", "--format", "json")
	return resultOf(t, run(t, append(append(argv, words...), target...)))
}

// TestInspectorOnStdio runs the official inspector and server-everything on stdio: the tap replaces
// the server's command. Then the recorded session replaces the server.
func TestInspectorOnStdio(t *testing.T) {
	t.Parallel()
	for _, words := range visits {
		t.Run(words[1], func(t *testing.T) {
			t.Parallel()
			session := filepath.Join(t.TempDir(), "session.jsonl")
			argv, check := tapped(t, session, node(t, everything, "stdio"))
			then := inspect(t, words, []string{"--", script(t, argv)})
			check()
			// The inspector exits once it has its result.
			clean(t, session, 2, "2025-11-25", "unanswered roots/list")

			mock := script(t, []string{harness.Parley(t), "replay", session, "--stdio"})
			if again := inspect(t, words, []string{"--", mock}); again != then {
				t.Errorf("the session as a server gave\n%.500s\nthe server gave\n%.500s", again, then)
			}
		})
	}
}

// TestInspectorOverHTTP is the same over Streamable HTTP, with recorders before and after the tap.
func TestInspectorOverHTTP(t *testing.T) {
	t.Parallel()
	port := announcing(t, everything, "streamableHttp")
	behind := newMiddle(t, "127.0.0.1:"+port)
	session := filepath.Join(t.TempDir(), "session.jsonl")
	at, stop := tapAt(t, "http://"+behind.at+"/mcp", session, "--keep-host")
	before := newMiddle(t, strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/mcp"))
	target := []string{"--transport", "http", "--server-url", "http://" + before.at + "/mcp"}
	var then []string
	for _, words := range visits {
		then = append(then, inspect(t, words, target))
	}
	passed(before, behind)
	stop()
	for _, in := range []bool{true, false} {
		if a, b := before.all(in), behind.all(in); a != b || a == "" {
			t.Errorf("to the server %t: %d bytes before the tap, %d behind it, want the same", in, len(a), len(b))
		}
	}
	clean(t, session, 3*len(visits), "2025-11-25", "unanswered roots/list")

	mock, end := started(t, []string{harness.Parley(t), "replay", session, "--listen", "http://127.0.0.1:0/mcp"}, " at ")
	defer end()
	for i, words := range visits {
		if again := inspect(t, words, []string{"--transport", "http", "--server-url", mock}); again != then[i] {
			t.Errorf("%s: the session as a server gave\n%.500s\nthe server gave\n%.500s", words[1], again, then[i])
		}
	}
}

// TestGoSDK uses the official Go SDK on both sides.
func TestGoSDK(t *testing.T) {
	t.Parallel()
	session := filepath.Join(t.TempDir(), "session.jsonl")
	argv, check := tapped(t, session, []string{harness.Program(t, "./interop/tap/gosdk")})
	useGoSDK(t, argv)
	check()
	clean(t, session, 4, "")
	// The session replaces the server.
	useGoSDK(t, []string{harness.Parley(t), "replay", session, "--stdio"})
}

func useGoSDK(t *testing.T, argv []string) {
	t.Helper()
	ctx := within(t)
	progress := make(chan float64, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
	})
	c, err := client.Connect(ctx, &mcp.CommandTransport{Command: exec.Command(argv[0], argv[1:]...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := c.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 1 {
		t.Fatalf("tools/list: %+v, %v", tools, err)
	}
	params := &mcp.CallToolParams{Name: "add", Arguments: map[string]any{"a": 2, "b": 40}}
	params.SetProgressToken("p")
	got, err := c.CallTool(ctx, params)
	if err != nil || got.IsError || got.StructuredContent.(map[string]any)["sum"] != 42.0 {
		t.Fatalf("tools/call: %+v, %v", got, err)
	}
	for i := range 3 {
		if n := <-progress; n != float64(i+1) {
			t.Errorf("progress %v, want %d", n, i+1)
		}
	}
	if _, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "nope"}); err == nil {
		t.Error("a tool that is not there was called")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
