package acp_test

import (
	"context"
	"testing"

	"github.com/da1ed7bb/parley/acp"
)

// BenchmarkCancel measures the time from a cancel to the moment when the agent's context has ended,
// beside streams of the same connection.
func BenchmarkCancel(b *testing.B) {
	const streams = 200
	for name, connect := range map[string]func(*stage) *acp.Client{
		"pipe":      func(s *stage) *acp.Client { return s.connect(nil) },
		"websocket": func(s *stage) *acp.Client { return listen(b, s, "ws://127.0.0.1:0") },
	} {
		b.Run(name, func(b *testing.B) {
			s := newStage(b, nil)
			c := connect(s)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			for range streams {
				go func() { // it ends with its context
					_, _ = c.Stream(ctx, ask("wait", "x"), func(acp.Event) error { return nil })
				}()
				eventually(b, s.begun)
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				run := must(b)(c.Start(b.Context(), ask("wait", "x")))
				eventually(b, s.begun)
				b.StartTimer()
				must(b)(c.Cancel(b.Context(), run.ID))
				_ = eventually(b, s.ended) // the cause of the end
			}
		})
	}
}
