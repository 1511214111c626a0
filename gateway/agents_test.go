package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

// shouter is an A2A agent with all interfaces.
func shouter(t *testing.T) *httptest.Server {
	card := a2a.AgentCard{Name: "shouter", Description: "Says it louder.", Version: "1.0",
		SupportedInterfaces: append(a2ahttp.Interfaces("/", "/"), a2a.AgentInterface{URL: "https://elsewhere.example/a2a", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}),
		Capabilities:        a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		Signatures:          []a2a.AgentCardSignature{{Protected: "e30", Signature: "AA"}},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "shout", Name: "Shout", Description: "Makes text louder.", Tags: []string{"text"}}}}
	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(strings.ToUpper(r.Message.Text()))}})
	}), nil)
	t.Cleanup(s.Close)
	web := httptest.NewServer(&a2ahttp.Server{A2A: s})
	t.Cleanup(web.Close)
	return web
}

// TestA2AAgent checks that a client finds an agent by the card that the gateway serves, and that
// all it does then passes through the gateway, in each binding.
func TestA2AAgent(t *testing.T) {
	_, at := start(t, `
servers:
  shouter: {url: "{shouter}", protocol: a2a}
  silent: {url: "http://127.0.0.1:9", protocol: a2a}
gateway: {}
`, map[string]string{"shouter": shouter(t).URL})
	at.Path = ""
	base := strings.TrimSuffix(at.URL(), "/")
	resp, text := send(t, http.MethodGet, base+"/a2a/shouter/.well-known/agent-card.json", "", nil)
	if resp.StatusCode != 200 || strings.Contains(text, "elsewhere") || strings.Contains(text, `"signatures"`) ||
		!strings.Contains(text, `"url":"`+base+`/a2a/shouter`) || !strings.Contains(text, `"pushNotifications":false`) {
		t.Errorf("the card is HTTP %d %s", resp.StatusCode, text)
	}
	if resp, _ := send(t, http.MethodGet, base+"/a2a/shouter/.well-known/agent-card.json", "", http.Header{"If-None-Match": {resp.Header.Get("Etag")}}); resp.StatusCode != http.StatusNotModified {
		t.Errorf("the same card again: HTTP %d, want 304", resp.StatusCode)
	}
	if resp, text := send(t, http.MethodGet, base+"/a2a", "", nil); resp.StatusCode != 200 || strings.Count(text, `"name":"shouter"`) != 1 || strings.Contains(text, "silent") {
		t.Errorf("the list of agents is HTTP %d %s", resp.StatusCode, text)
	}
	if resp, text := send(t, http.MethodGet, base+"/a2a/silent/.well-known/agent-card.json", "", nil); resp.StatusCode != http.StatusBadGateway || !strings.Contains(text, `"upstream":"silent"`) {
		t.Errorf("the card of an agent that is down is HTTP %d %s, want 502", resp.StatusCode, text)
	}
	for _, binding := range []string{a2a.BindingJSONRPC, a2a.BindingREST} {
		c, card, err := a2ahttp.Dial(t.Context(), base+"/a2a/shouter", &a2ahttp.Options{Bindings: []string{binding}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello"))})
		if err != nil || got.Task.Text() != "HELLO" || card.Name != "shouter" {
			t.Errorf("%s: Send returned %v, %v, want HELLO", binding, got, err)
			continue
		}
		if task, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: got.Task.ID}); err != nil || task.Text() != "HELLO" {
			t.Errorf("%s: GetTask returned %v, %v, want HELLO", binding, task, err)
		}
		_, err = c.Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello")), Configuration: &a2a.Configuration{
			Push: &a2a.PushConfig{URL: "https://elsewhere.example/hook"},
		}})
		if err == nil {
			t.Errorf("%s: Send with a webhook: no error", binding)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
