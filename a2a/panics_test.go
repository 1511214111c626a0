package a2a_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/store"
)

// A brittleStore panics while it is broken.
type brittleStore struct {
	store.Store
	broken atomic.Bool
}

func (s *brittleStore) Append(ctx context.Context, log string, after uint64, events ...[]byte) (uint64, error) {
	if s.broken.Load() {
		panic("in a store")
	}
	return s.Store.Append(ctx, log, after, events...)
}

func (s *brittleStore) Put(ctx context.Context, key string, rev uint64, data []byte, ttl time.Duration) (uint64, error) {
	if s.broken.Load() {
		panic("in a store")
	}
	return s.Store.Put(ctx, key, rev, data, ttl)
}

// A brittlePusher panics.
type brittlePusher struct{ pushed chan struct{} }

func (brittlePusher) Check(context.Context, a2a.PushConfig) error { return nil }

func (p brittlePusher) Push(context.Context, a2a.Notice) error {
	select {
	case p.pushed <- struct{}{}:
	default:
	}
	panic("in a pusher")
}

// TestPanicsOfAServersFunctions: a Store or a Pusher that panics on a goroutine of the server is
// reported, and the server answers the next messages.
func TestPanicsOfAServersFunctions(t *testing.T) {
	kept := &brittleStore{Store: store.NewMemory(store.Limits{})}
	defer kept.Close()
	pusher := brittlePusher{make(chan struct{}, 1)}
	var mu sync.Mutex
	var reports []string
	reported := make(chan struct{}, 1)
	s := a2a.NewServer(a2a.AgentCard{Name: "x", Capabilities: a2a.AgentCapabilities{Streaming: true, PushNotifications: true}}, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if r.Message.Text() != "break" {
			return r.Artifact(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("fine")}})
		}
		if err := r.Working(ctx); err != nil {
			return err
		}
		kept.broken.Store(true)
		return nil
	}), &a2a.ServerOptions{Store: kept, Push: pusher, Report: func(what string, err error) {
		if what != "panic" {
			return
		}
		mu.Lock()
		reports = append(reports, err.Error())
		mu.Unlock()
		if strings.Contains(err.Error(), "in a store") {
			select {
			case reported <- struct{}{}:
			default:
			}
		}
	}})
	defer s.Close()
	c := connect(t, s, nil)
	if _, err := c.Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("x")), Configuration: &a2a.Configuration{Push: &a2a.PushConfig{URL: "https://x.example"}}}); err != nil {
		t.Fatal(err)
	}
	<-pusher.pushed
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reported; cancel() }()                                              // the task has no end that could be stored
	_, _ = c.Send(ctx, &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("break"))}) // its task is lost
	<-ctx.Done()
	kept.broken.Store(false)
	if e, err := c.Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("x"))}); err != nil || e.Task.Text() != "fine" {
		t.Errorf("afterwards: %+v, %v", e, err)
	}
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(reports, "\n")
	for _, want := range []string{"in a store", "in a pusher"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not reported", want)
		}
	}
}
