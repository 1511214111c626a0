package mcp_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/interop/harness"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/stdio"
)

// us is the implementation that our side sends.
var us = mcp.Implementation{Name: "parley", Version: "1.0.0"}

// patience is the timeout of one conversation with another program.
const patience = time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A host holds the handlers of a client of ours, and what they received.
type host struct {
	t *testing.T

	mu    sync.Mutex
	forms []mcp.Elicitation
	logs  []string
}

func newHost(t *testing.T) *host { return &host{t: t} }

func (h *host) options() mcp.ClientOptions {
	return mcp.ClientOptions{
		Roots: func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work", Name: "work"}}, nil },
		Sample: func(_ context.Context, q *mcp.SamplingRequest) (*mcp.SamplingResult, error) {
			return &mcp.SamplingResult{Role: mcp.RoleAssistant, Model: "parrot", StopReason: "endTurn",
				Content: mcp.Blocks{mcp.Text("You said: " + q.Messages[0].Content[0].Text)}}, nil
		},
		Elicit: func(_ context.Context, e *mcp.Elicitation) (*mcp.ElicitResult, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.forms = append(h.forms, *e)
			if e.Mode == mcp.ElicitURL {
				return &mcp.ElicitResult{Action: mcp.ActionAccept}, nil
			}
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"name":"Ada"}`)}, nil
		},
		ElicitURL: true,
		HostTasks: true,
		OnLog: func(p *mcp.LogParams) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.logs = append(h.logs, string(p.Data))
		},
		CheckResults: true,
		Probe:        time.Minute, // on a busy machine Node needs longer than the default to start
		Report:       func(what string, err error) { h.t.Logf("client: %s: %v", what, err) },
	}
}

// child connects our client to a program on stdio.
func child(ctx context.Context, t *testing.T, argv []string, o mcp.ClientOptions) *mcp.Client {
	t.Helper()
	// server-everything does not exit when its stdin is closed.
	p, err := stdio.Start(ctx, argv, &stdio.Options{Patience: stdio.Patience{Stdin: time.Second, Terminate: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := mcp.Connect(ctx, p, us, &o)
	if err != nil {
		t.Fatalf("connect to %v: %v\n%s", argv, err, p.Stderr())
	}
	t.Cleanup(func() {
		_ = c.Close() // the child's exit status is irrelevant
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", argv, p.Stderr())
		}
	})
	return c
}

// overHTTP connects our client to an address.
func overHTTP(ctx context.Context, t *testing.T, address string, o mcp.ClientOptions) *mcp.Client {
	t.Helper()
	c, err := mcphttp.Connect(ctx, address, us, &mcphttp.ClientOptions{Client: o})
	if err != nil {
		t.Fatalf("connect to %s: %v", address, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

var announced = regexp.MustCompile(`listening at port (\d+)`)

// announcing starts a Node program that serves on a port of its choice, and returns the port.
// script is a path relative to this folder.
func announcing(t *testing.T, script string, args ...string) (port string) {
	t.Helper()
	argv := node(t, script, args...)
	argv = append([]string{argv[0], "--import", "./node/announce.mjs"}, argv[1:]...)
	// It outlives the test's context, which is canceled before the cleanup.
	cmd := harness.Command(context.Background(), t, argv)
	cmd.Env = append(os.Environ(), "PORT=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := new(harness.Output)
	log.ShowIfFailed(t, strings.Join(argv, " "))
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(found)
		lines := bufio.NewScanner(io.TeeReader(stderr, log))
		for said := false; lines.Scan(); {
			if m := announced.FindStringSubmatch(lines.Text()); m != nil && !said {
				said = true
				found <- m[1]
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // not all of them exit by themselves
		<-read
		_ = cmd.Wait()
	})
	select {
	case port, ok := <-found:
		if !ok {
			t.Fatalf("%v ended", argv)
		}
		return port
	case <-time.After(patience):
		t.Fatalf("%v did not say where it listens", argv)
		return ""
	}
}
