package acphttp_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
)

func echoing(b *testing.B) *acp.Client {
	s := acp.NewServer(nil)
	b.Cleanup(func() { _ = s.Close() })
	s.Add(acp.Agent{
		Manifest: acp.AgentManifest{Name: "echo", Description: "Repeats your message."},
		Run:      func(ctx context.Context, j *acp.Job) error { return j.Say(ctx, j.Text()) },
	})
	handler, err := acphttp.NewREST(s, nil)
	if err != nil {
		b.Fatal(err)
	}
	web := httptest.NewServer(handler)
	b.Cleanup(web.Close)
	c, err := acphttp.Dial(web.URL, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// BenchmarkRun measures one run between a client and a server over loopback.
func BenchmarkRun(b *testing.B) {
	c := echoing(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Run(b.Context(), acp.RunCreateRequest{AgentName: "echo", Input: acp.Ask("Howdy!")}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream measures the same with the events of the run.
func BenchmarkStream(b *testing.B) {
	c := echoing(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Stream(b.Context(), acp.RunCreateRequest{AgentName: "echo", Input: acp.Ask("Howdy!")}, func(acp.Event) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
