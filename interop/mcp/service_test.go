package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A service is the server of the tests, with the same features on each SDK: tools add, fail, ask,
// think, where, count, wait, cancelled, reconnect and grow; the resource test://static and the
// template test://item/{id}; the prompt greet.
type service struct {
	name       string
	version    mcp.Version // negotiated protocol version
	noAsking   bool        // the server cannot send requests: it has no session
	noForms    bool        // it does not use forms in a protocol version without them
	noPushes   bool        // the server sends only responses
	noResuming bool        // a broken stream is not resumed
	noCancel   bool        // the server does not cancel handlers when the client disconnects
	headers    bool        // the tool region exists, whose argument is also a header
}

// use calls a service with our client.
func (s service) use(ctx context.Context, t *testing.T, h *host, c *mcp.Client) {
	t.Helper()
	if c.Version() != s.version {
		t.Errorf("version is %s, want %s", c.Version(), s.version)
	}
	if c.ServerInfo().Name != s.name || c.Instructions() != "Add." {
		t.Errorf("it presents itself as %+v, with instructions %q", c.ServerInfo(), c.Instructions())
	}
	names := s.tools(ctx, t, c)
	for _, name := range []string{"add", "ask", "count"} {
		if !slices.Contains(names, name) {
			t.Fatalf("there is no tool %s, only %q", name, names)
		}
	}

	r, err := c.CallTool(ctx, "add", map[string]any{"a": 2, "b": 3.5}, nil)
	if err != nil || sumOf(r) != `{"sum":5.5}` {
		t.Errorf("add: %+v, %v", r, err)
	}
	if r, err := c.CallTool(ctx, "fail", nil, nil); err != nil || !r.IsError || r.Text() != "it failed" {
		t.Errorf("fail: %+v, %v", r, err)
	}
	if r, err := c.CallTool(ctx, "nonsense", nil, nil); err == nil && !r.IsError {
		t.Errorf("unknown tool: %+v", r)
	}
	if _, err := c.ReadResource(ctx, "test://nowhere", nil); err == nil {
		t.Error("an unknown resource was read")
	} else if _, ok := errors.AsType[*jsonrpc.Error](err); !ok {
		t.Errorf("unknown resource: %v", err)
	}
	if s.headers {
		wantText(t, "Süd =?base64?U8O8ZA==?=")(c.CallTool(ctx, "region", map[string]any{"region": "Süd"}, nil))
	}
	if !s.noAsking {
		if !s.noForms {
			wantText(t, "Hello, Ada!")(c.CallTool(ctx, "ask", nil, nil))
		}
		wantText(t, "You said: ping")(c.CallTool(ctx, "think", nil, nil))
		wantText(t, "file:///work")(c.CallTool(ctx, "where", nil, nil))
	}

	var steps []string
	wantText(t, "counted to 20")(c.CallTool(ctx, "count", map[string]any{"to": 20},
		&mcp.CallOptions{Progress: func(p mcp.Progress) { steps = append(steps, p.Message) }}))
	if want := []string{"at 1", "at 20"}; !s.noPushes && (len(steps) != 20 || steps[0] != want[0] || steps[19] != want[1]) {
		t.Errorf("progress was %q", steps)
	}

	if r, err := c.ReadResource(ctx, "test://static", nil); err != nil || len(r.Contents) != 1 || r.Contents[0].Text != "static text" {
		t.Errorf("resource: %+v, %v", r, err)
	}
	if r, err := c.ReadResource(ctx, "test://item/7", nil); err != nil || len(r.Contents) != 1 || string(r.Contents[0].Blob) != "item 7" {
		t.Errorf("resource of a template: %+v, %v", r, err)
	}
	if p, err := c.GetPrompt(ctx, "greet", map[string]string{"name": "Ada"}, nil); err != nil || p.Messages[0].Content.Text != "Say hello to Ada." {
		t.Errorf("prompt: %+v, %v", p, err)
	}
	done, err := c.Complete(ctx, &mcp.CompleteParams{Ref: mcp.Reference{Type: mcp.RefPrompt, Name: "greet"}, Argument: mcp.CompleteArgument{Name: "name", Value: "A"}})
	if err != nil || !slices.Equal(done.Values, []string{"Ada", "Alan"}) {
		t.Errorf("completion: %+v, %v", done, err)
	}
	if err := c.Ping(ctx); err != nil {
		t.Errorf("ping: %v", err)
	}
	if !s.noResuming {
		wantText(t, "answered on another stream")(c.CallTool(ctx, "reconnect", nil, nil))
	}
	s.crowd(ctx, t, c)
	if !s.noPushes {
		s.grow(ctx, t, c)
	}
	if !s.noPushes && !s.noCancel {
		s.cancel(ctx, t, c)
	}
}

func (s service) tools(ctx context.Context, t *testing.T, c *mcp.Client) (names []string) {
	t.Helper()
	for tool, err := range c.Tools(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// crowd makes many concurrent calls.
func (s service) crowd(ctx context.Context, t *testing.T, c *mcp.Client) {
	t.Helper()
	results := make(chan error)
	const n = 30
	for i := range n {
		go func() {
			r, err := c.CallTool(ctx, "add", map[string]any{"a": i, "b": 1}, nil)
			if want := fmt.Sprintf(`{"sum":%d}`, i+1); err == nil && sumOf(r) != want {
				err = fmt.Errorf("got %s, want %s", sumOf(r), want)
			}
			results <- err
		}()
	}
	for range n {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// grow waits for the notification of an additional tool.
func (s service) grow(ctx context.Context, t *testing.T, c *mcp.Client) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	enough := errors.New("heard of it")
	err := c.Listen(ctx, mcp.Filter{ToolsListChanged: true}, func(ch mcp.Change) error {
		if ch.Method == mcp.NotifyAcknowledged {
			_, err := c.CallTool(ctx, "grow", nil, nil)
			return err
		}
		return enough
	})
	if err != enough {
		t.Errorf("listen ended with %v", err)
	}
	if names := s.tools(ctx, t, c); !slices.Contains(names, "grown") {
		t.Errorf("the new tool is not among %q", names)
	}
}

// sumOf returns the result of add: structured, or in a text if the protocol version has no
// structured results.
func sumOf(r *mcp.ToolResult) string {
	if r.Structured == nil {
		return r.Text()
	}
	return string(r.Structured)
}

// cancel abandons a call, and checks that the server's handler was cancelled.
func (s service) cancel(ctx context.Context, t *testing.T, c *mcp.Client) {
	t.Helper()
	before := s.cancelled(ctx, t, c)
	short, stop := context.WithCancel(ctx)
	defer stop()
	_, err := c.CallTool(short, "wait", nil, &mcp.CallOptions{Progress: func(mcp.Progress) { stop() }})
	if err == nil {
		t.Error("a cancelled call has a result")
	}
	for ctx.Err() == nil {
		if s.cancelled(ctx, t, c) == before+1 {
			return
		}
	}
	t.Error("the server was not told that nobody waits")
}

func (s service) cancelled(ctx context.Context, t *testing.T, c *mcp.Client) int {
	t.Helper()
	r, err := c.CallTool(ctx, "cancelled", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(r.Text())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
