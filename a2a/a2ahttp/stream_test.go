package a2ahttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/transport/websocket"
)

// many is the number of concurrent streams, and count is the number of words in each.
const (
	many  = 50
	count = 40
)

// TestFiftyStreamsAtOnce runs fifty streams on one WebSocket, and over HTTP: each caller receives
// its own events, all of them and in order.
func TestFiftyStreamsAtOnce(t *testing.T) {
	s := serve(t, card(), words, nil)
	dials := map[string]func(t *testing.T) *a2a.Client{
		"JSON-RPC": func(t *testing.T) *a2a.Client { return s.dial(t, nil) },
		"REST": func(t *testing.T) *a2a.Client {
			return s.dial(t, &a2ahttp.Options{Bindings: []string{a2a.BindingREST}})
		},
		"WebSocket": func(t *testing.T) *a2a.Client {
			conn, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/ws", nil)
			if err != nil {
				t.Fatal(err)
			}
			c := a2a.Connect(context.Background(), conn, nil)
			t.Cleanup(func() { _ = c.Close() })
			return c
		},
	}
	for name, dial := range dials {
		t.Run(name, func(t *testing.T) {
			c := dial(t)
			var all sync.WaitGroup
			for i := range many {
				all.Go(func() {
					var want []string
					for k := range count {
						want = append(want, fmt.Sprintf("%d.%d", i, k))
					}
					var got []string
					var seq int64
					for e, err := range c.Stream(t.Context(), text(strings.Join(want, " "))) {
						if err != nil {
							t.Errorf("stream %d: %v", i, err)
							return
						}
						if seq++; e.Seq != seq {
							t.Errorf("stream %d: event %d has the number %d", i, seq, e.Seq)
						}
						if e.Artifact != nil {
							got = append(got, e.Artifact.Artifact.Parts[0].Text)
						}
					}
					if seq != count+2 || strings.Join(got, " ") != strings.Join(want, " ") {
						t.Errorf("stream %d: %d events, %v", i, seq, got)
					}
				})
			}
			all.Wait()
		})
	}
}

// A tripper cuts off the response of every stream after some bytes, while cuts remain.
type tripper struct {
	http.RoundTripper
	cuts atomic.Int32
}

func (c *tripper) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && answer.Header.Get("Content-Type") == "text/event-stream" && c.cuts.Add(-1) >= 0 {
		answer.Body = &cutBody{answer.Body, 1500}
	}
	return answer, err
}

type cutBody struct {
	io.ReadCloser
	left int
}

var errCut = errors.New("cut by the test")

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errCut
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func TestABrokenStreamGoesOnWithoutGapOrDouble(t *testing.T) {
	for name, o := range map[string]*a2ahttp.Options{
		"1.0":  {},
		"0.3":  {ClientOptions: a2a.ClientOptions{Version: a2a.V03}},
		"REST": {Bindings: []string{a2a.BindingREST}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := http.DefaultTransport.(*http.Transport).Clone()
			t.Cleanup(base.CloseIdleConnections)
			cut := &tripper{RoundTripper: base}
			cut.cuts.Store(3)
			o.HTTP = &http.Client{Transport: cut}
			step := make(chan struct{}, 1)
			s := serve(t, card(), func(ctx context.Context, r *a2a.Run) error {
				for i, word := range strings.Fields(r.Message.Text()) {
					<-step
					if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(word)}}, i > 0, false); err != nil {
						return err
					}
				}
				return nil
			}, nil)
			go func() {
				for range 40 {
					step <- struct{}{}
				}
			}()
			var want []string
			for k := range 40 {
				want = append(want, fmt.Sprint(k))
			}
			var got []string
			seq := int64(0)
			for e, err := range s.dial(t, o).Stream(t.Context(), text(strings.Join(want, " "))) {
				if err != nil {
					t.Fatal(err)
				}
				if seq++; e.Seq != seq {
					t.Errorf("event %d has the number %d", seq, e.Seq)
				}
				if e.Artifact != nil {
					got = append(got, e.Artifact.Artifact.Parts[0].Text)
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("the words are %v", got)
			}
			if left := cut.cuts.Load(); left > 0 {
				t.Errorf("the stream was not cut: %d cuts are left", left)
			}
		})
	}
}

func TestHangingUpLeavesTheTask(t *testing.T) {
	cut, done := make(chan struct{}), make(chan error, 1)
	s := serve(t, card(), func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		<-cut
		done <- ctx.Err()
		return nil
	}, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	c := s.dial(t, nil)
	id := ""
	for e, err := range c.Stream(ctx, text("wait")) {
		if err != nil {
			break
		}
		id = e.TaskID()
		hangUp()
	}
	close(cut)
	if err := <-done; err != nil {
		t.Errorf("the agent's context ended with the connection: %v", err)
	}
	var last a2a.TaskState
	for last != a2a.StateCompleted {
		got, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		last = got.Status.State
	}
}

func TestCancelOverHTTPIsQuick(t *testing.T) {
	heard := make(chan time.Time, 1)
	s := serve(t, card(), func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		heard <- time.Now()
		return context.Cause(ctx)
	}, nil)
	c := s.dial(t, nil)
	best := time.Hour // the best of several attempts: a busy machine may delay some
	for range 5 {
		for e, err := range c.Stream(t.Context(), text("wait")) {
			if err != nil {
				t.Fatal(err)
			}
			if e.State() == a2a.StateWorking {
				at := time.Now()
				if got, err := c.Cancel(t.Context(), e.TaskID()); err != nil || got.Status.State != a2a.StateCanceled {
					t.Errorf("Cancel = %+v, %v", got, err)
				}
				best = min(best, (<-heard).Sub(at))
			}
		}
	}
	if best > 100*time.Millisecond {
		t.Errorf("the agent heard of it after %v", best)
	}
}
