package acp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// agents returns a server with the agents that the client script expects.
func agents(t *testing.T) *acp.Server {
	s := acp.NewServer(&acp.Options{Report: func(what string, err error) { t.Logf("%s: %v", what, err) }})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	add := func(m acp.AgentManifest, run func(context.Context, *acp.Job) error) {
		s.Add(acp.Agent{Manifest: m, Run: run})
	}
	echo := acp.AgentManifest{Name: "echo", Description: "Repeats your message.", InputContentTypes: []string{"text/plain"}, Metadata: &acp.Metadata{
		Annotations:  acp.Extra{"beeai_ui": jsonrpc.Raw(`{"ui_type":"chat","user_greeting":"Hi"}`)},
		Author:       &acp.Person{Name: "Ada", URL: "https://example.com/ada"},
		Links:        []acp.AgentLink{{Type: "homepage", URL: "https://example.com"}},
		Capabilities: []acp.Capability{{Name: "echo", Description: "Says it again."}},
	}}
	add(echo, func(ctx context.Context, j *acp.Job) error { return j.Say(ctx, j.Text()) })
	add(acp.AgentManifest{Name: "words", Description: "Says it word by word."}, func(ctx context.Context, j *acp.Job) error {
		words := strings.SplitAfter(j.Text(), " ")
		if err := j.Generic(ctx, map[string]int{"words": len(words)}); err != nil {
			return err
		}
		for _, word := range words {
			if err := j.Say(ctx, word); err != nil {
				return err
			}
		}
		return nil
	})
	add(acp.AgentManifest{Name: "ask", Description: "Asks for your name."}, func(ctx context.Context, j *acp.Job) error {
		name, err := j.Await(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("Your name?")}})
		if err != nil {
			return err
		}
		return j.Say(ctx, "Hello "+name.Text())
	})
	add(acp.AgentManifest{Name: "slow", Description: "Takes until you cancel it."}, func(ctx context.Context, _ *acp.Job) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	add(acp.AgentManifest{Name: "broken"}, func(context.Context, *acp.Job) error { return acp.Errorf("Out of order.") })
	add(acp.AgentManifest{Name: "artifact"}, func(ctx context.Context, j *acp.Job) error {
		start, end := 0, 4
		file := acp.Bytes("image/png", []byte{137, 80, 78, 71})
		file.Name = "dot.png"
		cited, step := acp.Text("as said"), acp.Text("")
		cited.Metadata = &acp.PartMetadata{Kind: acp.KindCitation, StartIndex: &start, EndIndex: &end, URL: "https://example.com"}
		step.Metadata = &acp.PartMetadata{Kind: acp.KindTrajectory, ToolName: "search", ToolInput: jsonrpc.Raw(`{"q":"x"}`)}
		return j.Message(ctx, acp.Message{Parts: []acp.MessagePart{file, cited, step}})
	})
	add(acp.AgentManifest{Name: "memory"}, func(ctx context.Context, j *acp.Job) error {
		past, err := j.History(ctx)
		if err != nil {
			return err
		}
		said := make([]string, len(past))
		for i, m := range past {
			said[i] = m.Role + ": " + m.Text()
		}
		return j.Say(ctx, strings.Join(said, ", "))
	})
	return s
}

// TestSDK tests the REST binding with the npm package acp-sdk 1.0.3, at the root and below a path.
func TestSDK(t *testing.T) {
	for _, mount := range []string{"", "/acp"} {
		t.Run("at "+mount+"/", func(t *testing.T) {
			handler, err := acphttp.NewREST(agents(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			web := httptest.NewServer(http.StripPrefix(mount, handler))
			defer web.Close()
			harness.Checks(t, harness.Node(t, "client.mjs", web.URL+mount))
		})
	}
}
