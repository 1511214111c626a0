//nolint:staticcheck // what the SDK calls deprecated is in the protocol, and is tested as long as it is
package mcp_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/stream"
)

// goService returns the service of the tests, based on the official Go SDK.
func goService() *gosdk.Server {
	s := gosdk.NewServer(&gosdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, &gosdk.ServerOptions{
		Instructions: "Add.",
		CompletionHandler: func(_ context.Context, r *gosdk.CompleteRequest) (*gosdk.CompleteResult, error) {
			out := &gosdk.CompleteResult{}
			for _, name := range []string{"Ada", "Alan", "Grace"} {
				if strings.HasPrefix(name, r.Params.Argument.Value) {
					out.Completion.Values = append(out.Completion.Values, name)
				}
			}
			return out, nil
		},
		SubscribeHandler:   func(context.Context, *gosdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *gosdk.UnsubscribeRequest) error { return nil },
	})
	text := func(t string) *gosdk.CallToolResult {
		return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: t}}}
	}
	type two struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	type sum struct {
		Sum float64 `json:"sum"`
	}
	type none struct{}
	gosdk.AddTool(s, &gosdk.Tool{Name: "add"}, func(_ context.Context, _ *gosdk.CallToolRequest, in two) (*gosdk.CallToolResult, sum, error) {
		return nil, sum{in.A + in.B}, nil
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "fail"}, func(context.Context, *gosdk.CallToolRequest, none) (*gosdk.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("it failed")
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "ask"}, func(_ context.Context, r *gosdk.CallToolRequest, _ none) (*gosdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["user_name"].(*gosdk.ElicitResult); ok {
			return text(fmt.Sprintf("Hello, %s!", answer.Content["name"])), nil, nil
		}
		return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{"user_name": &gosdk.ElicitParams{Message: "What is your name?",
			RequestedSchema: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}}}}},
			RequestState: "half way"}, nil, nil
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "think"}, func(_ context.Context, r *gosdk.CallToolRequest, _ none) (*gosdk.CallToolResult, any, error) {
		switch answer := r.Params.InputResponses["model"].(type) {
		case *gosdk.CreateMessageResult:
			return text(answer.Content.(*gosdk.TextContent).Text), nil, nil
		case *gosdk.CreateMessageWithToolsResult:
			return text(answer.Content[0].(*gosdk.TextContent).Text), nil, nil
		}
		return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{"model": &gosdk.CreateMessageParams{MaxTokens: 10,
			Messages: []*gosdk.SamplingMessage{{Role: "user", Content: &gosdk.TextContent{Text: "ping"}}}}}}, nil, nil
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "where"}, func(_ context.Context, r *gosdk.CallToolRequest, _ none) (*gosdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["roots"].(*gosdk.ListRootsResult); ok {
			return text(answer.Roots[0].URI), nil, nil
		}
		return &gosdk.CallToolResult{InputRequests: gosdk.InputRequestMap{"roots": &gosdk.ListRootsParams{}}}, nil, nil
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "count"}, func(ctx context.Context, r *gosdk.CallToolRequest, in struct {
		To int `json:"to"`
	}) (*gosdk.CallToolResult, any, error) {
		for i := 1; i <= in.To; i++ {
			if err := r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(i), Total: float64(in.To), Message: fmt.Sprint("at ", i)}); err != nil {
				return nil, nil, err
			}
		}
		return text(fmt.Sprint("counted to ", in.To)), nil, nil
	})
	var cancelled atomic.Int64
	gosdk.AddTool(s, &gosdk.Tool{Name: "wait"}, func(ctx context.Context, r *gosdk.CallToolRequest, _ none) (*gosdk.CallToolResult, any, error) {
		if err := r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken()}); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		cancelled.Add(1)
		return nil, nil, ctx.Err()
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "cancelled"}, func(context.Context, *gosdk.CallToolRequest, none) (*gosdk.CallToolResult, any, error) {
		return text(fmt.Sprint(cancelled.Load())), nil, nil
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "reconnect"}, func(_ context.Context, r *gosdk.CallToolRequest, _ none) (*gosdk.CallToolResult, any, error) {
		if r.Extra != nil && r.Extra.CloseSSEStream != nil {
			r.Extra.CloseSSEStream(gosdk.CloseSSEStreamArgs{RetryAfter: 20 * time.Millisecond})
		}
		return text("answered on another stream"), nil, nil
	})
	gosdk.AddTool(s, &gosdk.Tool{Name: "grow"}, func(context.Context, *gosdk.CallToolRequest, none) (*gosdk.CallToolResult, any, error) {
		gosdk.AddTool(s, &gosdk.Tool{Name: "grown"}, func(context.Context, *gosdk.CallToolRequest, none) (*gosdk.CallToolResult, any, error) {
			return text("here"), nil, nil
		})
		return text("grown"), nil, nil
	})
	s.AddResource(&gosdk.Resource{URI: "test://static", Name: "static"}, func(_ context.Context, r *gosdk.ReadResourceRequest) (*gosdk.ReadResourceResult, error) {
		return &gosdk.ReadResourceResult{Contents: []*gosdk.ResourceContents{{URI: r.Params.URI, Text: "static text"}}}, nil
	})
	s.AddResourceTemplate(&gosdk.ResourceTemplate{URITemplate: "test://item/{id}", Name: "item"}, func(_ context.Context, r *gosdk.ReadResourceRequest) (*gosdk.ReadResourceResult, error) {
		return &gosdk.ReadResourceResult{Contents: []*gosdk.ResourceContents{{URI: r.Params.URI,
			Blob: []byte("item " + strings.TrimPrefix(r.Params.URI, "test://item/"))}}}, nil
	})
	s.AddPrompt(&gosdk.Prompt{Name: "greet", Arguments: []*gosdk.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *gosdk.GetPromptRequest) (*gosdk.GetPromptResult, error) {
			return &gosdk.GetPromptResult{Messages: []*gosdk.PromptMessage{{Role: "user",
				Content: &gosdk.TextContent{Text: "Say hello to " + r.Params.Arguments["name"] + "."}}}}, nil
		})
	return s
}

// TestGoSDKServer calls a server based on the official Go SDK with our client.
func TestGoSDKServer(t *testing.T) {
	t.Parallel()
	want := func(v mcp.Version) service { return service{name: "go-sdk", version: v} }
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326, mcp.V20241105} {
		t.Run("stream "+v.String(), func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			ours, theirs := net.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- goService().Run(ctx, &gosdk.IOTransport{Reader: theirs, Writer: theirs}) }()
			h := newHost(t)
			o := h.options()
			o.Versions = []mcp.Version{v}
			c, err := mcp.Connect(ctx, stream.New(ours, stream.Line, nil), us, &o)
			if err != nil {
				t.Fatal(err)
			}
			want(v).use(ctx, t, h, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			<-ended // the error is irrelevant: we disconnected
		})
	}
	store := func() gosdk.EventStore { return gosdk.NewMemoryEventStore(nil) }
	for _, tt := range []struct {
		name    string
		options *gosdk.StreamableHTTPOptions
		pair    bool
		service service
		version mcp.Version // the only version that our client offers
	}{
		// It does not support the newest protocol version with sessions.
		{"http", &gosdk.StreamableHTTPOptions{EventStore: store()}, false, want(mcp.V20251125), 0},
		{"http 2025-11-25", &gosdk.StreamableHTTPOptions{EventStore: store()}, false, want(mcp.V20251125), mcp.V20251125},
		{"http 2025-03-26", &gosdk.StreamableHTTPOptions{}, false, service{name: "go-sdk", version: mcp.V20250326, noResuming: true}, mcp.V20250326},
		{"http plain json", &gosdk.StreamableHTTPOptions{JSONResponse: true}, false,
			// It writes an event into the JSON.
			service{name: "go-sdk", version: mcp.V20251125, noPushes: true, noResuming: true}, mcp.V20251125},
		{"http without sessions", &gosdk.StreamableHTTPOptions{Stateless: true}, false,
			// It does not cancel handlers when the client disconnects.
			service{name: "go-sdk", version: mcp.V20260728, noCancel: true, noResuming: true}, 0},
		{"sse", nil, true, want(mcp.V20251125), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := within(t)
			s := goService()
			get := func(*http.Request) *gosdk.Server { return s }
			var web http.Handler
			if tt.pair {
				web = gosdk.NewSSEHandler(get, nil)
			} else {
				web = gosdk.NewStreamableHTTPHandler(get, tt.options)
			}
			server := httptest.NewServer(web)
			t.Cleanup(server.Close)
			t.Cleanup(server.CloseClientConnections)
			h := newHost(t)
			o := h.options()
			if tt.version != 0 {
				o.Versions = []mcp.Version{tt.version}
			}
			tt.service.use(ctx, t, h, overHTTP(ctx, t, server.URL, o))
		})
	}
}
