package a2a_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestTasksBelongToTheirCaller(t *testing.T) {
	var who atomic.Value
	who.Store("ann")
	s := a2a.NewServer(card(), a2a.AgentFunc(echo), &a2a.ServerOptions{Principal: func(context.Context) string { return who.Load().(string) }})
	c := connect(t, s, nil)
	mine, err := c.Send(t.Context(), text("mine"))
	if err != nil {
		t.Fatal(err)
	}
	who.Store("bob")
	if _, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: mine.Task.ID}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Task of somebody else: %v", err)
	}
	if _, err := c.Cancel(t.Context(), mine.Task.ID); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Cancel of somebody else's: %v", err)
	}
	if _, err := c.Send(t.Context(), more2(mine.Task.ID)); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Send to somebody else's: %v", err)
	}
	page, err := c.ListTasks(t.Context(), nil)
	if err != nil || page.TotalSize != 0 {
		t.Errorf("ListTasks = %+v, %v", page, err)
	}
}

func TestListTasks(t *testing.T) {
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if r.Message.Text() == "open" {
			return r.Status(ctx, a2a.StateInputRequired)
		}
		return echo(ctx, r)
	}), nil), nil)
	var ids []string
	for i := range 7 {
		r := text("done")
		if i == 3 {
			r = text("open")
		}
		r.Message.ContextID = "ctx"
		got, err := c.Send(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.Task.ID)
	}
	if _, err := c.Send(t.Context(), text("elsewhere")); err != nil {
		t.Fatal(err)
	}
	var found []string
	for task, err := range c.Tasks(t.Context(), &a2a.ListTasksRequest{ContextID: "ctx", PageSize: new(2)}) {
		if err != nil {
			t.Fatal(err)
		}
		if task.Artifacts != nil || task.History != nil {
			t.Errorf("artifacts or history that nobody asked for: %+v", task)
		}
		found = append(found, task.ID)
	}
	slices.Sort(ids)
	sorted := slices.Sorted(slices.Values(found))
	if diff := cmp.Diff(ids, sorted); diff != "" {
		t.Errorf("all pages: %s", diff)
	}
	page, err := c.ListTasks(t.Context(), &a2a.ListTasksRequest{ContextID: "ctx", Status: a2a.StateCompleted, IncludeArtifacts: true, HistoryLength: new(1)})
	if err != nil || page.TotalSize != 6 || page.NextPageToken != "" || page.PageSize != 50 || page.Tasks[0].Text() != "done" || len(page.Tasks[0].History) != 1 {
		t.Errorf("ListTasks = %+v, %v", page, err)
	}
	for i := range page.Tasks[1:] {
		if page.Tasks[i].Status.Timestamp.Before(page.Tasks[i+1].Status.Timestamp.Time) {
			t.Error("an older status stands first")
		}
	}
	for _, bad := range []*a2a.ListTasksRequest{{PageSize: new(0)}, {PageSize: new(101)}, {PageToken: "?"}, {HistoryLength: new(-1)}} {
		if _, err := c.ListTasks(t.Context(), bad); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("ListTasks(%+v): %v", bad, err)
		}
	}
}

func TestSubscribeGoesOnBehindAnEvent(t *testing.T) {
	step := make(chan struct{})
	both(t, func(ctx context.Context, r *a2a.Run) error {
		for _, word := range strings.Fields(r.Message.Text()) {
			<-step
			if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(word)}}, true, false); err != nil {
				return err
			}
		}
		return nil
	}, nil, func(t *testing.T, c *a2a.Client) {
		var seen []a2a.Event
		go func() {
			for range 3 {
				step <- struct{}{}
			}
		}()
		for e, err := range c.Stream(t.Context(), text("a b c d e")) { // leave after three events
			if err != nil {
				t.Fatal(err)
			}
			if seen = append(seen, e); len(seen) == 3 {
				break
			}
		}
		last := seen[len(seen)-1]
		go func() {
			for range 2 {
				step <- struct{}{}
			}
		}()
		for e, err := range c.Subscribe(t.Context(), seen[0].Task.ID, last.Seq) {
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, e)
		}
		var words string
		for i, e := range seen {
			if e.Seq != int64(i+1) {
				t.Errorf("event %d has the number %d", i, e.Seq)
			}
			if e.Artifact != nil {
				words += e.Artifact.Artifact.Parts[0].Text
			}
		}
		if words != "abcde" {
			t.Errorf("the words are %q", words)
		}
		if _, err := collect(t, c.Subscribe(t.Context(), seen[0].Task.ID, 0)); !errors.Is(err, a2a.ErrUnsupportedOperation) {
			t.Errorf("Subscribe to what is over: %v", err)
		}
		late, err := collect(t, c.Subscribe(t.Context(), seen[0].Task.ID, 4))
		if err != nil || len(late) != len(seen)-4 {
			t.Errorf("Subscribe behind event 4 = %d events, %v", len(late), err)
		}
	})
}

// TestManyStreamsOfOneTask checks that every stream of a task receives every event in the same
// order, and that leaving one affects neither the others nor the task.
func TestManyStreamsOfOneTask(t *testing.T) {
	working, step := make(chan struct{}), make(chan struct{})
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		close(working)
		for range 20 {
			<-step
			if err := r.Chunk(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text("x")}}, true, false); err != nil {
				return err
			}
		}
		return nil
	}), nil), nil)
	r := text("x")
	r.Configuration = &a2a.Configuration{ReturnImmediately: true}
	running, err := c.Send(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	<-working // an event between two subscriptions would be one more for the first of them
	const streams = 5
	var began, all sync.WaitGroup
	began.Add(streams)
	var seqs [streams][]int64
	for i := range streams {
		all.Go(func() {
			for e, err := range c.Subscribe(t.Context(), running.Task.ID, 0) {
				if err != nil {
					t.Errorf("stream %d: %v", i, err)
					return
				}
				if e.Task != nil {
					began.Done()
				}
				seqs[i] = append(seqs[i], e.Seq)
				if i == 0 && len(seqs[i]) == 5 {
					return
				}
			}
		})
	}
	began.Wait()
	for range 20 {
		step <- struct{}{}
	}
	all.Wait()
	for i := 1; i < streams; i++ {
		if diff := cmp.Diff(seqs[1], seqs[i]); diff != "" || len(seqs[i]) < 22 {
			t.Errorf("stream %d: %v %s", i, seqs[i], diff)
		}
	}
	if len(seqs[0]) != 5 {
		t.Errorf("the stream that was left had %v", seqs[0])
	}
}

// TestForgottenTasksMayComeAgain checks that the messages of a removed task are removed too.
func TestForgottenTasksMayComeAgain(t *testing.T) {
	var runs atomic.Int32
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		runs.Add(1)
		return echo(ctx, r)
	}), &a2a.ServerOptions{MaxTasks: 1}), nil)
	first := text("first")
	for _, r := range []*a2a.SendRequest{first, text("second"), first} {
		if _, err := c.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if runs.Load() != 3 {
		t.Errorf("%d runs", runs.Load())
	}
}
