package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// connectBare is connect without schema checks, which are slow for many messages.
func connectBare(t *testing.T, s *a2a.Server) *a2a.Client {
	t.Helper()
	here, there := inproc.Pipe(nil)
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), there) }()
	c := a2a.Connect(context.Background(), here, nil)
	t.Cleanup(func() {
		_ = c.Close()
		<-done
		s.Close()
	})
	return c
}

// heapInUse returns the bytes in use after a garbage collection.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func big(n int) *a2a.SendRequest { return text(strings.Repeat("x", n)) }

// TestTasksThatAreOverAreBounded checks that the memory of finished tasks is bounded in bytes:
// messages of users, output of agents, and replies without a task.
func TestTasksThatAreOverAreBounded(t *testing.T) {
	for name, agent := range map[string]a2a.AgentFunc{
		"silent": func(context.Context, *a2a.Run) error { return nil },
		"echo":   echo,
		"reply":  func(ctx context.Context, r *a2a.Run) error { return r.Reply(ctx, r.Message.Parts...) },
		"refuse": func(context.Context, *a2a.Run) error { return a2a.ErrUnsupportedOperation },
		"status": func(ctx context.Context, r *a2a.Run) error {
			return r.Status(ctx, a2a.StateRejected, r.Message.Parts...)
		},
		"panic": func(context.Context, *a2a.Run) error { panic("x") },
	} {
		t.Run(name, func(t *testing.T) {
			s := a2a.NewServer(card(), agent, &a2a.ServerOptions{MaxKept: 1 << 20})
			c := connectBare(t, s)
			if _, err := c.Send(t.Context(), text("warm up")); err != nil && name != "refuse" {
				t.Fatal(err)
			}
			before := heapInUse()
			for range 30 { // 7.5 MiB: more than the heap may grow
				if _, err := c.Send(t.Context(), big(256<<10)); err != nil && name != "refuse" {
					t.Fatal(err)
				}
			}
			if held := s.Held(); held > 1<<20+256<<10 {
				t.Errorf("%d bytes are counted", held)
			}
			if grown := heapInUse() - before; grown > 6<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
			runtime.KeepAlive(s)
		})
	}
}

// TestTasksAtWorkAreBounded checks that the memory of running tasks is bounded too: messages are
// rejected, agents get ErrTooLarge, and all bytes are released.
func TestTasksAtWorkAreBounded(t *testing.T) {
	s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		_, err := r.Ask(ctx, a2a.Text("More?"))
		return err
	}), &a2a.ServerOptions{MaxBytes: 4 << 20})
	c := connectBare(t, s)
	var ids []string
	var refused error
	for range 40 {
		got, err := c.Send(t.Context(), big(256<<10))
		if err != nil {
			refused = err
			continue
		}
		ids = append(ids, got.Task.ID)
	}
	if e, ok := errors.AsType[*jsonrpc.Error](refused); !ok || e.Code != jsonrpc.CodeBusy || len(ids) < 8 {
		t.Errorf("%d tasks, then %v", len(ids), refused)
	}
	if held := s.Held(); held > 4<<20 {
		t.Errorf("%d bytes are counted", held)
	}
	for _, id := range ids {
		if _, err := c.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Send(t.Context(), big(256<<10)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAgentsAreBoundedTogether(t *testing.T) {
	s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		for {
			if err := r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(strings.Repeat("x", 64<<10))}}); err != nil {
				return a2a.Fail(err.Error())
			}
		}
	}), &a2a.ServerOptions{MaxBytes: 2 << 20, MaxKept: 256 << 10})
	c := connectBare(t, s)
	for range 3 {
		got, err := c.Send(t.Context(), text("x"))
		if err != nil || !strings.Contains(got.Task.Status.Message.Text(), "exceeds its size limit") {
			t.Fatalf("%v, %v", got, err)
		}
	}
	if held := s.Held(); held > 2<<20 {
		t.Errorf("%d bytes are counted", held)
	}
}

// TestMessagesOfOneTaskCount checks that the messages of a task count against its limit.
func TestMessagesOfOneTaskCount(t *testing.T) {
	s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		for {
			if _, err := r.Ask(ctx, a2a.Text("More?")); err != nil {
				return err
			}
		}
	}), &a2a.ServerOptions{MaxTask: 4 << 20})
	c := connectBare(t, s)
	got, err := c.Send(t.Context(), big(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for err = nil; err == nil && n < 20; n++ {
		more := big(1 << 20)
		more.Message.TaskID = got.Task.ID
		_, err = c.Send(t.Context(), more)
	}
	if n > 4 || !errors.Is(err, a2a.ErrUnsupportedOperation) {
		t.Errorf("after %d messages: %v", n, err)
	}
}

// TestRoomIsShared checks that many tasks of one caller displace that caller's own tasks and not
// those of others, and that one caller's messages leave room for another's.
func TestRoomIsShared(t *testing.T) {
	var who atomic.Value
	who.Store("ann")
	release := make(chan struct{})
	s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if r.Message.Metadata["hold"] != nil {
			if err := r.Working(ctx); err != nil {
				return err
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil
	}), &a2a.ServerOptions{MaxTasks: 50, MaxBytes: 4 << 20, Principal: func(context.Context) string { return who.Load().(string) }})
	c := connectBare(t, s)
	var anns []string
	for range 5 {
		got, err := c.Send(t.Context(), text("mine"))
		if err != nil {
			t.Fatal(err)
		}
		anns = append(anns, got.Task.ID)
	}
	who.Store("mallory")
	for range 200 {
		if _, err := c.Send(t.Context(), text("spam")); err != nil {
			t.Fatal(err)
		}
	}
	held := func() error {
		r := big(256 << 10)
		r.Message.Metadata = a2a.Metadata{}.With("hold", 1)
		r.Configuration = &a2a.Configuration{ReturnImmediately: true}
		_, err := c.Send(t.Context(), r)
		return err
	}
	n := 0
	for ; n < 40 && held() == nil; n++ {
	}
	if n < 4 || n > 14 {
		t.Errorf("one caller may hold %d parts of 16", n)
	}
	for i := range 6 {
		who.Store(fmt.Sprint("caller ", i))
		if err := held(); err != nil {
			t.Errorf("caller %d: %v", i, err)
		}
	}
	who.Store("ann")
	for _, id := range anns {
		if _, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: id}); err != nil {
			t.Errorf("another's tasks displaced it: %v", err)
		}
	}
	close(release)
}

// TestLoadIsBounded checks that Load retains only the newest tasks of a store that has more than
// fit in memory.
func TestLoadIsBounded(t *testing.T) {
	kept := store.NewMemory(store.Limits{EventBytes: 4 << 20, LogBytes: 16 << 20})
	defer kept.Close()
	c := connectBare(t, a2a.NewServer(card(), a2a.AgentFunc(echo), &a2a.ServerOptions{Store: kept, MaxKept: 64 << 20}))
	var ids []string
	for range 16 {
		got, err := c.Send(t.Context(), big(256<<10))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.Task.ID)
	}
	s := a2a.NewServer(card(), a2a.AgentFunc(echo), &a2a.ServerOptions{Store: kept, MaxKept: 2 << 20})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = connectBare(t, s)
	if _, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: ids[len(ids)-1]}); err != nil {
		t.Errorf("the newest: %v", err)
	}
	if _, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: ids[0]}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("the oldest: %v", err)
	}
	if held := s.Held(); held > 2<<20 {
		t.Errorf("%d bytes are counted", held)
	}
}

// TestAStoreThatTakesNothing checks that the call fails if the store rejects all writes, and that
// the reserved bytes are released.
func TestAStoreThatTakesNothing(t *testing.T) {
	kept := store.NewMemory(store.Limits{EventBytes: 10})
	defer kept.Close()
	s := a2a.NewServer(card(), a2a.AgentFunc(echo), &a2a.ServerOptions{Store: kept})
	c := connectBare(t, s)
	for range 3 {
		if got, err := c.Send(t.Context(), big(1<<20)); err == nil {
			t.Fatalf("Send = %+v", got)
		}
	}
	if held := s.Held(); held > 1<<16 {
		t.Errorf("%d bytes are counted", held)
	}
}

// TestWebhooksGiveBackWhatTheyCount checks that a webhook that is replaced or removed, or cannot be
// stored, counts no longer.
func TestWebhooksGiveBackWhatTheyCount(t *testing.T) {
	pushing := card()
	pushing.Capabilities.PushNotifications = true
	config := a2a.PushConfig{ID: "one", URL: "https://x.example", Token: strings.Repeat("x", 10_000)}
	s := a2a.NewServer(pushing, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if r.Message.Text() == "ask" {
			_, err := r.Ask(ctx, a2a.Text("?"))
			return err
		}
		return echo(ctx, r)
	}), &a2a.ServerOptions{Push: brittlePusher{make(chan struct{}, 1)}, Report: func(string, error) {}})
	c := connectBare(t, s)
	for _, what := range []string{"ask", "over"} {
		got, err := c.Send(t.Context(), text(what))
		if err != nil {
			t.Fatal(err)
		}
		before := s.Held()
		config.TaskID = got.Task.ID
		for range 100 {
			if _, err := c.CreatePush(t.Context(), &config); err != nil {
				t.Fatal(err)
			}
		}
		if held := s.Held(); held < before+10_000 || held > before+20_000 {
			t.Errorf("%s: one webhook counts %d bytes", what, held-before)
		}
		if err := c.DeletePush(t.Context(), config.TaskID, config.ID); err != nil {
			t.Fatal(err)
		}
		if held := s.Held(); held != before {
			t.Errorf("%s: %d bytes are counted after the webhook was removed", what, held-before)
		}
	}

	kept := store.NewMemory(store.Limits{EventBytes: 10})
	defer kept.Close()
	full := a2a.NewServer(pushing, a2a.AgentFunc(echo), &a2a.ServerOptions{Store: kept, Push: brittlePusher{make(chan struct{}, 1)}, Report: func(string, error) {}})
	config.TaskID = ""
	asked := text("x")
	asked.Configuration = &a2a.Configuration{Push: &config}
	c = connectBare(t, full)
	for range 10 {
		if _, err := c.Send(t.Context(), asked); err == nil {
			t.Fatal("the store took a webhook")
		}
	}
	if held := full.Held(); held > 1<<14 {
		t.Errorf("%d bytes are counted for webhooks that were not stored", held)
	}
}

// TestAnEndThatDoesNotFit checks that a task ends although the log of the store has no room for its
// end, for its caller and after a restart, and that the server starts again.
func TestAnEndThatDoesNotFit(t *testing.T) {
	for name, limits := range map[string]store.Limits{
		"number of events": {LogEvents: 5}, "bytes": {LogBytes: 20_000}, "bytes of an event": {LogBytes: 20_000, EventBytes: 5_000},
	} {
		t.Run(name, func(t *testing.T) {
			kept := store.NewMemory(limits)
			defer kept.Close()
			o := &a2a.ServerOptions{Store: kept, Report: func(string, error) {}}
			agent := a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
				for i := range 1000 {
					if err := r.Artifact(ctx, a2a.Artifact{ArtifactID: strconv.Itoa(i), Parts: []a2a.Part{a2a.Text(strings.Repeat("x", 1000))}}); err != nil {
						return err
					}
				}
				return errors.New("the log took 1,000 events")
			})
			got, err := connectBare(t, a2a.NewServer(card(), agent, o)).Send(t.Context(), text("x"))
			if err != nil || got.Task.Status.State != a2a.StateFailed {
				t.Fatalf("%+v, %v; want a failed task", got, err)
			}
			again := a2a.NewServer(card(), agent, o)
			if err := again.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			task, err := connectBare(t, again).Task(t.Context(), &a2a.GetTaskRequest{ID: got.Task.ID})
			if err != nil || task.Status.State != a2a.StateFailed || len(task.Artifacts) == 0 && name != "bytes of an event" {
				t.Errorf("after a restart: %+v, %v", task, err)
			}
		})
	}
}
