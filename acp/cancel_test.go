package acp_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

func TestCancel(t *testing.T) {
	s := newStage(t, nil)
	c := s.connect(nil)
	t.Run("while it works", func(t *testing.T) {
		run := must(t)(c.Start(t.Context(), ask("wait", "x")))
		eventually(t, s.begun)
		if got := must(t)(c.Cancel(t.Context(), run.ID)); got.Status != acp.RunCancelling || got.AwaitRequest != nil {
			t.Errorf("%+v", got)
		}
		if cause := eventually(t, s.ended); !errors.Is(cause, acp.ErrCancelled) {
			t.Errorf("cause %v", cause)
		}
		if got := s.settle(run.ID); got.Status != acp.RunCancelled || got.FinishedAt.IsZero() || got.Error != nil {
			t.Errorf("%+v", got)
		}
	})
	t.Run("while it awaits", func(t *testing.T) {
		run := must(t)(c.Run(t.Context(), ask("ask", "x")))
		if got := must(t)(c.Cancel(t.Context(), run.ID)); got.Status != acp.RunCancelling || got.AwaitRequest != nil {
			t.Errorf("%+v", got)
		}
		for got := range statuses(t, s, run.ID) {
			if got == acp.RunAwaiting {
				t.Error("it awaits again")
			}
		}
		if _, err := c.Resume(t.Context(), run.ID, acp.Answer(acp.Text("y"))); !errors.Is(err, acp.ErrNotAwaiting) {
			t.Errorf("resume: %v", err)
		}
	})
	t.Run("of its own stream, on the same connection", func(t *testing.T) {
		var events []acp.Event
		note := record(t, &events)
		run := must(t)(c.Stream(t.Context(), ask("wait", "x"), func(e acp.Event) error {
			if e.Type == acp.EventRunInProgress {
				must(t)(c.Cancel(t.Context(), e.Run.ID))
			}
			return note(e)
		}))
		if run.Status != acp.RunCancelled || typesOf(events) != "run.created run.in-progress run.cancelled" {
			t.Errorf("%+v %s", run, typesOf(events))
		}
	})
	t.Run("of what is over", func(t *testing.T) {
		run := must(t)(c.Run(t.Context(), ask("echo", "x")))
		_, err := c.Cancel(t.Context(), run.ID)
		var rpc *jsonrpc.Error
		if !errors.Is(err, acp.ErrOver) || !errors.As(err, &rpc) || rpc.Code != -32002 {
			t.Error(err)
		}
		if got := must(t)(c.Status(t.Context(), run.ID)); got.Status != acp.RunCompleted {
			t.Errorf("%+v", got)
		}
		if _, err := c.Cancel(t.Context(), uuid1); !errors.Is(err, acp.ErrNotFound) {
			t.Error(err)
		}
	})
}

// statuses follows a run until it ends.
func statuses(t *testing.T, s *stage, id string) func(func(acp.RunStatus) bool) {
	return func(yield func(acp.RunStatus) bool) {
		for {
			run := s.settle(id)
			if !yield(run.Status) || run.Status.Terminal() {
				return
			}
		}
	}
}

// TestCancelOfAStubbornAgent checks that the run of an agent that ignores its context remains
// cancelling, that its output is rejected, and that a second cancel changes nothing.
func TestCancelOfAStubbornAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		var said, asked error
		s.add("stubborn", func(_ context.Context, j *acp.Job) error {
			time.Sleep(time.Minute)
			said = j.Say(context.Background(), "too late")
			_, asked = j.Await(context.Background(), acp.UserMessage(acp.Text("?")))
			return nil
		})
		c := s.local()
		run := must(t)(c.Start(t.Context(), ask("stubborn", "x")))
		synctest.Wait()
		for range 2 {
			if got := must(t)(c.Cancel(t.Context(), run.ID)); got.Status != acp.RunCancelling {
				t.Errorf("%+v", got)
			}
		}
		if got := must(t)(c.Status(t.Context(), run.ID)); got.Status != acp.RunCancelling {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		got := must(t)(c.Status(t.Context(), run.ID))
		if got.Status != acp.RunCancelled || len(got.Output) != 0 || !errors.Is(said, acp.ErrCancelled) || !errors.Is(asked, acp.ErrCancelled) {
			t.Errorf("%+v, Say %v, Await %v", got, said, asked)
		}
	})
}

// TestCancelOvertakesStreams checks that a cancel does not wait for the streams of its own
// connection, whatever their number: they would never end. BenchmarkCancel measures how soon it
// reaches the agent.
func TestCancelOvertakesStreams(t *testing.T) {
	s := newStage(t, nil)
	const streams = 256 // the maximum number of running requests of one conversation
	c := s.connect(nil)
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			run, err := c.Stream(t.Context(), ask("wait", "x"), func(acp.Event) error { return nil })
			if err != nil || run.Status != acp.RunCancelled {
				t.Errorf("%+v, %v", run, err)
			}
		})
	}
	jobs := make([]*acp.Job, streams)
	for i := range jobs {
		jobs[i] = eventually(t, s.begun)
	}
	for _, j := range jobs {
		must(t)(c.Cancel(t.Context(), j.ID()))
		if cause := eventually(t, s.ended); !errors.Is(cause, acp.ErrCancelled) {
			t.Error(cause)
		}
	}
	all.Wait()
}

// TestRaces cancels, answers, emits and disconnects at the same moment: each run ends once,
// consistently with its events.
func TestRaces(t *testing.T) {
	s := newStage(t, nil)
	c := s.connect(nil)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			run, err := c.Run(t.Context(), ask("ask", "x"))
			if err != nil {
				t.Error(err)
				return
			}
			var two sync.WaitGroup
			two.Go(func() { _, _ = c.Resume(t.Context(), run.ID, acp.Answer(acp.Text("y"))) })
			if i%2 == 0 {
				two.Go(func() { _, _ = c.Cancel(t.Context(), run.ID) })
			}
			two.Wait()
			got := s.settle(run.ID)
			for !got.Status.Terminal() {
				got = s.settle(run.ID)
			}
			events, err := c.Events(t.Context(), run.ID, 0)
			last := events[len(events)-1]
			if err != nil || last.Run == nil || last.Run.Status != got.Status || string(last.Type) != "run."+string(got.Status) {
				t.Errorf("%s, %+v", typesOf(events), got)
			}
		})
	}
	all.Wait()
}

// A gated store blocks an append of a run until it is released.
type gated struct {
	store.Store
	entered, open chan struct{}
	shut          atomic.Bool
}

func (g *gated) Append(ctx context.Context, key string, after uint64, events ...[]byte) (uint64, error) {
	if g.shut.Load() {
		g.entered <- struct{}{}
		<-g.open
	}
	return g.Store.Append(ctx, key, after, events...)
}

// TestCancelWhileTheStoreWrites checks that a write in progress does not undo a cancel.
func TestCancelWhileTheStoreWrites(t *testing.T) {
	g := &gated{Store: store.NewMemory(acp.StoreLimits()), entered: make(chan struct{}), open: make(chan struct{})}
	defer g.Close()
	s := newStage(t, &acp.Options{Store: g})
	wrote, leave := make(chan error), make(chan struct{})
	s.add("writes", func(ctx context.Context, j *acp.Job) error {
		g.shut.Store(true)
		wrote <- j.Say(ctx, "x")
		<-leave
		return nil
	})
	s.add("asks", func(ctx context.Context, j *acp.Job) error {
		g.shut.Store(true)
		_, err := j.Await(ctx, acp.UserMessage(acp.Text("?")))
		wrote <- err
		<-leave
		return nil
	})
	c := s.connect(nil)
	for agent, want := range map[string]error{"writes": nil, "asks": acp.ErrCancelled} {
		run := must(t)(c.Start(t.Context(), ask(agent, "x")))
		eventually(t, g.entered)
		must(t)(c.Cancel(t.Context(), run.ID))
		g.shut.Store(false)
		g.open <- struct{}{}
		if err := eventually(t, wrote); !errors.Is(err, want) {
			t.Errorf("%s: %v", agent, err)
		}
		if got := must(t)(c.Status(t.Context(), run.ID)); got.Status != acp.RunCancelling || got.AwaitRequest != nil {
			t.Errorf("%s: %+v", agent, got)
		}
		leave <- struct{}{}
		if got := s.settle(run.ID); got.Status != acp.RunCancelled {
			t.Errorf("%s: %+v", agent, got)
		}
	}
}

// TestResumeWhileTheStoreWrites checks that output that is being written when an answer arrives
// does not undo the answer.
func TestResumeWhileTheStoreWrites(t *testing.T) {
	g := &gated{Store: store.NewMemory(acp.StoreLimits()), entered: make(chan struct{}), open: make(chan struct{})}
	defer g.Close()
	s := newStage(t, &acp.Options{Store: g})
	speak, spoke := make(chan struct{}), make(chan error, 1)
	s.add("asks", func(ctx context.Context, j *acp.Job) error {
		go func() {
			<-speak
			spoke <- j.Say(ctx, "x")
		}()
		m, err := j.Await(ctx, acp.UserMessage(acp.Text("?")))
		if err != nil {
			return err
		}
		return j.Say(ctx, m.Text())
	})
	c := s.connect(nil)
	run := must(t)(c.Run(t.Context(), ask("asks", "x")))
	if run.Status != acp.RunAwaiting {
		t.Fatalf("%+v", run)
	}
	g.shut.Store(true)
	close(speak)
	eventually(t, g.entered) // the output is being written
	must(t)(c.ResumeLater(t.Context(), run.ID, acp.Answer(acp.Text("y"))))
	g.open <- struct{}{}
	eventually(t, g.entered) // it was written, and the agent continues
	if got := must(t)(c.Status(t.Context(), run.ID)); got.Status != acp.RunInProgress || got.AwaitRequest != nil {
		t.Errorf("after the answer: %s, %+v", got.Status, got.AwaitRequest)
	}
	g.shut.Store(false)
	g.open <- struct{}{}
	if err := eventually(t, spoke); err != nil {
		t.Error(err)
	}
	if got := s.settle(run.ID); got.Status != acp.RunCompleted || !strings.Contains(got.Text(), "y") {
		t.Errorf("%+v", got)
	}
}

// TestRunsWithAFullLog checks that a run whose log had no room for another event when the process
// died has failed after a restart, and that the server starts.
func TestRunsWithAFullLog(t *testing.T) {
	kept := store.NewMemory(store.Limits{LogEvents: 10})
	defer kept.Close()
	o := &acp.Options{Store: kept, Limits: acp.Limits{Events: 10}, Report: func(string, error) {}}
	s := newStage(t, o)
	full := make(chan error, 1)
	s.add("fills", func(ctx context.Context, j *acp.Job) error {
		for {
			heads, err := kept.Heads(ctx, "acp/runs/", "acp/runs/", 0)
			switch {
			case err != nil:
			case heads[0].Last < 7:
				err = j.Message(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("x")}})
			case heads[0].Last < 10:
				err = j.Generic(ctx, map[string]int{"mark": 1})
			default:
				full <- nil
				<-ctx.Done()
				return context.Cause(ctx)
			}
			if err != nil {
				full <- err
				return err
			}
		}
	})
	run := must(t)(s.connect(nil).Start(t.Context(), ask("fills", "x")))
	if err := eventually(t, full); err != nil {
		t.Fatal(err)
	}
	again := newStage(t, o) // as after kill -9
	if err := again.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := must(t)(again.connect(nil).Status(t.Context(), run.ID))
	if got.Status != acp.RunFailed || !strings.Contains(got.Text(), "x") {
		t.Errorf("after a restart: %+v", got)
	}
}
