package editor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// TestCancelAnswersPermissions checks that a pending permission request gets the outcome
// "cancelled" when the turn is cancelled.
func TestCancelAnswersPermissions(t *testing.T) {
	asked := make(chan struct{})
	got := make(chan string, 1)
	c := pair(t, prompting(func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		// An agent that ignores its context.
		r, err := turn.RequestPermission(context.WithoutCancel(ctx), editor.ToolCall{ID: "t"}, editor.PermissionOption{ID: "y", Name: "Yes", Kind: editor.AllowOnce})
		if err != nil {
			return "", err
		}
		got <- r.Outcome.Outcome
		return "", nil
	}), &editor.ClientOptions{Permission: func(ctx context.Context, _ *editor.PermissionParams) (*editor.PermissionResult, error) {
		close(asked)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), editor.ErrTurnCancelled) {
			t.Errorf("the question ended with %v", context.Cause(ctx))
		}
		return editor.Select("y"), nil // too late
	}})
	id := session(t, c)
	go func() {
		<-asked
		_ = c.Cancel(t.Context(), id)
	}()
	end, err := c.Prompt(t.Context(), say(id, "go"), nil)
	if err != nil || end.StopReason != editor.Cancelled || <-got != editor.OutcomeCancelled {
		t.Errorf("Prompt = %+v, %v", end, err)
	}
}

// TestRefusedUpdateCancels checks that an error from on is returned, and that the turn is
// cancelled.
func TestRefusedUpdateCancels(t *testing.T) {
	cause := make(chan error, 1)
	c := pair(t, prompting(func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		_ = turn.Say(ctx, "one")
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "", ctx.Err()
	}), nil)
	enough := errors.New("enough")
	end, err := c.Prompt(t.Context(), say(session(t, c), "go"), func(*editor.Update) error { return enough })
	if !errors.Is(err, enough) || end == nil || end.StopReason != editor.Cancelled || !errors.Is(<-cause, editor.ErrTurnCancelled) {
		t.Errorf("Prompt = %+v, %v", end, err)
	}
}

// TestCancelWait checks that the client waits for an agent that ignores a cancel, but not
// indefinitely.
func TestCancelWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := inproc.Pipe(nil)
		free := make(chan struct{})
		agent := editor.NewAgent(editor.Implementation{Name: "a", Version: "1"}, prompting(func(context.Context, *editor.Turn) (editor.StopReason, error) {
			<-free
			return "", nil
		}))
		var serving sync.WaitGroup
		serving.Go(func() { _ = agent.Serve(context.Background(), there) })
		c, err := editor.Connect(t.Context(), here, editor.Implementation{Name: "c", Version: "1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		id := session(t, c)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		end, err := c.Prompt(ctx, say(id, "go"), nil)
		if end != nil || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute+5*time.Second {
			t.Errorf("Prompt = %v, %v after %v", end, err, time.Since(start))
		}
		close(free)
		c.Close()
		serving.Wait()
	})
}

func TestBusy(t *testing.T) {
	running, free := make(chan struct{}), make(chan struct{})
	c := pair(t, prompting(func(context.Context, *editor.Turn) (editor.StopReason, error) {
		close(running)
		<-free
		return "", nil
	}), nil)
	id := session(t, c)
	var first sync.WaitGroup
	first.Go(func() {
		if _, err := c.Prompt(t.Context(), say(id, "go"), nil); err != nil {
			t.Error(err)
		}
	})
	<-running
	if _, err := c.Prompt(t.Context(), say(id, "go"), nil); !errors.Is(err, editor.ErrBusy) {
		t.Errorf("Prompt = %v", err)
	}
	close(free)
	first.Wait()
}

// TestManySessions streams fifty sessions at once on one connection: each caller receives its own
// updates, all of them and in order.
func TestManySessions(t *testing.T) {
	c := pair(t, prompting(func(ctx context.Context, turn *editor.Turn) (editor.StopReason, error) {
		for i := range 50 {
			if err := turn.Say(ctx, fmt.Sprintf("%s%d ", turn.Text(), i)); err != nil {
				return "", err
			}
		}
		return "", nil
	}), nil)
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			id := session(t, c)
			var got, want strings.Builder
			if _, err := c.Prompt(t.Context(), say(id, fmt.Sprintf("%d:", n)), func(u *editor.Update) error {
				got.WriteString(u.Text())
				return nil
			}); err != nil {
				t.Error(err)
			}
			for i := range 50 {
				fmt.Fprintf(&want, "%d:%d ", n, i)
			}
			if got.String() != want.String() {
				t.Errorf("session %d: %.100q…", n, got.String())
			}
		})
	}
	all.Wait()
}

func TestSessionsAreBounded(t *testing.T) {
	var over []string
	o := &editor.AgentOptions{MaxSessions: 2, Ended: func(id string) { over = append(over, id) }}
	here, there := inproc.Pipe(nil)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := editor.NewAgent(editor.Implementation{Name: "a", Version: "1"}, o).Serve(t.Context(), there); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Error(err)
		}
	})
	c, err := editor.Connect(t.Context(), here, editor.Implementation{Name: "c", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := session(t, c), session(t, c)
	_, err = c.NewSession(t.Context(), &editor.NewSessionParams{CWD: "/"})
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeBusy {
		t.Errorf("NewSession = %v", err)
	}
	if err := c.CloseSession(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	d := session(t, c)
	c.Close()
	serving.Wait()
	want := append([]string{a}, slices.Sorted(slices.Values([]string{b, d}))...)
	if diff := cmp.Diff(want, over); diff != "" {
		t.Errorf("sessions that ended (-want +got):\n%s", diff)
	}
}

// TestEndOfInput checks that requests sent before the client disconnected get a response, but that
// a turn ends at once.
func TestEndOfInput(t *testing.T) {
	cause := make(chan error, 1)
	begun := make(chan struct{})
	agent := editor.NewAgent(editor.Implementation{Name: "agent", Version: "1"}, fixed(prompting(func(ctx context.Context, _ *editor.Turn) (editor.StopReason, error) {
		close(begun)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return "", nil
	})))
	lines := make(chan string)
	answers := make(chan string, 10)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := agent.Serve(t.Context(), &oneWay{in: lines, out: answers}); err != nil {
			t.Error(err)
		}
	})
	lines <- `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`
	<-answers
	lines <- `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}`
	<-answers
	lines <- `{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`
	<-begun
	close(lines)
	serving.Wait()
	close(answers)
	if err := <-cause; !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("the turn ended with %v", err)
	}
	if got := <-answers; got != `{"jsonrpc":"2.0","result":{"stopReason":"end_turn"},"id":2}` {
		t.Errorf("the answer is %s", got)
	}
}

// A oneWay is a transport whose input ends before its output, as is possible with pipes.
type oneWay struct {
	in   <-chan string
	out  chan<- string
	last []byte
}

func (o *oneWay) Read() ([]byte, bool, error) {
	line, ok := <-o.in
	if !ok {
		return nil, false, io.EOF
	}
	o.last = []byte(line)
	return o.last, false, nil
}

func (o *oneWay) Write(b jsonrpc.Burst) error {
	for payload := range b.All() {
		o.out <- string(payload)
	}
	return nil
}

func (o *oneWay) TryWrite(jsonrpc.Burst) bool { return false }

func (o *oneWay) Close() error { return nil }
