package a2ahttp_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

func shouter(b *testing.B) *a2a.Client {
	card := a2a.AgentCard{Name: "shouter", Description: "Says it louder.", Version: "1.0",
		SupportedInterfaces: a2ahttp.Interfaces("/", "/"),
		Capabilities:        a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:   []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "shout", Name: "Shout", Description: "Makes text louder.", Tags: []string{"text"}}}}
	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(strings.ToUpper(r.Message.Text()))}})
	}), nil)
	b.Cleanup(s.Close)
	web := httptest.NewServer(&a2ahttp.Server{A2A: s})
	b.Cleanup(web.Close)
	c, _, err := a2ahttp.Dial(context.Background(), web.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// BenchmarkSend measures one task between a client and a server over loopback.
func BenchmarkSend(b *testing.B) {
	c := shouter(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Send(b.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello"))}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream measures the same with the events of the task.
func BenchmarkStream(b *testing.B) {
	c := shouter(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range c.Stream(b.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("hello"))}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
