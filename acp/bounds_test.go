package acp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

func TestPartsAndOutputAreBounded(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Part: 1000, Output: 3000}})
	long := strings.Repeat("x", 1001)
	s.add("long", func(ctx context.Context, j *acp.Job) error {
		for name, err := range map[string]error{
			"part":     j.Say(ctx, long),
			"metadata": j.Emit(ctx, acp.MessagePart{Metadata: &acp.PartMetadata{Kind: acp.KindTrajectory, Message: long}}),
			"extra":    j.Emit(ctx, acp.MessagePart{Extra: acp.Extra{"x": jsonrpc.Raw(`"` + long + `"`)}}),
			"generic":  j.Generic(ctx, map[string]string{"x": long}),
			"message":  j.Message(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("a"), acp.Text(long)}}),
		} {
			if !errors.Is(err, acp.ErrTooLarge) {
				return acp.Errorf("%s: %v", name, err)
			}
		}
		return j.Say(ctx, "fits")
	})
	s.add("much", func(ctx context.Context, j *acp.Job) error {
		for {
			if err := j.Say(ctx, long[:900]); err != nil {
				return err
			}
		}
	})
	c := s.local()
	var events []acp.Event
	run := must(t)(c.Stream(t.Context(), ask("long", "x"), record(t, &events)))
	if run.Status != acp.RunCompleted || run.Text() != "fits" || typesOf(events) != "run.created run.in-progress message.created message.part message.completed run.completed" {
		t.Errorf("%+v %v: what was refused left something behind: %s", run, run.Error, typesOf(events))
	}
	run = must(t)(c.Run(t.Context(), ask("much", "x")))
	if run.Status != acp.RunFailed || run.Error.Message != "The output of the agent exceeds the limit of a run." {
		t.Errorf("%+v, %v", run, run.Error)
	}
}

func TestJobRefusesNonsense(t *testing.T) {
	s := newStage(t, nil)
	s.add("nonsense", func(ctx context.Context, j *acp.Job) error {
		for name, err := range map[string]error{
			"generic array":  j.Generic(ctx, []int{1}),
			"generic func":   j.Generic(ctx, func() {}),
			"empty message":  j.Message(ctx, acp.Message{}),
			"both contents":  j.Emit(ctx, acp.MessagePart{Content: "x", ContentURL: "https://a.example"}),
			"no encoding":    j.Emit(ctx, acp.MessagePart{Content: "x", ContentEncoding: "gzip"}),
			"no URL":         j.Emit(ctx, acp.MessagePart{ContentURL: "x"}),
			"no UTF-8":       j.Say(ctx, "\xff"),
			"empty question": func() error { _, err := j.Await(ctx, acp.Message{}); return err }(),
		} {
			if err == nil {
				return acp.Errorf("%s was taken", name)
			}
		}
		return nil
	})
	var events []acp.Event
	run := must(t)(s.local().Stream(t.Context(), ask("nonsense", "x"), record(t, &events)))
	if run.Status != acp.RunCompleted || typesOf(events) != "run.created run.in-progress run.completed" {
		t.Errorf("%+v, %v, %s", run, run.Error, typesOf(events))
	}
}

// TestOldEventsAreForgotten checks that removed events are never skipped silently, and that the
// output is complete without them.
func TestOldEventsAreForgotten(t *testing.T) {
	for name, limits := range map[string]acp.Limits{
		"by number": {Events: 100},
		"by bytes":  {LogBytes: 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, &acp.Options{Limits: limits})
			const parts = 1000
			s.add("chatty", func(ctx context.Context, j *acp.Job) error {
				for i := range parts {
					if err := j.Say(ctx, fmt.Sprintf("%d ", i)); err != nil {
						return err
					}
				}
				return nil
			})
			c := s.connect(nil)
			run := must(t)(c.Run(t.Context(), ask("chatty", "x")))
			if n := len(strings.Fields(run.Text())); n != parts || run.Status != acp.RunCompleted {
				t.Errorf("%d words, %s", n, run.Status)
			}
			_, err := c.Events(t.Context(), run.ID, 0)
			var e *acp.Error
			var rpc *jsonrpc.Error
			if !errors.Is(err, acp.ErrNotKept) || !errors.As(err, &e) || !errors.As(err, &rpc) || rpc.Code != -32011 {
				t.Fatal(err)
			}
			var data struct {
				Oldest int64 `json:"oldest"`
			}
			if err := e.Data.Decode(&data); err != nil || data.Oldest < 2 {
				t.Fatalf("%s, %v", e.Data, err)
			}
			if _, err := c.Subscribe(t.Context(), run.ID, data.Oldest-2, func(acp.Event) error { return nil }); !errors.Is(err, acp.ErrNotKept) {
				t.Errorf("one before the oldest: %v", err)
			}
			var events []acp.Event
			must(t)(c.Subscribe(t.Context(), run.ID, data.Oldest-1, record(t, &events)))
			if events[0].Seq != data.Oldest || events[len(events)-1].Seq != parts+5 || int64(len(events)) != parts+5-data.Oldest+1 {
				t.Errorf("from %d to %d, %d events", events[0].Seq, events[len(events)-1].Seq, len(events))
			}
			if limits.Events > 0 && len(events) > limits.Events {
				t.Errorf("%d are kept", len(events))
			}
		})
	}
}

// TestSlowReaderIsTold checks that a reader that falls behind the stored events gets an error.
func TestSlowReaderIsTold(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Events: 10}})
	step := make(chan struct{})
	s.add("steps", func(ctx context.Context, j *acp.Job) error {
		<-step
		for range 400 {
			if err := j.Say(ctx, "x"); err != nil {
				return err
			}
		}
		step <- struct{}{}
		return nil
	})
	run, err := s.Create(t.Context(), &acp.RunCreateRequest{AgentName: "steps", Input: acp.Ask("x")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Follow(t.Context(), run.ID, 0, func(page []acp.Record) error {
		if page[0].Seq == 1 {
			step <- struct{}{}
			<-step // all output is emitted before this returns
		}
		return nil
	})
	if !errors.Is(err, acp.ErrNotKept) {
		t.Errorf("%v", err)
	}
}

func TestRunsAreForgotten(t *testing.T) {
	memory := store.NewMemory(acp.StoreLimits())
	defer memory.Close()
	s := newStage(t, &acp.Options{Store: memory, Limits: acp.Limits{Runs: 3, Sessions: 2}})
	c := s.local()
	var ids []string
	for range 5 {
		ids = append(ids, must(t)(c.Run(t.Context(), ask("echo", "x"))).ID)
	}
	for i, id := range ids {
		_, err := c.Status(t.Context(), id)
		if gone := i < 2; gone != errors.Is(err, acp.ErrNotFound) || !gone && err != nil {
			t.Errorf("run %d: %v", i+1, err)
		}
	}
	logs, err := memory.Heads(t.Context(), "acp/runs/", "acp/runs/", 0)
	if err != nil || len(logs) != 3 {
		t.Errorf("%d logs in the store, %v", len(logs), err)
	}
	messages, err := memory.List(t.Context(), "acp/messages/", "acp/messages/", 0)
	if err != nil || len(messages) != 4 {
		t.Errorf("%d messages in the store, %v", len(messages), err)
	}
	if got := strings.Count(s.log.text(), "run dropped"); got != 2 {
		t.Errorf("%d runs were reported:\n%s", got, s.log.text())
	}
	if got := strings.Count(s.log.text(), "session dropped"); got != 3 {
		t.Errorf("%d sessions were reported:\n%s", got, s.log.text())
	}
}

// TestUsedSessionsStay checks that the least recently used session is removed, and not the oldest
// one.
func TestUsedSessionsStay(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Sessions: 2}})
	c := s.local()
	first := must(t)(c.Run(t.Context(), ask("echo", "x"))).SessionID
	second := must(t)(c.Run(t.Context(), ask("echo", "x"))).SessionID
	must(t)(c.Run(t.Context(), in(first, ask("echo", "x"))))
	must(t)(c.Run(t.Context(), ask("echo", "x")))
	if session, err := c.Session(t.Context(), first); err != nil || len(session.History) != 4 {
		t.Errorf("%+v, %v", session, err)
	}
	if _, err := c.Session(t.Context(), second); !errors.Is(err, acp.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestRunsAreForgottenByBytes(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Bytes: 20_000}})
	c := s.local()
	first := must(t)(c.Run(t.Context(), ask("echo", strings.Repeat("x", 4000))))
	must(t)(c.Status(t.Context(), first.ID))
	second := must(t)(c.Run(t.Context(), ask("echo", strings.Repeat("x", 4000))))
	if _, err := c.Status(t.Context(), first.ID); !errors.Is(err, acp.ErrNotFound) {
		t.Errorf("the first: %v", err)
	}
	must(t)(c.Status(t.Context(), second.ID))
	// a single one is never removed
	big := must(t)(c.Run(t.Context(), ask("echo", strings.Repeat("x", 40_000))))
	must(t)(c.Status(t.Context(), big.ID))
}

func TestTooManyAtOnce(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Active: 2}})
	c := s.connect(nil)
	for range 2 {
		must(t)(c.Start(t.Context(), ask("wait", "x")))
	}
	_, err := c.Start(t.Context(), ask("wait", "x"))
	var rpc *jsonrpc.Error
	if !errors.Is(err, acp.ErrBusy) || !errors.As(err, &rpc) || rpc.Code != jsonrpc.CodeBusy {
		t.Errorf("%v", err)
	}
	job := eventually(t, s.begun)
	s.release <- struct{}{}
	_ = job
	for { // either of the two has ended
		if _, err = c.Start(t.Context(), ask("echo", "x")); !errors.Is(err, acp.ErrBusy) {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// TestTooMuchInput checks that the input of active runs is bounded in bytes too, and that ended
// runs release their share.
func TestTooMuchInput(t *testing.T) {
	s := newStage(t, &acp.Options{Limits: acp.Limits{Input: 10_000}})
	c := s.connect(nil)
	long := strings.Repeat("x", 6000)
	run := must(t)(c.Start(t.Context(), ask("wait", long)))
	if _, err := c.Start(t.Context(), ask("echo", long)); !errors.Is(err, acp.ErrBusy) {
		t.Errorf("%v", err)
	}
	must(t)(c.Run(t.Context(), ask("echo", "short")))
	must(t)(c.Cancel(t.Context(), run.ID))
	s.settle(run.ID)
	must(t)(c.Run(t.Context(), ask("echo", long)))
	must(t)(c.Run(t.Context(), ask("echo", long)))
}

type whoKey struct{}

func as(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

func principal(ctx context.Context) string {
	who, _ := ctx.Value(whoKey{}).(string)
	return who
}

func TestRunsBelongToTheirPrincipals(t *testing.T) {
	s := newStage(t, &acp.Options{Principal: principal, Limits: acp.Limits{Owned: 2}})
	c := s.local()
	ada, bob := as(t.Context(), "ada/x"), as(t.Context(), "bob")
	q := ask("echo", "secret")
	q.SessionID = uuid1
	run := must(t)(c.Run(ada, q))
	for name, try := range map[string]func() error{
		"status":    func() error { _, err := c.Status(bob, run.ID); return err },
		"events":    func() error { _, err := c.Events(bob, run.ID, 0); return err },
		"cancel":    func() error { _, err := c.Cancel(bob, run.ID); return err },
		"resume":    func() error { _, err := c.Resume(bob, run.ID, acp.Answer(acp.Text("x"))); return err },
		"subscribe": func() error { _, err := c.Subscribe(bob, run.ID, 0, func(acp.Event) error { return nil }); return err },
		"session":   func() error { _, err := c.Session(bob, uuid1); return err },
		"nobody":    func() error { _, err := c.Status(t.Context(), run.ID); return err },
	} {
		if err := try(); !errors.Is(err, acp.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// For another principal, the same id is another session.
	mine := ask("memory", "x")
	mine.SessionID = uuid1
	if got := must(t)(c.Run(bob, mine)); got.Text() != "end" {
		t.Errorf("%q", got.Text())
	}
	session, err := c.Session(ada, uuid1)
	if err != nil || len(session.History) != 2 {
		t.Fatalf("%+v, %v", session, err)
	}
	id := strings.TrimPrefix(session.History[0], "urn:uuid:")
	if _, err := s.Resource(bob, id); !errors.Is(err, acp.ErrNotFound) {
		t.Errorf("resource: %v", err)
	}
	if text, err := s.Resource(ada, id); err != nil || !strings.Contains(string(text), "secret") {
		t.Errorf("resource: %s, %v", text, err)
	}
	// The runs of one principal do not displace those of another.
	for range 5 {
		must(t)(c.Run(bob, ask("echo", "x")))
	}
	must(t)(c.Status(ada, run.ID))
	if strings.Count(s.log.text(), "run dropped") != 4 {
		t.Errorf("%s", s.log.text())
	}
}

// TestBytesOfSessionsAreBounded checks that long inputs, states and outputs of sessions cannot fill
// the store, also after a restart: the sessions that were used least recently make room.
func TestBytesOfSessionsAreBounded(t *testing.T) {
	const most = 1 << 20
	kept := store.NewMemory(store.Limits{Bytes: 4 * most})
	limits := acp.Limits{SessionBytes: most, Bytes: most}
	long := strings.Repeat("x", 100<<10)
	first := ""
	for start := range 2 {
		s := newStage(t, &acp.Options{Limits: limits, Store: kept, Report: func(string, error) {}})
		c := s.local()
		for i := range 40 {
			q := ask("echo", long)
			if i%2 == 0 {
				q.Session = &acp.Session{ID: uuidOf(start*100 + i), State: "https://h.example/" + long}
			}
			run := must(t)(c.Run(t.Context(), q))
			if run.Status != acp.RunCompleted {
				t.Fatalf("start %d, run %d: %s %v", start, i, run.Status, run.Error)
			}
			if first == "" {
				first = run.SessionID
			}
		}
		sessions := int64(0)
		for _, prefix := range []string{"acp/sessions/", "acp/messages/"} {
			for after := prefix; ; {
				page, err := kept.List(t.Context(), prefix, after, 0)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				for _, v := range page {
					sessions += int64(len(v.Data))
				}
				after = page[len(page)-1].Key
			}
		}
		if sessions > most || sessions < most/4 {
			t.Errorf("start %d: sessions hold %d KiB", start, sessions>>10)
		}
		if _, err := c.Session(t.Context(), first); err == nil {
			t.Error("the first session is still there")
		}
		_ = s.Close() // the next one loads what it stored
	}
}

// uuidOf returns a UUID with a number in it.
func uuidOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }
