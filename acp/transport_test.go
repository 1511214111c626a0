package acp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// transports maps the names of all transports to functions that connect a client.
var transports = map[string]func(t *testing.T, s *stage) *acp.Client{
	"local":  func(_ *testing.T, s *stage) *acp.Client { return s.local() },
	"inproc": func(_ *testing.T, s *stage) *acp.Client { return s.connect(nil) },
	"stdio": func(t *testing.T, s *stage) *acp.Client { // two pipes, a line for each message
		here, there := net.Pipe()
		var done sync.WaitGroup
		done.Go(func() { _ = s.Serve(context.WithoutCancel(t.Context()), stream.New(there, stream.Line, nil)) })
		c := acp.Connect(t.Context(), stream.New(here, stream.Line, nil), nil)
		t.Cleanup(func() {
			c.Close()
			done.Wait()
		})
		return c
	},
	"unix": func(t *testing.T, s *stage) *acp.Client {
		return listen(t, s, "unix:"+filepath.Join(t.TempDir(), "acp.sock"))
	},
	"tcp":       func(t *testing.T, s *stage) *acp.Client { return listen(t, s, "tcp://127.0.0.1:0") },
	"websocket": func(t *testing.T, s *stage) *acp.Client { return listen(t, s, "ws://127.0.0.1:0") },
	"http":      func(t *testing.T, s *stage) *acp.Client { return listen(t, s, "http://127.0.0.1:0") },
	"acphttp": func(t *testing.T, s *stage) *acp.Client {
		h, err := acphttp.NewRPC(s.Server, nil)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(h)
		c := acp.NewClient(httprpc.NewClient(web.URL, &httprpc.Options{Open: acp.Open}), nil)
		t.Cleanup(func() {
			c.Close()
			web.Close()
		})
		return c
	},
	"REST": func(t *testing.T, s *stage) *acp.Client {
		h, err := acphttp.NewREST(s.Server, nil)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(http.StripPrefix("/acp", h))
		c, err := acphttp.Dial(web.URL+"/acp/", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			c.Close()
			web.Close()
		})
		return c
	},
}

// listen serves at an address, as for any other Handler, and dials it.
func listen(t testing.TB, s *stage, address string) *acp.Client {
	t.Helper()
	target, err := parley.ParseTarget(address)
	if err != nil {
		t.Fatal(err)
	}
	l := &parley.Listener{Handler: s.Server, Mode: acp.Mode, Report: func(string, error) {}}
	server, err := l.Listen(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(context.WithoutCancel(t.Context())) })
	caller, err := parley.Dial(t.Context(), server.Targets()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	c := acp.NewClient(caller, nil)
	t.Cleanup(func() {
		c.Close()
		server.Close()
		done.Wait()
	})
	return c
}

func eachCarrier(t *testing.T, f func(t *testing.T, s *stage, c *acp.Client)) {
	for name, open := range transports {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			f(t, s, open(t, s))
		})
	}
}

// TestCarriers checks that every transport behaves the same: all methods, events in order, the same
// errors.
func TestCarriers(t *testing.T) {
	eachCarrier(t, func(t *testing.T, s *stage, c *acp.Client) {
		ctx := t.Context()
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
		agents, err := c.Agents(ctx)
		if err != nil || len(agents) != 5 || agents[0].Name != "echo" {
			t.Errorf("%+v, %v", agents, err)
		}
		if some, err := c.ListAgents(ctx, 2, 1); err != nil || len(some) != 2 || some[0].Name != "words" {
			t.Errorf("%+v, %v", some, err)
		}
		if a, err := c.Agent(ctx, "ask"); err != nil || a.Description != "For tests." {
			t.Errorf("%+v, %v", a, err)
		}
		if named, err := c.AgentsNamed(ctx, "echo", "nope", "ask"); err != nil || named[0].Manifest.Name != "echo" || !errors.Is(named[1].Err, acp.ErrNotFound) || named[2].Err != nil {
			t.Errorf("%+v, %v", named, err)
		}

		var events []acp.Event
		run := must(t)(c.Stream(ctx, ask("words", "one two"), record(t, &events)))
		const want = "run.created run.in-progress message.created message.part message.part message.completed run.completed"
		if typesOf(events) != want || run.Text() != "onetwo" || run.Status != acp.RunCompleted {
			t.Errorf("%s, %+v", typesOf(events), run)
		}
		for i, e := range events {
			if e.Seq != int64(i)+1 {
				t.Errorf("event %d has number %d", i+1, e.Seq)
			}
		}
		for after := range int64(8) {
			var again []acp.Event
			got := must(t)(c.Subscribe(ctx, run.ID, after, record(t, &again)))
			list, err := c.Events(ctx, run.ID, after)
			if err != nil || typesOf(again) != typesOf(events[after:]) || typesOf(list) != typesOf(again) || got.Text() != run.Text() {
				t.Errorf("after %d: %s | %s, %v", after, typesOf(again), typesOf(list), err)
			}
			for i := range again {
				if again[i].Seq != after+int64(i)+1 || list[i].Seq != again[i].Seq {
					t.Errorf("after %d: event %d has numbers %d and %d", after, i, again[i].Seq, list[i].Seq)
				}
			}
		}
		if _, err := c.Subscribe(ctx, run.ID, 99, record(t, &events)); !errors.Is(err, acp.ErrInvalid) {
			t.Errorf("after what has not been: %v", err)
		}
		if got := must(t)(c.Subscribe(ctx, run.ID, -1, func(e acp.Event) error { return fmt.Errorf("got %s", e.Type) })); got.Text() != run.Text() {
			t.Errorf("from now on: %+v", got)
		}
		if got := must(t)(c.Run(ctx, ask("echo", "Grüße 🌍"))); got.Text() != "Grüße 🌍" {
			t.Errorf("%+v", got)
		}

		waiting := must(t)(c.Run(ctx, ask("ask", "x")))
		if waiting.Status != acp.RunAwaiting || waiting.AwaitRequest.Message.Text() != "Your name?" {
			t.Errorf("%+v", waiting)
		}
		if got := must(t)(c.Subscribe(ctx, waiting.ID, 3, record(t, &events))); got.Status != acp.RunAwaiting {
			t.Errorf("%+v", got)
		}
		events = nil
		run = must(t)(c.ResumeStream(ctx, waiting.ID, acp.Answer(acp.Text("Ada")), record(t, &events)))
		if typesOf(events) != "run.in-progress message.created message.part message.completed run.completed" || run.Text() != "Hello Ada" {
			t.Errorf("%s, %+v", typesOf(events), run)
		}
		if events[0].Seq != 4 {
			t.Errorf("the first event behind the answer has number %d", events[0].Seq)
		}
		if _, err := c.Resume(ctx, waiting.ID, acp.Answer(acp.Text("Ada"))); !errors.Is(err, acp.ErrNotAwaiting) {
			t.Errorf("%v", err)
		}

		slow := must(t)(c.Start(ctx, ask("wait", "x")))
		eventually(t, s.begun)
		if got := must(t)(c.Cancel(ctx, slow.ID)); got.Status != acp.RunCancelling {
			t.Errorf("%+v", got)
		}
		if cause := eventually(t, s.ended); !errors.Is(cause, acp.ErrCancelled) {
			t.Errorf("%v", cause)
		}
		s.settle(slow.ID)
		if got := must(t)(c.Status(ctx, slow.ID)); got.Status != acp.RunCancelled {
			t.Errorf("%+v", got)
		}
		if _, err := c.Cancel(ctx, slow.ID); !errors.Is(err, acp.ErrOver) {
			t.Errorf("%v", err)
		}
		if session, err := c.Session(ctx, run.SessionID); err != nil || len(session.History) != 2 {
			t.Errorf("%+v, %v", session, err)
		}
		for name, err := range map[string]error{
			"agent":   second(c.Agent(ctx, "nope")),
			"run":     second(c.Run(ctx, ask("nope", "x"))),
			"stream":  second(c.Stream(ctx, ask("nope", "x"), record(t, &events))),
			"status":  second(c.Status(ctx, uuid1)),
			"events":  second(c.Events(ctx, uuid1, 0)),
			"session": second(c.Session(ctx, uuid1)),
		} {
			var e *acp.Error
			if !errors.Is(err, acp.ErrNotFound) || !errors.As(err, &e) || e.Code != acp.CodeNotFound || !strings.HasSuffix(e.Message, "was not found.") {
				t.Errorf("%s: %v", name, err)
			}
		}
		q := ask("echo", "x")
		q.SessionID, q.Session = uuid1, &acp.Session{ID: "6f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20"}
		if _, err := c.Run(ctx, q); !errors.Is(err, acp.ErrInvalid) {
			t.Errorf("%v", err)
		}
		// An error from on ends the stream, and is returned; the run continues.
		mine := errors.New("mine")
		var id string
		if _, err := c.Stream(ctx, ask("wait", "x"), func(e acp.Event) error { id = e.Run.ID; return mine }); !errors.Is(err, mine) {
			t.Errorf("%v", err)
		}
		eventually(t, s.begun)
		s.release <- struct{}{}
		if run := s.settle(id); run.Text() != "done" {
			t.Errorf("%+v", run)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Ping(ctx); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// TestManyStreamsOnOneWebSocket runs fifty streams on one WebSocket: each caller receives its own
// events, all of them and in order, and a run can be cancelled at once.
func TestManyStreamsOnOneWebSocket(t *testing.T) {
	s := newStage(t, nil)
	const streams, words = 50, 100
	var gate sync.WaitGroup // all are active at the same time
	gate.Add(streams)
	s.add("numbers", func(ctx context.Context, j *acp.Job) error {
		gate.Done()
		gate.Wait()
		for i := range words {
			if err := j.Say(ctx, fmt.Sprintf("%s:%d ", j.Text(), i)); err != nil {
				return err
			}
		}
		return nil
	})
	c := listen(t, s, "ws://127.0.0.1:0")
	var all sync.WaitGroup
	for n := range streams {
		all.Go(func() {
			next, parts, id := int64(1), 0, ""
			run, err := c.Stream(t.Context(), ask("numbers", fmt.Sprint(n)), func(e acp.Event) error {
				if e.Seq != next {
					t.Errorf("stream %d: event %d, want %d", n, e.Seq, next)
				}
				next++
				if e.Run != nil {
					id = e.Run.ID
				}
				if e.Part != nil {
					if want := fmt.Sprintf("%d:%d ", n, parts); e.Part.Content != want {
						t.Errorf("stream %d: got %q, want %q", n, e.Part.Content, want)
					}
					parts++
				}
				return nil
			})
			if err != nil || run.ID != id || run.Status != acp.RunCompleted || parts != words || next != words+6 {
				t.Errorf("stream %d: %d parts, %d events, %v", n, parts, next-1, err)
			}
		})
	}
	all.Wait()
}

// TestCancelBesideManyStreams checks that a cancel over a WebSocket full of streams reaches its
// agent. BenchmarkCancel measures how soon.
func TestCancelBesideManyStreams(t *testing.T) {
	s := newStage(t, nil)
	heard := make(chan struct{}, 50)
	s.add("ticks", func(ctx context.Context, j *acp.Job) error {
		s.begun <- j
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := j.Say(ctx, "x"); err != nil && ctx.Err() == nil {
					return err
				}
			case <-ctx.Done():
				heard <- struct{}{}
				return ctx.Err()
			}
		}
	})
	c := listen(t, s, "ws://127.0.0.1:0")
	const streams = 50
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			if run, err := c.Stream(t.Context(), ask("ticks", "x"), func(acp.Event) error { return nil }); err != nil || run.Status != acp.RunCancelled {
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
		eventually(t, heard)
	}
	all.Wait()
}

// A cutter is a transport whose connections break.
type cutter struct {
	acp.Link
	after int // events of one call
	cuts  int
}

func (k *cutter) Do(ctx context.Context, item *jsonrpc.Item) error {
	if item.On == nil {
		return k.Link.Do(ctx, item)
	}
	seen := 0
	broken := errors.New("the line broke")
	on := item.On
	item.On = func(req *jsonrpc.Request) error {
		if seen++; seen > k.after {
			return broken
		}
		return on(req)
	}
	err := k.Link.Do(ctx, item)
	if seen > k.after {
		k.cuts++
		return broken
	}
	return err
}

// TestStreamIsTakenUpAgain checks that a stream that breaks repeatedly has no missing and no
// repeated events.
func TestStreamIsTakenUpAgain(t *testing.T) {
	s := newStage(t, nil)
	target, _ := parley.ParseTarget("ws://127.0.0.1:0")
	l := &parley.Listener{Handler: s.Server, Mode: acp.Mode, Report: func(string, error) {}}
	server, err := l.Listen(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(context.WithoutCancel(t.Context())) })
	defer done.Wait()
	defer server.Close()
	caller, err := parley.Dial(t.Context(), server.Targets()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	k := &cutter{Link: caller, after: 3}
	c := acp.NewClient(k, &acp.ClientOptions{Rejoin: 1})
	defer c.Close()
	var events []acp.Event
	run := must(t)(c.Stream(t.Context(), ask("words", "a b c d e f"), record(t, &events)))
	if run.Text() != "abcdef" || len(events) != 11 || k.cuts != 3 {
		t.Errorf("%+v: %s, %d cuts", run, typesOf(events), k.cuts)
	}
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	// A stream that breaks before its first event is not resumed, because its run is unknown.
	k.after, k.cuts = 0, 0
	if _, err := c.Stream(t.Context(), ask("echo", "x"), record(t, &events)); err == nil || k.cuts != 1 {
		t.Errorf("%v, %d cuts", err, k.cuts)
	}
}

// A doubter is a server that sends all events from the beginning whatever is requested, and breaks
// once.
type doubter struct {
	acp.Link
	tries int
}

func (d *doubter) Do(_ context.Context, item *jsonrpc.Item) error {
	d.tries++
	for i, event := range []string{`{"type":"generic","generic":{}}`, `{"type":"generic","generic":{}}`, `{"type":"generic","generic":{}}`} {
		if d.tries == 1 && i == 2 {
			return errors.New("the line broke")
		}
		params, err := (&acp.RunEvent{RunID: uuid1, Seq: int64(i) + 1, Event: jsonrpc.Raw(event)}).AppendJSON(nil)
		if err != nil {
			return err
		}
		if err := item.On(&jsonrpc.Request{Method: acp.NotifyRunEvent, Params: params}); err != nil {
			return err
		}
	}
	return nil
}

// TestDoublesAreDropped checks that events that a server sends twice are delivered once.
func TestDoublesAreDropped(t *testing.T) {
	d := &doubter{}
	var seqs []int64
	_, err := acp.NewClient(d, nil).Stream(t.Context(), ask("x", "x"), func(e acp.Event) error {
		seqs = append(seqs, e.Seq)
		return nil
	})
	if err != nil || fmt.Sprint(seqs) != "[1 2 3]" || d.tries != 2 {
		t.Errorf("%v, %v, %d tries", seqs, err, d.tries)
	}
}
