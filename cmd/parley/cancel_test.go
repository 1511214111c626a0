package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A watcher is a stderr that signals when a text is written to it.
type watcher struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
	want string
	seen chan struct{}
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.want != "" && strings.Contains(w.text.String(), w.want) {
		w.want = ""
		close(w.seen)
	}
	return len(p), nil
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// TestInterruptCancelsOnTheWire checks that Ctrl-C ends the call locally and cancels it on the
// server.
func TestInterruptCancelsOnTheWire(t *testing.T) {
	for _, c := range []struct{ target, told string }{
		{"tcp://127.0.0.1:0", "→ $/cancelRequest"},
		{"ws://127.0.0.1:0", "→ $/cancelRequest"},
		{"http://127.0.0.1:0", ""}, // here closing the connection cancels
	} {
		t.Run(c.target, func(t *testing.T) {
			target := serveDemo(t, c.target)
			ctx, cancel := context.WithCancelCause(t.Context())
			stderr := &watcher{want: "→ sleep", seen: make(chan struct{})}
			go func() {
				<-stderr.seen
				cancel(errInterrupted)
			}()
			a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: stderr, getenv: func(string) string { return "" }}
			if code := a.main(ctx, []string{"call", target.String(), "sleep", "60000", "--trace"}); code != exitCancelled {
				t.Errorf("exit code %d, want %d", code, exitCancelled)
			}
			if output := stderr.String(); !strings.Contains(output, c.told) || !strings.Contains(output, "parley: sleep: cancelled; the server was notified\n") {
				t.Errorf("stderr is\n%s", output)
			}
		})
	}
}

// TestNotificationsAreAllPrinted checks that all notifications are printed before the result,
// including those that belong to no call.
func TestNotificationsAreAllPrinted(t *testing.T) {
	const count = 200
	mux := new(jsonrpc.Mux)
	mux.Add("burst", jsonrpc.PeerFunc(func(ctx context.Context, peer jsonrpc.Peer, _ []int) (string, error) {
		for i := range count {
			if err := peer.Notify(ctx, "news", []int{i}); err != nil {
				return "", err
			}
		}
		return "end", nil
	}))
	target := serveOn(t, &parley.Listener{Handler: mux}, "tcp://127.0.0.1:0")
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(string) string { return "" }}
	if code := a.main(t.Context(), []string{"call", target.String(), "burst", "--stream"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	var want strings.Builder
	for i := range count {
		fmt.Fprintf(&want, `{"method":"news","params":[%d]}`+"\n", i)
	}
	want.WriteString(`{"result":"end"}` + "\n")
	if got := stdout.String(); got != want.String() {
		t.Errorf("stdout is\n%s", got)
	}
}

// serveDemo runs a demo on one address until the test ends.
func serveDemo(t *testing.T, text string) parley.Target {
	t.Helper()
	service, tools := demo.New("test"), demo.NewMCP("test", nil)
	t.Cleanup(tools.Close)
	l := &parley.Listener{Handler: service.Handler(), Mode: service.Mux.Mode}
	addMCP(l, tools, nil)
	agents, err := (&app{}).demoAgents(t.Context(), agentFlags{}, false, &reporter{w: t.Output()})
	if err == nil {
		err = agents.add(l, agentFlags{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agents.close)
	return serveOn(t, l, text)
}

// serveOn runs l on one address until the test ends.
func serveOn(t *testing.T, l *parley.Listener, text string) parley.Target {
	t.Helper()
	target, err := parley.ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Listen(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server.Targets()[0]
}
