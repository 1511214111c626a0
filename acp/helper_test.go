package acp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// A journal stores the reports of a server.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) report(what string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%s: %v", what, err))
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, "\n")
}

// A stage is a server with agents that tests control.
type stage struct {
	*acp.Server
	t       testing.TB
	log     journal
	begun   chan *acp.Job // one for each run of "wait"
	ended   chan error    // the cause of its context
	release chan struct{} // lets one run of "wait" continue
}

// newStage returns a server with agents. It is closed with the test.
func newStage(t testing.TB, o *acp.Options) *stage {
	t.Helper()
	if o == nil {
		o = &acp.Options{}
	}
	s := &stage{t: t, begun: make(chan *acp.Job, 1000), ended: make(chan error, 1000), release: make(chan struct{})}
	copied := *o
	if copied.Report == nil {
		copied.Report = s.log.report
	}
	s.Server = acp.NewServer(&copied)
	s.add("echo", func(ctx context.Context, j *acp.Job) error { return j.Say(ctx, j.Text()) })
	s.add("words", func(ctx context.Context, j *acp.Job) error {
		for word := range strings.FieldsSeq(j.Text()) {
			if err := j.Say(ctx, word); err != nil {
				return err
			}
		}
		return nil
	})
	s.add("ask", func(ctx context.Context, j *acp.Job) error {
		name, err := j.Await(ctx, acp.Message{Parts: []acp.MessagePart{acp.Text("Your name?")}})
		if err != nil {
			return err
		}
		return j.Say(ctx, "Hello "+name.Text())
	})
	s.add("wait", func(ctx context.Context, j *acp.Job) error {
		s.begun <- j
		select {
		case <-s.release:
			return j.Say(ctx, "done")
		case <-ctx.Done():
			s.ended <- context.Cause(ctx)
			return ctx.Err()
		}
	})
	s.add("memory", func(ctx context.Context, j *acp.Job) error {
		past, err := j.History(ctx)
		if err != nil {
			return err
		}
		for _, m := range past {
			if err := j.Say(ctx, m.Role+"="+m.Text()+";"); err != nil {
				return err
			}
		}
		return j.Say(ctx, "end")
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func (s *stage) add(name string, run func(context.Context, *acp.Job) error) {
	s.Add(acp.Agent{Manifest: acp.AgentManifest{Name: name, Description: "For tests."}, Run: run})
}

// local returns a client in the same process.
func (s *stage) local() *acp.Client {
	c := acp.Local(s.Server, nil)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// connect returns a client over a pipe.
func (s *stage) connect(o *acp.ClientOptions) *acp.Client {
	s.t.Helper()
	c := acp.Connect(s.t.Context(), s.pipe(), o)
	s.t.Cleanup(func() { c.Close() })
	return c
}

// pipe serves on one end of a pipe until the test is over, and returns the other.
func (s *stage) pipe() jsonrpc.Transport {
	s.t.Helper()
	here, there := inproc.Pipe(nil)
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Serve(context.WithoutCancel(s.t.Context()), there); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.t.Errorf("Serve: %v", err)
		}
	})
	s.t.Cleanup(func() {
		here.Close()
		done.Wait()
	})
	return here
}

func ask(agent, text string) acp.RunCreateRequest {
	return acp.RunCreateRequest{AgentName: agent, Input: acp.Ask(text)}
}

// eventually receives a value from c, with a timeout.
func eventually[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// record returns a function that collects the events of a stream, and validates each against the
// schema.
func record(t testing.TB, into *[]acp.Event) func(acp.Event) error {
	return func(e acp.Event) error {
		text, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.ID{}, "x", e)
		if err != nil {
			t.Error(err)
		}
		_ = jsonrpc.Scan(text, func(m *jsonrpc.Message) { mustFit(t, "Event", m.Params) })
		*into = append(*into, e)
		return nil
	}
}

func typesOf(events []acp.Event) string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = string(e.Type)
	}
	return strings.Join(names, " ")
}

// must returns a function that returns a run, and fails the test on an error.
func must(t testing.TB) func(*acp.Run, error) *acp.Run {
	return func(run *acp.Run, err error) *acp.Run {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
}

// settle waits until a run has ended or awaits input.
func (s *stage) settle(id string) acp.Run {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	run, err := s.Wait(ctx, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}
