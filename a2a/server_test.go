package a2a_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestSendAndStream(t *testing.T) {
	for _, v := range a2a.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(echo), nil), &a2a.ClientOptions{Version: v})
			got, err := c.Send(t.Context(), text("hello"))
			if err != nil {
				t.Fatal(err)
			}
			if got.Task == nil || got.Task.Status.State != a2a.StateCompleted || got.Task.Text() != "hello" {
				t.Errorf("Send = %+v", got)
			}
			var states []a2a.TaskState
			var task a2a.Task
			for e, err := range c.Stream(t.Context(), text("again")) {
				if err != nil {
					t.Fatal(err)
				}
				states = append(states, e.State())
				task.Apply(e)
			}
			if len(states) != 3 || states[0] != a2a.StateSubmitted || states[2] != a2a.StateCompleted || task.Text() != "again" {
				t.Errorf("states %v, task %+v", states, task)
			}
		})
	}
}

// both runs a test in each version.
func both(t *testing.T, agent a2a.AgentFunc, o *a2a.ServerOptions, f func(t *testing.T, c *a2a.Client)) {
	t.Helper()
	for _, v := range a2a.Versions() {
		t.Run(v.String(), func(t *testing.T) {
			f(t, connect(t, a2a.NewServer(card(), agent, o), &a2a.ClientOptions{Version: v}))
		})
	}
}

// collect reads a stream until it ends.
func collect(t *testing.T, events func(func(a2a.Event, error) bool)) (all []a2a.Event, err error) {
	t.Helper()
	for e, failed := range events {
		if failed != nil {
			return all, failed
		}
		all = append(all, e)
	}
	return all, nil
}

func code(err error) int64 {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e.Code
	}
	return 0
}

func TestReplyIsNoTask(t *testing.T) {
	both(t, func(ctx context.Context, r *a2a.Run) error { return r.Reply(ctx, a2a.Text("Hi!")) }, nil, func(t *testing.T, c *a2a.Client) {
		got, err := c.Send(t.Context(), text("hello"))
		if err != nil || got.Message == nil || got.Message.Text() != "Hi!" || got.Message.Role != a2a.RoleAgent || got.Message.ContextID == "" {
			t.Errorf("Send = %+v, %v", got, err)
		}
		events, err := collect(t, c.Stream(t.Context(), text("hello")))
		if err != nil || len(events) != 1 || events[0].Message == nil {
			t.Errorf("Stream = %+v, %v", events, err)
		}
	})
}

func TestReplyAfterASlowStartCompletesTheTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
			time.Sleep(time.Second)
			return r.Reply(ctx, a2a.Text("Hi!"))
		}), nil), nil)
		got, err := c.Send(t.Context(), text("hello"))
		if err != nil || got.Task == nil || got.Task.Status.State != a2a.StateCompleted || got.Task.Status.Message.Text() != "Hi!" {
			t.Errorf("Send = %+v, %v", got, err)
		}
	})
}

func TestAskAndAnswer(t *testing.T) {
	both(t, func(ctx context.Context, r *a2a.Run) error {
		m, err := r.Ask(ctx, a2a.Text("Which one?"))
		if err != nil {
			return err
		}
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text("You said: " + m.Text())}})
	}, nil, func(t *testing.T, c *a2a.Client) {
		asked, err := c.Send(t.Context(), text("ask"))
		if err != nil || asked.Task.Status.State != a2a.StateInputRequired {
			t.Fatalf("Send = %+v, %v", asked, err)
		}
		wrong := text("x")
		wrong.Message.TaskID, wrong.Message.ContextID = asked.Task.ID, "another"
		if _, err := c.Send(t.Context(), wrong); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("with another context: %v", err)
		}
		more := text("the blue one")
		more.Message.TaskID = asked.Task.ID
		events, err := collect(t, c.Stream(t.Context(), more))
		if err != nil {
			t.Fatal(err)
		}
		var task a2a.Task
		for _, e := range events {
			task.Apply(e)
		}
		if task.ID != asked.Task.ID || task.Status.State != a2a.StateCompleted || task.Text() != "You said: the blue one" {
			t.Errorf("Stream = %+v", task)
		}
		final, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
		if err != nil {
			t.Fatal(err)
		}
		var talk []string
		for _, m := range final.History {
			talk = append(talk, m.Text())
			if m.TaskID != task.ID || m.ContextID != task.ContextID {
				t.Errorf("message %+v is not of the task", m)
			}
		}
		if diff := cmp.Diff([]string{"ask", "Which one?", "the blue one"}, talk); diff != "" {
			t.Errorf("history: %s", diff)
		}
		if last, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: task.ID, HistoryLength: new(1)}); err != nil || len(last.History) != 1 || last.History[0].Text() != "the blue one" {
			t.Errorf("historyLength 1: %+v, %v", last, err)
		}
		if none, err := c.Task(t.Context(), &a2a.GetTaskRequest{ID: task.ID, HistoryLength: new(0)}); err != nil || none.History != nil {
			t.Errorf("historyLength 0: %+v, %v", none, err)
		}
		if _, err := c.Send(t.Context(), more2(task.ID)); !errors.Is(err, a2a.ErrUnsupportedOperation) {
			t.Errorf("to a task that is over: %v", err)
		}
	})
}

func more2(id string) *a2a.SendRequest {
	r := text("more")
	r.Message.TaskID = id
	return r
}

func TestAnAgentThatLeavesTheTaskOpenIsRunAnew(t *testing.T) {
	var runs atomic.Int32
	both(t, func(ctx context.Context, r *a2a.Run) error {
		if runs.Add(1)%2 == 1 {
			return r.Status(ctx, a2a.StateInputRequired, a2a.Text("More?"))
		}
		task := r.Task()
		return r.Artifact(ctx, a2a.Artifact{Parts: []a2a.Part{a2a.Text(task.History[0].Text() + " " + r.Message.Text())}})
	}, nil, func(t *testing.T, c *a2a.Client) {
		first, err := c.Send(t.Context(), text("one"))
		if err != nil || first.Task.Status.State != a2a.StateInputRequired {
			t.Fatalf("Send = %+v, %v", first, err)
		}
		next := text("two")
		next.Message.TaskID = first.Task.ID
		if got, err := c.Send(t.Context(), next); err != nil || got.Task.Text() != "one two" {
			t.Errorf("Send = %+v, %v", got, err)
		}
	})
}

func TestHowRunsEnd(t *testing.T) {
	for name, one := range map[string]struct {
		agent a2a.AgentFunc
		state a2a.TaskState
		said  string
	}{
		"nothing to say": {func(context.Context, *a2a.Run) error { return nil }, a2a.StateCompleted, ""},
		"fail":           {func(context.Context, *a2a.Run) error { return a2a.Fail("no luck") }, a2a.StateFailed, "no luck"},
		"reject":         {func(context.Context, *a2a.Run) error { return a2a.Reject("not mine") }, a2a.StateRejected, "not mine"},
		"private":        {func(context.Context, *a2a.Run) error { return errors.New("/etc/secret") }, a2a.StateFailed, "The agent failed."},
		"panic":          {func(context.Context, *a2a.Run) error { panic("/etc/secret") }, a2a.StateFailed, "The agent failed."},
	} {
		t.Run(name, func(t *testing.T) {
			var reported atomic.Int32
			o := &a2a.ServerOptions{Report: func(string, error) { reported.Add(1) }}
			c := connect(t, a2a.NewServer(card(), one.agent, o), nil)
			got, err := c.Send(t.Context(), text("x"))
			if err != nil || got.Task == nil || got.Task.Status.State != one.state || got.Task.Status.Message.Text() != one.said {
				t.Errorf("Send = %+v, %v", got.Task, err)
			}
			if private := one.said == "The agent failed."; private != (reported.Load() == 1) {
				t.Errorf("%d errors were reported", reported.Load())
			}
		})
	}
}

func TestAnErrorBeforeAnythingWasSaidIsTheAnswer(t *testing.T) {
	both(t, func(context.Context, *a2a.Run) error {
		return a2a.Fault(a2a.ErrContentTypeNotSupported, "", "mediaType", "text/x")
	}, nil, func(t *testing.T, c *a2a.Client) {
		_, err := c.Send(t.Context(), text("x"))
		e, _ := errors.AsType[*jsonrpc.Error](err)
		want := []a2a.Detail{{Type: a2a.TypeErrorInfo, Reason: "CONTENT_TYPE_NOT_SUPPORTED", Domain: a2a.ErrorDomain, Metadata: map[string]string{"mediaType": "text/x"}}}
		if diff := cmp.Diff(want, a2a.Details(e)); diff != "" {
			t.Errorf("Send: %v %s", err, diff)
		}
		if _, err := collect(t, c.Stream(t.Context(), text("x"))); !errors.Is(err, a2a.ErrContentTypeNotSupported) {
			t.Errorf("Stream: %v", err)
		}
	})
}

func TestCancelReachesTheAgent(t *testing.T) {
	heard := make(chan time.Time, 4)
	both(t, func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		heard <- time.Now()
		if !errors.Is(context.Cause(ctx), a2a.ErrCanceled) {
			return errors.New("another cause")
		}
		return context.Cause(ctx)
	}, nil, func(t *testing.T, c *a2a.Client) {
		best := time.Hour // the best of several attempts: a busy machine may delay some
		for range 5 {
			r := text("wait")
			r.Configuration = &a2a.Configuration{ReturnImmediately: true}
			running, err := c.Send(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			at := time.Now()
			got, err := c.Cancel(t.Context(), running.Task.ID)
			if err != nil || got.Status.State != a2a.StateCanceled {
				t.Errorf("Cancel = %+v, %v", got, err)
			}
			best = min(best, (<-heard).Sub(at))
			if _, err := c.Cancel(t.Context(), running.Task.ID); !errors.Is(err, a2a.ErrTaskNotCancelable) {
				t.Errorf("Cancel again: %v", err)
			}
		}
		if best > 100*time.Millisecond {
			t.Errorf("the agent heard of it after %v", best)
		}
	})
}

func TestCancelDoesNotWaitForeverForADeafAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Hour) }) // Close does not wait for the agent
		c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
			time.Sleep(time.Hour)
			if err := r.Status(ctx, a2a.StateCompleted); !errors.Is(err, a2a.ErrTaskOver) {
				t.Errorf("Status after the cancel: %v", err)
			}
			return nil
		}), nil), nil)
		r := text("wait")
		r.Configuration = &a2a.Configuration{ReturnImmediately: true}
		running, err := c.Send(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		got, err := c.Cancel(t.Context(), running.Task.ID)
		if err != nil || got.Status.State != a2a.StateCanceled || time.Since(start) != 5*time.Second {
			t.Errorf("Cancel = %+v, %v after %v", got, err, time.Since(start))
		}
	})
}

func TestTheSameMessageTwiceIsWorkedOnOnce(t *testing.T) {
	var runs atomic.Int32
	both(t, func(ctx context.Context, r *a2a.Run) error {
		runs.Add(1)
		return echo(ctx, r)
	}, nil, func(t *testing.T, c *a2a.Client) {
		runs.Store(0)
		r := text("once")
		first, err := c.Send(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.Send(t.Context(), r)
		if err != nil || again.Task.ID != first.Task.ID || runs.Load() != 1 {
			t.Errorf("Send again = %+v, %v after %d runs", again.Task, err, runs.Load())
		}
		events, err := collect(t, c.Stream(t.Context(), r))
		if err != nil || len(events) != 1 || events[0].Task == nil || events[0].Task.ID != first.Task.ID {
			t.Errorf("Stream = %+v, %v", events, err)
		}
		other := text("another content")
		other.Message.MessageID = r.Message.MessageID
		if _, err := c.Send(t.Context(), other); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("the id with another content: %v", err)
		}
	})
}

func TestCapabilities(t *testing.T) {
	plain := card()
	plain.Capabilities = a2a.AgentCapabilities{Extensions: []a2a.AgentExtension{{URI: "urn:x", Required: true}}}
	s := a2a.NewServer(plain, a2a.AgentFunc(echo), nil)
	c := connect(t, s, &a2a.ClientOptions{Extensions: []string{"urn:x", "urn:unknown"}})
	if got, err := c.Send(t.Context(), text("x")); err != nil || got.Task == nil {
		t.Errorf("Send = %+v, %v", got, err)
	}
	if _, err := collect(t, c.Stream(t.Context(), text("x"))); !errors.Is(err, a2a.ErrUnsupportedOperation) {
		t.Errorf("Stream: %v", err)
	}
	if _, err := c.CreatePush(t.Context(), &a2a.PushConfig{TaskID: "x", URL: "https://example.com"}); !errors.Is(err, a2a.ErrPushNotSupported) {
		t.Errorf("CreatePush: %v", err)
	}
	if _, err := c.ExtendedCard(t.Context()); !errors.Is(err, a2a.ErrUnsupportedOperation) {
		t.Errorf("ExtendedCard: %v", err)
	}
	plain.Capabilities.ExtendedAgentCard = true
	s.SetCard(plain)
	if _, err := c.ExtendedCard(t.Context()); !errors.Is(err, a2a.ErrNoExtendedCard) {
		t.Errorf("ExtendedCard: %v", err)
	}
	if got, err := c.Card(t.Context()); err != nil || got.Name != "test" {
		t.Errorf("Card = %+v, %v", got, err)
	}
	other := connect(t, a2a.NewServer(plain, a2a.AgentFunc(echo), nil), nil)
	if _, err := other.Send(t.Context(), text("x")); !errors.Is(err, a2a.ErrExtensionRequired) {
		t.Errorf("Send without the extension: %v", err)
	}
}

// TestCardInAConversation checks that a card in a conversation contains no paths, which have a
// meaning over HTTP only, and that the server's own card retains them.
func TestCardInAConversation(t *testing.T) {
	own := card()
	own.SupportedInterfaces = []a2a.AgentInterface{
		{URL: "/a2a", ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"},
		{URL: "stdio:", ProtocolBinding: a2a.BindingStream, ProtocolVersion: "1.0"},
		{URL: "/a2a/rest", ProtocolBinding: a2a.BindingREST, ProtocolVersion: "1.0"},
	}
	s := a2a.NewServer(own, a2a.AgentFunc(echo), nil)
	got, err := connect(t, s, nil).Card(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(own.SupportedInterfaces[1:2], got.SupportedInterfaces); d != "" {
		t.Errorf("interfaces: -want +got\n%s", d)
	}
	if d := cmp.Diff(own.SupportedInterfaces, s.Card().SupportedInterfaces); d != "" {
		t.Errorf("the server's own: -want +got\n%s", d)
	}
}

func TestContentTypes(t *testing.T) {
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(echo), nil), nil)
	for mediaType, ok := range map[string]bool{"": true, "text/plain": true, "Text/Plain; charset=utf-8": true, "image/png": false} {
		r := text("x")
		r.Message.Parts[0].MediaType = mediaType
		if _, err := c.Send(t.Context(), r); errors.Is(err, a2a.ErrContentTypeNotSupported) == ok {
			t.Errorf("a part of %q: %v", mediaType, err)
		}
	}
}

func TestFullServersSayBusy(t *testing.T) {
	hold := make(chan struct{})
	c := connect(t, a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if r.Message.Text() == "hold" {
			if err := r.Working(ctx); err != nil {
				return err
			}
			<-hold
		}
		return echo(ctx, r)
	}), &a2a.ServerOptions{MaxTasks: 2}), nil)
	t.Cleanup(func() { close(hold) })
	for _, words := range []string{"one", "two", "three"} { // finished tasks make room
		if _, err := c.Send(t.Context(), text(words)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		r := text("hold")
		r.Configuration = &a2a.Configuration{ReturnImmediately: true}
		if _, err := c.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Send(t.Context(), text("four")); code(err) != jsonrpc.CodeBusy {
		t.Errorf("Send to a full server: %v", err)
	}
}

func TestCloseEndsAgentsAndConversations(t *testing.T) {
	s := a2a.NewServer(card(), a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		if err := r.Working(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}), nil)
	c := connect(t, s, nil)
	failed := make(chan error, 1)
	streaming := make(chan struct{}, 10)
	go func() {
		for _, err := range c.Stream(context.Background(), text("wait")) {
			if err != nil {
				failed <- err
				return
			}
			streaming <- struct{}{}
		}
		failed <- nil
	}()
	<-streaming
	s.Close()
	if err := <-failed; err == nil {
		t.Error("the stream ended as if all was well")
	}
}
