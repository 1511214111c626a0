//nolint:staticcheck // what the SDK calls deprecated is in the protocol, and is tested as long as it is
package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/stream"
)

// TestGoSDKClient calls our server with the official Go SDK's client, over all its transports and
// versions.
func TestGoSDKClient(t *testing.T) {
	t.Parallel()
	address := ourEndpoint(t)
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326, mcp.V20241105} {
		t.Run("stream "+v.String(), func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			ctx := within(t)
			s, _ := ourService()
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx, stream.New(ours, stream.Line, nil)) }()
			useFromGo(ctx, t, v, &gosdk.IOTransport{Reader: theirs, Writer: theirs})
			if err := <-ended; err != nil {
				t.Errorf("Serve: %v", err)
			}
			s.Close()
		})
		if v != mcp.V20241105 {
			t.Run("http "+v.String(), func(t *testing.T) {
				useFromGo(within(t), t, v, &gosdk.StreamableClientTransport{Endpoint: address + "/mcp"})
			})
		}
	}
	t.Run("http, whatever there is", func(t *testing.T) {
		c := gosdk.NewClient(&gosdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, nil)
		cs, err := c.Connect(within(t), &gosdk.StreamableClientTransport{Endpoint: address + "/mcp"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := cs.InitializeResult().ProtocolVersion; v != mcp.V20260728.String() {
			t.Errorf("it came to %s", v)
		}
		if err := cs.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("sse", func(t *testing.T) {
		useFromGo(within(t), t, mcp.V20251125, &gosdk.SSEClientTransport{Endpoint: address + "/sse"})
	})
}

func useFromGo(ctx context.Context, t *testing.T, v mcp.Version, carrier gosdk.Transport) {
	t.Helper()
	changed := make(chan struct{}, 100)
	progress := make(chan string, 100)
	c := gosdk.NewClient(&gosdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, &gosdk.ClientOptions{
		ElicitationHandler: func(context.Context, *gosdk.ElicitRequest) (*gosdk.ElicitResult, error) {
			return &gosdk.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
		CreateMessageHandler: func(_ context.Context, r *gosdk.CreateMessageRequest) (*gosdk.CreateMessageResult, error) {
			return &gosdk.CreateMessageResult{Role: "assistant", Model: "parrot",
				Content: &gosdk.TextContent{Text: "You said: " + r.Params.Messages[0].Content.(*gosdk.TextContent).Text}}, nil
		},
		ToolListChangedHandler: func(context.Context, *gosdk.ToolListChangedRequest) { changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, r *gosdk.ProgressNotificationClientRequest) {
			progress <- r.Params.Message
		},
	})
	c.AddRoots(&gosdk.Root{URI: "file:///work", Name: "work"})
	cs, err := c.Connect(ctx, carrier, &gosdk.ClientSessionOptions{ProtocolVersion: v.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cs.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	if in := cs.InitializeResult(); in.ProtocolVersion != v.String() || in.Instructions != "Add." {
		t.Errorf("it came to %+v, want version %s", in, v)
	}
	call := func(name string, arguments any) (string, *gosdk.CallToolResult) {
		t.Helper()
		p := &gosdk.CallToolParams{Name: name, Arguments: arguments}
		p.SetProgressToken("token-" + name)
		r, err := cs.CallTool(ctx, p)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var text strings.Builder
		for _, block := range r.Content {
			if b, ok := block.(*gosdk.TextContent); ok {
				text.WriteString(b.Text)
			}
		}
		return text.String(), r
	}
	tools := func() (names []string) {
		t.Helper()
		for tool, err := range cs.Tools(ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		return names
	}
	if names := tools(); !slices.Contains(names, "add") {
		t.Fatalf("tools are %q", names)
	}
	if got, r := call("add", map[string]any{"a": 2, "b": 3.5}); got != `{"sum":5.5}` {
		t.Errorf("add: %q", got)
	} else if v.HasStructuredContent() {
		if text, err := json.Marshal(r.StructuredContent); err != nil || string(text) != got {
			t.Errorf("add, structured: %s, %v", text, err)
		}
	}
	if got, r := call("fail", nil); got != "it failed" || !r.IsError {
		t.Errorf("fail: %q, %t", got, r.IsError)
	}
	want := map[string]string{"think": "You said: ping", "where": "file:///work", "reconnect": "answered on another stream"}
	if v.HasElicitation() {
		want["ask"] = "Hello, Ada!"
	}
	for name, answer := range want {
		if got, _ := call(name, nil); got != answer {
			t.Errorf("%s: %q, want %q", name, got, answer)
		}
	}
	if got, _ := call("region", map[string]any{"region": "Süd"}); got != "Süd" {
		t.Errorf("region: %q", got)
	}

	if got, _ := call("count", map[string]any{"to": 20}); got != "counted to 20" {
		t.Errorf("count: %q", got)
	}
	for i := 1; i <= 20; i++ {
		select {
		case got := <-progress:
			// whose progress has no message
			if want := "at " + strconv.Itoa(i); got != want && v != mcp.V20241105 {
				t.Errorf("progress was %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("only %d steps came", i-1)
		}
	}

	if r, err := cs.ReadResource(ctx, &gosdk.ReadResourceParams{URI: "test://static"}); err != nil || r.Contents[0].Text != "static text" {
		t.Errorf("resource: %+v, %v", r, err)
	}
	if r, err := cs.ReadResource(ctx, &gosdk.ReadResourceParams{URI: "test://item/7"}); err != nil || string(r.Contents[0].Blob) != "item 7" {
		t.Errorf("resource of a template: %+v, %v", r, err)
	}
	if _, err := cs.ReadResource(ctx, &gosdk.ReadResourceParams{URI: "test://nowhere"}); err == nil {
		t.Error("an unknown resource was read")
	}
	if r, err := cs.GetPrompt(ctx, &gosdk.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "Ada"}}); err != nil ||
		r.Messages[0].Content.(*gosdk.TextContent).Text != "Say hello to Ada." {
		t.Errorf("prompt: %+v, %v", r, err)
	}
	if r, err := cs.Complete(ctx, &gosdk.CompleteParams{Ref: &gosdk.CompleteReference{Type: "ref/prompt", Name: "greet"},
		Argument: gosdk.CompleteParamsArgument{Name: "name", Value: "A"}}); err != nil || !slices.Equal(r.Completion.Values, []string{"Ada", "Alan"}) {
		t.Errorf("completion: %+v, %v", r, err)
	}
	if !v.Modern() {
		if err := cs.Ping(ctx, nil); err != nil {
			t.Errorf("ping: %v", err)
		}
	}

	// Notifications of the server.
	call("grow", nil)
	select {
	case <-changed:
	case <-ctx.Done():
		t.Error("nobody said that the tools have changed")
	}
	if names := tools(); !slices.Contains(names, "grown") {
		t.Errorf("the new tool is not among %q", names)
	}

	// An abandoned call.
	before, _ := call("cancelled", nil)
	short, stop := context.WithCancel(ctx)
	defer stop()
	p := &gosdk.CallToolParams{Name: "wait"}
	p.SetProgressToken("token-wait")
	result := make(chan error, 1)
	go func() {
		_, err := cs.CallTool(short, p)
		result <- err
	}()
	select {
	case <-progress:
	case <-ctx.Done():
		t.Fatal("wait did not begin")
	}
	stop()
	if err := <-result; err == nil {
		t.Error("a cancelled call has a result")
	}
	for ctx.Err() == nil {
		if now, _ := call("cancelled", nil); now != before {
			return
		}
	}
	t.Error("the handler was not told that nobody waits")
}
