package acp_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

func TestOrderOfEvents(t *testing.T) {
	s := newStage(t, nil)
	s.add("much", func(ctx context.Context, j *acp.Job) error {
		return errors.Join(
			j.Generic(ctx, map[string]int{"percent": 10}),
			j.Say(ctx, "a"), j.Say(ctx, "b"), j.End(ctx), j.End(ctx),
			j.Message(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("c"), acp.Bytes("image/png", []byte{1})}}),
			j.Emit(ctx, acp.Text("d"), acp.Text("e")),
			j.Message(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("f")}}),
			j.Say(ctx, "g"),
		)
	})
	tests := []struct{ agent, want, text string }{
		{"echo", "run.created run.in-progress message.created message.part message.completed run.completed", "x y"},
		{"words", "run.created run.in-progress message.created message.part message.part message.completed run.completed", "xy"},
		{"ask", "run.created run.in-progress run.awaiting", ""},
		{"much", "run.created run.in-progress generic message.created message.part message.part message.completed " +
			"message.created message.part message.part message.completed message.created message.part message.part message.completed " +
			"message.created message.part message.completed message.created message.part message.completed run.completed", "abcdefg"},
	}
	for _, tt := range tests {
		t.Run(tt.agent, func(t *testing.T) {
			var events []acp.Event
			run := must(t)(s.connect(nil).Stream(t.Context(), ask(tt.agent, "x y"), record(t, &events)))
			if got := typesOf(events); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if run.Text() != tt.text {
				t.Errorf("the output is %q, want %q", run.Text(), tt.text)
			}
			for i, e := range events {
				if e.Seq != int64(i)+1 {
					t.Errorf("event %d has number %d", i+1, e.Seq)
				}
			}
			for _, m := range run.Output {
				if m.Role != "agent/"+tt.agent || m.CompletedAt.Before(m.CreatedAt) || m.CreatedAt.IsZero() {
					t.Errorf("message %+v", m)
				}
			}
			if last := events[len(events)-1].Run; last.Status != run.Status || last.Text() != run.Text() {
				t.Errorf("the last event has %+v, the result is %+v", last, run)
			}
		})
	}
}

func TestHowRunsFail(t *testing.T) {
	s := newStage(t, nil)
	s.add("public", func(context.Context, *acp.Job) error {
		return &acp.Error{Code: acp.CodeInvalidInput, Message: "I want a number.", Data: jsonrpc.Raw(`{"at":1}`)}
	})
	s.add("private", func(context.Context, *acp.Job) error { return errors.New("secret path") })
	s.add("wrapped", func(context.Context, *acp.Job) error { return errors.Join(io.EOF, acp.Errorf("secret too")) })
	s.add("panics", func(context.Context, *acp.Job) error { panic("secret panic") })
	s.add("exits", func(context.Context, *acp.Job) error {
		runtime.Goexit()
		return nil
	})
	s.add("garbled", func(context.Context, *acp.Job) error { return acp.Errorf("\xff") })
	s.add("garbage", func(context.Context, *acp.Job) error {
		return &acp.Error{Code: acp.CodeServerError, Message: "m", Data: jsonrpc.Raw("{")}
	})
	s.add("half", func(ctx context.Context, j *acp.Job) error {
		return errors.Join(j.Say(ctx, "one"), j.End(ctx), j.Say(ctx, "two"), errors.New("then it broke"))
	})
	tests := []struct{ agent, code, message, text string }{
		{"public", "invalid_input", "I want a number.", ""},
		{"private", "server_error", "The agent failed.", ""},
		{"wrapped", "server_error", "The agent failed.", ""},
		{"panics", "server_error", "The agent failed unexpectedly.", ""},
		{"exits", "server_error", "The agent failed unexpectedly.", ""},
		{"garbled", "server_error", "The agent failed.", ""},
		{"garbage", "server_error", "The agent failed.", ""},
		// unfinished messages are in the events only
		{"half", "server_error", "The agent failed.", "one"},
	}
	c := s.connect(nil)
	for _, tt := range tests {
		var events []acp.Event
		run := must(t)(c.Stream(t.Context(), ask(tt.agent, "x"), record(t, &events)))
		if run.Status != acp.RunFailed || string(run.Error.Code) != tt.code || run.Error.Message != tt.message || run.Text() != tt.text || run.FinishedAt.IsZero() {
			t.Errorf("%s: %+v, error %+v", tt.agent, run, run.Error)
		}
		if got := events[len(events)-1].Type; got != acp.EventRunFailed {
			t.Errorf("%s: the last event is %s", tt.agent, got)
		}
		for _, e := range events {
			if text, _ := jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.ID{}, "x", e); strings.Contains(string(text), "secret") {
				t.Errorf("%s: goes out: %s", tt.agent, text)
			}
		}
	}
	for _, want := range []string{"secret path", "secret too", "secret panic", "run_test.go", "then it broke"} {
		if !strings.Contains(s.log.text(), want) {
			t.Errorf("%q is not in the log:\n%s", want, s.log.text())
		}
	}
}

func TestAwaitAndResume(t *testing.T) {
	s := newStage(t, nil)
	s.add("twice", func(ctx context.Context, j *acp.Job) error {
		for _, q := range []string{"one?", "two?"} {
			if err := j.Say(ctx, "before "+q); err != nil {
				return err
			}
			m, err := j.Await(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text(q)}})
			if err != nil {
				return err
			}
			if err := j.Say(ctx, m.Text()); err != nil {
				return err
			}
		}
		return nil
	})
	c := s.connect(nil)
	var first, second, third []acp.Event
	run := must(t)(c.Stream(t.Context(), ask("twice", "x"), record(t, &first)))
	if run.Status != acp.RunAwaiting || run.AwaitRequest.Type != "message" || run.AwaitRequest.Message.Text() != "one?" || run.Text() != "before one?" {
		t.Fatalf("%+v", run)
	}
	if got := typesOf(first); got != "run.created run.in-progress message.created message.part message.completed run.awaiting" {
		t.Error(got)
	}
	run = must(t)(c.ResumeStream(t.Context(), run.ID, acp.Answer(acp.Text("1")), record(t, &second)))
	// The text before and after the question forms separate messages, because the question
	// completes the first.
	if got := typesOf(second); got != "run.in-progress message.created message.part message.part message.completed run.awaiting" {
		t.Error(got)
	}
	if second[0].Run.AwaitRequest != nil || second[0].Seq != int64(len(first))+1 {
		t.Errorf("%+v", second[0])
	}
	if later := must(t)(c.ResumeLater(t.Context(), run.ID, acp.Answer(acp.Text("2")))); later.Status != acp.RunInProgress || later.AwaitRequest != nil {
		t.Errorf("%+v", later)
	}
	run = must(t)(c.Subscribe(t.Context(), run.ID, second[len(second)-1].Seq, record(t, &third)))
	if run.Status != acp.RunCompleted || run.Text() != "before one?1before two?2" {
		t.Errorf("%+v", run)
	}
	if got := typesOf(third); got != "run.in-progress message.created message.part message.completed run.completed" {
		t.Error(got)
	}
}

func TestResumeIsRefused(t *testing.T) {
	s := newStage(t, nil)
	c := s.connect(nil)
	done := must(t)(c.Run(t.Context(), ask("echo", "x")))
	waiting := must(t)(c.Run(t.Context(), ask("ask", "x")))
	working := must(t)(c.Start(t.Context(), ask("wait", "x")))
	eventually(t, s.begun)
	m := acp.UserMessage(acp.Text("y"))
	tests := []struct {
		name, id string
		answer   acp.AwaitResume
		want     error
		code     int64
	}{
		{"of a run that is over", done.ID, acp.Answer(acp.Text("y")), acp.ErrNotAwaiting, -32010},
		{"of a run that works", working.ID, acp.Answer(acp.Text("y")), acp.ErrNotAwaiting, -32010},
		{"with another type", waiting.ID, acp.AwaitResume{Type: "form", Message: &m}, acp.ErrNotAwaiting, -32010},
		{"without a message", waiting.ID, acp.AwaitResume{Type: "message"}, acp.ErrInvalid, -32602},
		{"without a type", waiting.ID, acp.AwaitResume{Message: &m}, acp.ErrInvalid, -32602},
		{"of no run", uuid1, acp.Answer(acp.Text("y")), acp.ErrNotFound, -32001},
	}
	for _, tt := range tests {
		_, err := c.Resume(t.Context(), tt.id, tt.answer)
		var rpc *jsonrpc.Error
		if !errors.Is(err, tt.want) || !errors.As(err, &rpc) || rpc.Code != tt.code {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if run := must(t)(c.Resume(t.Context(), waiting.ID, acp.Answer(acp.Text("Ada")))); run.Text() != "Hello Ada" {
		t.Errorf("after all that: %+v", run)
	}
}

func TestOneQuestionAtATime(t *testing.T) {
	s := newStage(t, nil)
	tried := make(chan struct{})
	s.add("both", func(ctx context.Context, j *acp.Job) error {
		first := make(chan error, 1)
		go func() {
			_, err := j.Await(ctx, acp.UserMessage(acp.Text("one?")))
			first <- err
		}()
		if _, err := s.Wait(ctx, j.ID()); err != nil {
			return err
		}
		_, err := j.Await(ctx, acp.UserMessage(acp.Text("two?")))
		close(tried)
		if err == nil {
			return errors.New("a second question was taken")
		}
		return <-first
	})
	c := s.local()
	run := must(t)(c.Run(t.Context(), ask("both", "x")))
	eventually(t, tried)
	if run = must(t)(c.Resume(t.Context(), run.ID, acp.Answer(acp.Text("1")))); run.Status != acp.RunCompleted {
		t.Errorf("%+v: %v", run, run.Error)
	}
}

func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, &acp.Options{AwaitTime: time.Hour})
		c := s.local()
		run := must(t)(c.Run(t.Context(), ask("ask", "x")))
		start := time.Now()
		var events []acp.Event
		run = must(t)(c.Subscribe(t.Context(), run.ID, 3, record(t, &events)))
		if run.Status != acp.RunAwaiting || len(events) != 0 {
			t.Fatalf("%+v %v", run, typesOf(events))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		run = must(t)(c.Status(t.Context(), run.ID))
		if run.Status != acp.RunFailed || run.Error.Message != "No answer in time." || time.Since(start) != time.Hour {
			t.Errorf("%+v, error %+v", run, run.Error)
		}
		if _, err := c.Resume(t.Context(), run.ID, acp.Answer(acp.Text("y"))); !errors.Is(err, acp.ErrNotAwaiting) {
			t.Errorf("resume: %v", err)
		}
	})
}

// TestAgentThatStopsWaiting checks that an agent may limit its wait for an answer, and continue
// without one.
func TestAgentThatStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, nil)
		s.add("impatient", func(ctx context.Context, j *acp.Job) error {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := j.Await(short, acp.UserMessage(acp.Text("quick?")))
			if !errors.Is(err, context.DeadlineExceeded) {
				return errors.Join(errors.New("no deadline"), err)
			}
			return j.Say(ctx, "never mind")
		})
		c := s.local()
		run := must(t)(c.Run(t.Context(), ask("impatient", "x")))
		if run.Status != acp.RunAwaiting {
			t.Fatalf("%+v", run)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		events, err := c.Events(t.Context(), run.ID, 0)
		if got := typesOf(events); err != nil || got != "run.created run.in-progress run.awaiting run.in-progress message.created message.part message.completed run.completed" {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestModes(t *testing.T) {
	s := newStage(t, nil)
	c := s.connect(nil)
	if run := must(t)(c.Start(t.Context(), ask("wait", "x"))); run.Status != acp.RunCreated || len(run.Output) != 0 {
		t.Errorf("async: %+v", run)
	}
	job := eventually(t, s.begun)
	if run := must(t)(c.Status(t.Context(), job.ID())); run.Status != acp.RunInProgress {
		t.Errorf("%+v", run)
	}
	s.release <- struct{}{}
	if run := s.settle(job.ID()); run.Status != acp.RunCompleted || run.Text() != "done" {
		t.Errorf("%+v", run)
	}
	// The run continues after its caller has disconnected.
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		job = eventually(t, s.begun)
		cancel()
	}()
	if _, err := c.Run(ctx, ask("wait", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("sync: %v", err)
	}
	if run := must(t)(c.Status(t.Context(), job.ID())); run.Status != acp.RunInProgress {
		t.Errorf("%+v", run)
	}
}

func TestCancelOnDisconnect(t *testing.T) {
	s := newStage(t, &acp.Options{CancelOnDisconnect: true})
	c := s.connect(nil)
	for name, call := range map[string]func(context.Context) error{
		"sync": func(ctx context.Context) error { _, err := c.Run(ctx, ask("wait", "x")); return err },
		"stream": func(ctx context.Context) error {
			_, err := c.Stream(ctx, ask("wait", "x"), func(acp.Event) error { return nil })
			return err
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			eventually(t, s.begun)
			cancel()
		}()
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if cause := eventually(t, s.ended); !errors.Is(cause, acp.ErrCancelled) {
			t.Errorf("%s: %v", name, cause)
		}
	}
}

func TestServerRefuses(t *testing.T) {
	s := acp.NewServer(nil)
	defer s.Close()
	run := func(context.Context, *acp.Job) error { return nil }
	s.Add(acp.Agent{Manifest: acp.AgentManifest{Name: "a"}, Run: run})
	for _, a := range []acp.Agent{
		{Manifest: acp.AgentManifest{Name: "a"}, Run: run},
		{Manifest: acp.AgentManifest{Name: "b"}},
		{Manifest: acp.AgentManifest{Name: ""}, Run: run},
		{Manifest: acp.AgentManifest{Name: "-b"}, Run: run},
		{Manifest: acp.AgentManifest{Name: "b-"}, Run: run},
		{Manifest: acp.AgentManifest{Name: "B"}, Run: run},
		{Manifest: acp.AgentManifest{Name: "a_b"}, Run: run},
		{Manifest: acp.AgentManifest{Name: strings.Repeat("a", 64)}, Run: run},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken", a.Manifest.Name)
				}
			}()
			s.Add(a)
		}()
	}
	if !s.Remove("a") || s.Remove("a") {
		t.Error("Remove")
	}
	if _, err := s.Agent("a"); !errors.Is(err, acp.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestShutdown(t *testing.T) {
	s := newStage(t, nil)
	c := s.local()
	waiting := must(t)(c.Run(t.Context(), ask("ask", "x"))) // Shutdown does not wait for it
	must(t)(c.Start(t.Context(), ask("wait", "x")))
	job := eventually(t, s.begun)
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	for { // until it rejects new runs
		_, err := c.Start(t.Context(), ask("echo", "x"))
		if errors.Is(err, acp.ErrBusy) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.release <- struct{}{}
	if err := eventually(t, done); err != nil {
		t.Error(err)
	}
	_, _ = waiting, job
}

// TestCloseWhileRunsBegin checks that runs that begin while the server closes are rejected, or
// closed with it.
func TestCloseWhileRunsBegin(t *testing.T) {
	for range 20 {
		s := newStage(t, nil)
		c := s.local()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for {
					if _, err := c.Start(t.Context(), ask("ask", "x")); err != nil {
						if !errors.Is(err, acp.ErrBusy) && !errors.Is(err, acp.ErrServer) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

func TestShutdownIsBounded(t *testing.T) {
	s := newStage(t, nil)
	must(t)(s.local().Start(t.Context(), ask("wait", "x")))
	eventually(t, s.begun)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if err := s.Shutdown(ctx); !errors.Is(err, cause) {
		t.Error(err)
	}
	if err := eventually(t, s.ended); !errors.Is(err, acp.ErrShutdown) {
		t.Error(err)
	}
}
