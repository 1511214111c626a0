package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// serveStdio is the environment variable that makes the test binary serve the tests' service on
// stdin and stdout, for programs that start a server.
const serveStdio = "PARLEY_INTEROP_MCP_STDIO"

func init() {
	if os.Getenv(serveStdio) == "" {
		return
	}
	s, _ := ourService()
	err := s.Serve(context.Background(), stdio.New(nil))
	s.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ourService returns the service of the tests, based on our own server, and the number of cancelled
// waits.
func ourService() (*mcp.Server, *atomic.Int64) {
	s := mcp.NewServer(mcp.Implementation{Name: "parley", Version: "1.0.0"}, &mcp.ServerOptions{Instructions: "Add.", Tools: true,
		Report: func(what string, err error) { fmt.Fprintf(os.Stderr, "server: %s: %v\n", what, err) }})
	type none struct{}
	type two struct {
		A float64 `json:"a"`
		B float64 `json:"b"`
	}
	type sum struct {
		Sum float64 `json:"sum"`
	}
	mcp.AddTool(s, mcp.Tool{Name: "add", Description: "Adds."}, func(_ context.Context, _ *mcp.Request, in two) (sum, error) {
		return sum{in.A + in.B}, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *mcp.Request, none) (string, error) {
		return "", mcp.Errorf("it failed")
	})
	mcp.AddTool(s, mcp.Tool{Name: "ask", Description: "Asks the user for a name."}, func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		var form struct {
			Name string `json:"name"`
		}
		answer, err := r.Elicit(ctx, "user_name", &mcp.Elicitation{Message: "What is your name?", RequestedSchema: mcp.FormOf[struct {
			Name string `json:"name"`
		}]()})
		if err != nil || !answer.Accepted(&form) {
			return "Who are you?", err
		}
		return "Hello, " + form.Name + "!", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "think", Description: "Asks the model."}, func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		answer, err := r.Sample(ctx, "model", &mcp.SamplingRequest{MaxTokens: 10,
			Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Blocks{mcp.Text("ping")}}}})
		if err != nil {
			return "", err
		}
		return answer.Content[0].Text, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "where", Description: "Asks for roots."}, func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		roots, err := r.Roots(ctx, "roots")
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "count", Description: "Counts, and tells of it."}, func(ctx context.Context, r *mcp.Request, in struct {
		To int `json:"to"`
	}) (string, error) {
		for i := 1; i <= in.To; i++ {
			if err := r.Progress(ctx, float64(i), float64(in.To), fmt.Sprint("at ", i)); err != nil {
				return "", err
			}
		}
		return fmt.Sprint("counted to ", in.To), nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "pid", Description: "Returns the ID of the server's process."}, func(context.Context, *mcp.Request, none) (string, error) {
		return strconv.Itoa(os.Getpid()), nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "second", Description: "Takes a second."}, func(ctx context.Context, _ *mcp.Request, _ none) (string, error) {
		select {
		case <-time.After(time.Second):
			return "a second", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	var cancelled atomic.Int64
	mcp.AddTool(s, mcp.Tool{Name: "wait", Description: "Waits until it is cancelled."}, func(ctx context.Context, r *mcp.Request, _ none) (string, error) {
		if err := r.Progress(ctx, 0, 0, "waiting"); err != nil {
			return "", err
		}
		<-ctx.Done()
		cancelled.Add(1)
		return "", ctx.Err()
	})
	mcp.AddTool(s, mcp.Tool{Name: "cancelled", Description: "Tells how many waits were cancelled."}, func(context.Context, *mcp.Request, none) (string, error) {
		return fmt.Sprint(cancelled.Load()), nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "reconnect", Description: "Closes the stream before it answers."}, func(ctx context.Context, _ *mcp.Request, _ none) (string, error) {
		mcphttp.CloseStream(ctx, 20*time.Millisecond)
		return "answered on another stream", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "grow", Description: "Adds a tool."}, func(context.Context, *mcp.Request, none) (string, error) {
		s.RemoveTools("grown")
		mcp.AddTool(s, mcp.Tool{Name: "grown", Description: "Was added."}, func(context.Context, *mcp.Request, none) (string, error) { return "here", nil })
		return "grown", nil
	})
	mcp.AddTool(s, mcp.Tool{Name: "region", Description: "Wants a header."}, func(_ context.Context, _ *mcp.Request, in struct {
		Region string `json:"region" mcp:"header=Region"`
	}) (string, error) {
		return in.Region, nil
	})
	if err := s.AddResource(mcp.Resource{URI: "test://static", Name: "static", Description: "A text."}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return mcp.TextResource(r, "text/plain", "static text"), nil
	}); err != nil {
		panic(err)
	}
	if err := s.AddTemplate(mcp.ResourceTemplate{URITemplate: "test://item/{id}", Name: "item"}, func(_ context.Context, r *mcp.Request) (*mcp.ReadResourceResult, error) {
		return mcp.BlobResource(r, "application/octet-stream", []byte("item "+r.Variables["id"])), nil
	}, nil); err != nil {
		panic(err)
	}
	if err := s.AddPrompt(mcp.Prompt{Name: "greet", Description: "Greets.", Arguments: []mcp.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, _ *mcp.Request, arguments map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.Text("Say hello to " + arguments["name"] + ".")}}}, nil
		}, map[string]mcp.CompleteFunc{"name": mcp.CompleteFrom("Ada", "Alan", "Grace")}); err != nil {
		panic(err)
	}
	return s, &cancelled
}

// ourEndpoint serves our service at /mcp, and over HTTP+SSE at /sse, until the test ends.
func ourEndpoint(t *testing.T) (address string) {
	t.Helper()
	s, _ := ourService()
	h := mcphttp.NewHandler(s, nil)
	pair := h.Pair("/messages")
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	mux.Handle("/sse", pair)
	mux.Handle("/messages", pair)
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.Close()
		if err := h.Close(); err != nil {
			t.Errorf("close the endpoint: %v", err)
		}
		web.Close()
	})
	return web.URL
}

// TestOurselves calls the service on our own server with our own client. The other tests depend on
// it.
func TestOurselves(t *testing.T) {
	address := ourEndpoint(t)
	for _, v := range []mcp.Version{mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326} {
		t.Run("http "+v.String(), func(t *testing.T) {
			ctx := within(t)
			h := newHost(t)
			o := h.options()
			o.Versions = []mcp.Version{v}
			c := overHTTP(ctx, t, address+"/mcp", o)
			service{name: "parley", version: v, noForms: !v.HasElicitation()}.use(ctx, t, h, c)
		})
	}
	t.Run("sse", func(t *testing.T) {
		ctx := within(t)
		h := newHost(t)
		service{name: "parley", version: mcp.V20260728}.use(ctx, t, h, overHTTP(ctx, t, "sse+"+address+"/sse", h.options()))
	})
	t.Run("stdio", func(t *testing.T) {
		t.Setenv(serveStdio, "1")
		ctx := within(t)
		h := newHost(t)
		service{name: "parley", version: mcp.V20260728}.use(ctx, t, h, child(ctx, t, []string{os.Args[0]}, h.options()))
	})
}
