package mcp_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

const everythingServer = "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"

// TestServerEverything calls npm's server-everything with our client, over all its transports.
func TestServerEverything(t *testing.T) {
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		ctx := within(t)
		useEverything(ctx, t, h, child(ctx, t, node(t, everythingServer, "stdio"), h.options()))
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		ctx := within(t)
		port := announcing(t, everythingServer, "streamableHttp")
		useEverything(ctx, t, h, overHTTP(ctx, t, "http://127.0.0.1:"+port+"/mcp", h.options()))
	})
	// POST is rejected there, so that only the older transport remains
	t.Run("sse", func(t *testing.T) {
		t.Parallel()
		h := newHost(t)
		ctx := within(t)
		port := announcing(t, everythingServer, "sse")
		useEverything(ctx, t, h, overHTTP(ctx, t, "http://127.0.0.1:"+port+"/sse", h.options()))
	})
	t.Run("sse by name", func(t *testing.T) {
		t.Parallel()
		ctx := within(t)
		port := announcing(t, everythingServer, "sse")
		c := overHTTP(ctx, t, "sse+http://127.0.0.1:"+port+"/sse", newHost(t).options())
		wantText(t, "sum")(c.CallTool(ctx, "get-sum", map[string]any{"a": 2, "b": 3}, nil))
	})
}

// wantText returns a function that checks that a tool call succeeded with a text.
func wantText(t *testing.T, part string) func(*mcp.ToolResult, error) {
	return func(r *mcp.ToolResult, err error) {
		t.Helper()
		switch {
		case err != nil:
			t.Errorf("got error %v, want %q", err, part)
		case r.IsError || !strings.Contains(r.Text(), part):
			t.Errorf("got %q (error: %t), want %q in it", r.Text(), r.IsError, part)
		}
	}
}

func useEverything(ctx context.Context, t *testing.T, h *host, c *mcp.Client) {
	if c.Version() != mcp.V20251125 {
		t.Errorf("version is %s", c.Version())
	}
	if info := c.ServerInfo(); info.Name != "mcp-servers/everything" || c.Instructions() == "" {
		t.Errorf("it presents itself as %+v, with instructions %q", info, c.Instructions())
	}
	var names []string
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	for _, name := range []string{"echo", "trigger-url-elicitation", "trigger-sampling-request", "get-roots-list"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no tool %s, only %q", name, names)
		}
	}

	wantText(t, "héllo 😀")(c.CallTool(ctx, "echo", map[string]any{"message": "héllo 😀"}, nil))
	wantText(t, "The sum of 2 and 3 is 5")(c.CallTool(ctx, "get-sum", map[string]any{"a": 2, "b": 3}, nil))
	if r, err := c.CallTool(ctx, "get-sum", map[string]any{"a": "x"}, nil); err != nil || !r.IsError {
		t.Errorf("wrong arguments: %+v, %v", r, err)
	}
	if r, err := c.CallTool(ctx, "get-structured-content", map[string]any{"location": "New York"}, nil); err != nil || r.Structured == nil {
		t.Errorf("structured content: %+v, %v", r, err)
	}
	if r, err := c.CallTool(ctx, "get-tiny-image", nil, nil); err != nil || !slices.ContainsFunc(r.Content, func(b mcp.Content) bool { return b.Kind == mcp.KindImage && len(b.Data) > 100 }) {
		t.Errorf("image: %+v, %v", r, err)
	}
	wantText(t, "file:///work")(c.CallTool(ctx, "get-roots-list", nil, nil))
	wantText(t, "You said: ")(c.CallTool(ctx, "trigger-sampling-request", map[string]any{"prompt": "hi"}, nil))
	wantText(t, "Ada")(c.CallTool(ctx, "trigger-elicitation-request", nil, nil))
	wantText(t, "completed the URL elicitation")(c.CallTool(ctx, "trigger-url-elicitation",
		map[string]any{"url": "https://example.com/", "message": "go there", "elicitationId": "e1"}, nil))
	if !slices.ContainsFunc(h.forms, func(e mcp.Elicitation) bool { return e.Mode == mcp.ElicitURL && e.URL == "https://example.com/" }) {
		t.Errorf("asked were %+v", h.forms)
	}

	// A call that fails until the user has visited a URL (-32042).
	wantText(t, "completed the URL elicitation")(c.CallTool(ctx, "trigger-url-elicitation",
		map[string]any{"url": "https://example.com/2", "message": "go there", "elicitationId": "e2", "errorPath": true}, nil))
	if !slices.ContainsFunc(h.forms, func(e mcp.Elicitation) bool { return e.URL == "https://modelcontextprotocol.io" }) {
		t.Errorf("asked were %+v", h.forms)
	}

	// Tasks of 2025-11-25, the server's and ours.
	var states []mcp.TaskStatus
	wantText(t, "Research Report: python (User accepted")(c.CallTool(ctx, "simulate-research-query", map[string]any{"topic": "python", "ambiguous": true},
		&mcp.CallOptions{TaskTTL: time.Minute, OnTask: func(task *mcp.Task) { states = append(states, task.Status) }}))
	if len(states) == 0 || states[0] != mcp.TaskWorking {
		t.Errorf("states were %q", states)
	}
	wantText(t, "You said: ")(c.CallTool(ctx, "trigger-sampling-request-async", map[string]any{"prompt": "hi"}, nil))
	wantText(t, "Ada")(c.CallTool(ctx, "trigger-elicitation-request-async", nil, nil))

	var steps []float64
	wantText(t, "completed")(c.CallTool(ctx, "trigger-long-running-operation", map[string]any{"duration": 0.3, "steps": 3},
		&mcp.CallOptions{Progress: func(p mcp.Progress) { steps = append(steps, p.Progress) }}))
	if !slices.Equal(steps, []float64{1, 2, 3}) {
		t.Errorf("progress was %v", steps)
	}

	var uri string
	for r, err := range c.Resources(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		uri = r.URI
	}
	if r, err := c.ReadResource(ctx, uri, nil); err != nil || len(r.Contents) != 1 || r.Contents[0].Text == "" {
		t.Errorf("read %s: %+v, %v", uri, r, err)
	}
	if r, err := c.ReadResource(ctx, "demo://resource/dynamic/text/7", nil); err != nil || len(r.Contents) != 1 {
		t.Errorf("read of a template: %+v, %v", r, err)
	}
	if p, err := c.GetPrompt(ctx, "args-prompt", map[string]string{"city": "Oslo"}, nil); err != nil || !strings.Contains(p.Messages[0].Content.Text, "Oslo") {
		t.Errorf("prompt: %+v, %v", p, err)
	}
	done, err := c.Complete(ctx, &mcp.CompleteParams{Ref: mcp.Reference{Type: "ref/prompt", Name: "completable-prompt"}, Argument: mcp.CompleteArgument{Name: "department", Value: "E"}})
	if err != nil || !slices.Contains(done.Values, "Engineering") {
		t.Errorf("completion: %+v, %v", done, err)
	}
	if err := c.SetLogLevel(ctx, mcp.LevelDebug); err != nil {
		t.Error(err)
	}
	if err := c.Ping(ctx); err != nil {
		t.Error(err)
	}
	subscribed(ctx, t, c)

	// Abandoning a call does not affect the connection.
	short, cancel := context.WithCancel(ctx)
	_, err = c.CallTool(short, "trigger-long-running-operation", map[string]any{"duration": 20, "steps": 400},
		&mcp.CallOptions{Progress: func(mcp.Progress) { cancel() }})
	if err == nil || ctx.Err() != nil {
		t.Errorf("a cancelled call: %v", err)
	}
	wantText(t, "still there")(c.CallTool(ctx, "echo", jsonrpc.Raw(`{"message":"still there"}`), nil))
}

// subscribed checks that a subscribed resource reports its changes.
func subscribed(ctx context.Context, t *testing.T, c *mcp.Client) {
	t.Helper()
	const uri = "demo://resource/dynamic/text/1"
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	enough := context.Canceled
	err := c.Listen(ctx, mcp.Filter{ResourceSubscriptions: []string{uri}}, func(ch mcp.Change) error {
		if ch.Method == mcp.NotifyAcknowledged {
			_, err := c.CallTool(ctx, "toggle-subscriber-updates", nil, nil)
			return err
		}
		if ch.URI == uri {
			return enough
		}
		return nil
	})
	if err != enough {
		t.Errorf("listen ended with %v", err)
	}
}
