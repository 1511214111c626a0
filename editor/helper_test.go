package editor_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// pair connects a client and an agent, and validates their messages against the schema.
func pair(t testing.TB, a *editor.AgentOptions, o *editor.ClientOptions) *editor.Client {
	t.Helper()
	here, end := inproc.Pipe(nil)
	there := &tap{Transport: end, t: t}
	var serving sync.WaitGroup
	serving.Go(func() {
		err := editor.NewAgent(editor.Implementation{Name: "agent", Version: "1"}, a).Serve(context.WithoutCancel(t.Context()), there)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
	})
	c, err := editor.Connect(t.Context(), here, editor.Implementation{Name: "client", Version: "1"}, o)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() {
		c.Close()
		serving.Wait()
		there.judge()
	})
	return c
}

// session creates a session.
func session(t testing.TB, c *editor.Client) string {
	t.Helper()
	s, err := c.NewSession(t.Context(), &editor.NewSessionParams{CWD: "/work"})
	if err != nil {
		t.Fatalf("NewSession: %v", err)
	}
	return s.SessionID
}

// say returns the params of a prompt.
func say(session, text string) *editor.PromptParams {
	return &editor.PromptParams{SessionID: session, Prompt: []editor.Content{editor.Text(text)}}
}

// prompting returns options of an agent with a prompt function.
func prompting(f func(ctx context.Context, t *editor.Turn) (editor.StopReason, error)) *editor.AgentOptions {
	return &editor.AgentOptions{Prompt: f}
}

// A wire is one connection, line by line, as on stdio.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Scanner
}

func newWire(t *testing.T, conn net.Conn) *wire {
	w := &wire{t: t, conn: conn, in: bufio.NewScanner(conn)}
	w.in.Buffer(nil, 1<<20)
	return w
}

// dialWire connects to an agent.
func dialWire(t *testing.T, o *editor.AgentOptions) *wire {
	here, there := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = editor.NewAgent(editor.Implementation{Name: "agent", Version: "1"}, o).Serve(context.WithoutCancel(t.Context()), stream.New(there, stream.Line, nil))
	})
	t.Cleanup(func() {
		here.Close()
		serving.Wait()
	})
	return newWire(t, here)
}

func (w *wire) send(line string) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(w.conn, line+"\n"); err != nil {
		w.t.Fatalf("send %s: %v", line, err)
	}
}

func (w *wire) want(line string) {
	w.t.Helper()
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if !w.in.Scan() {
		w.t.Fatalf("no line, want %s: %v", line, w.in.Err())
	}
	if w.in.Text() != line {
		w.t.Fatalf("\n got %s\nwant %s", w.in.Text(), line)
	}
}

// play sends the lines that begin with ">" and expects those that begin with "<".
func (w *wire) play(script string) {
	w.t.Helper()
	for line := range strings.SplitSeq(strings.TrimSpace(script), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "> "):
			w.send(line[2:])
		case strings.HasPrefix(line, "< "):
			w.want(line[2:])
		case line != "":
			w.t.Fatalf("what is %q?", line)
		}
	}
}

// raw returns JSON text.
func raw(text string) jsonrpc.Raw { return jsonrpc.Raw(text) }
