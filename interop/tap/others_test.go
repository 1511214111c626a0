package tap_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/capture/tap"
	"github.com/da1ed7bb/parley/interop/harness"
)

// announcing starts a Node program that serves MCP on a port of its choice, and returns the port.
func announcing(t *testing.T, script string, args ...string) string {
	t.Helper()
	argv := node(t, script, args...)
	argv = append([]string{argv[0], "--import", "../mcp/node/announce.mjs"}, argv[1:]...)
	return portOf(t, argv, []string{"PORT=0"}, regexp.MustCompile(`listening at port (\d+)`))
}

// portOf starts a program and returns the port that it prints on stderr.
func portOf(t *testing.T, argv, env []string, said *regexp.Regexp) string {
	t.Helper()
	cmd := harness.Command(context.Background(), t, argv)
	cmd.Env = append(os.Environ(), env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := new(harness.Output)
	log.ShowIfFailed(t, strings.Join(argv, " "))
	found, read := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(io.TeeReader(stderr, log)); lines.Scan(); {
			if m := said.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	select {
	case port := <-found:
		return port
	case <-time.After(time.Minute):
		t.Fatalf("%v does not say where it listens", argv)
		return ""
	}
}

const goSource = `package main

func greet(name string) string { return "hello " + name }

func main() {
	println( greet("you"))
}
`

// TestLanguageServer uses vscode-jsonrpc and gopls. The tap detects the header framing.
func TestLanguageServer(t *testing.T) {
	t.Parallel()
	gopls := harness.Need(t, "gopls", "../../.cache/bin/gopls")
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test/hello\n\ngo 1.26\n", "main.go": goSource} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	session := filepath.Join(t.TempDir(), "session.jsonl")
	argv, check := tapped(t, session, []string{gopls, "serve"})
	harness.Checks(t, append(node(t, "node/lsp.mjs", dir), argv...))
	check()
	log := clean(t, session, 5, "", cutOff)
	asked := 0
	for _, r := range log.Rows(capture.Ref{}, 0) {
		if r.Kind == capture.RowRequest && r.Dir == capture.In {
			asked++
		}
	}
	if asked == 0 {
		t.Error("no request of the server was seen")
	}
}

// TestAgentClientProtocol uses the Agent Client Protocol's own SDK on both sides.
func TestAgentClientProtocol(t *testing.T) {
	t.Parallel()
	session := filepath.Join(t.TempDir(), "session.jsonl")
	argv, check := tapped(t, session, node(t, "../editor/node/agent.mjs"))
	harness.Checks(t, append(node(t, "node/acp.mjs"), argv...))
	check()
	clean(t, session, 5, "1")
}

// TestA2A uses the A2A SDK on both sides: its streams send several responses to one request.
func TestA2A(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, public, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	argv := node(t, "../a2a/node/server.mjs")
	argv = append([]string{argv[0], "--import", "./node/public.mjs"}, argv[1:]...)
	real := portOf(t, argv, []string{"PUBLIC_PORT=" + public}, regexp.MustCompile(`real port (\d+)`))

	session := filepath.Join(t.TempDir(), "session.jsonl")
	rec, err := capture.New(&capture.Options{File: session, Judges: lens.Judges()})
	if err != nil {
		t.Fatal(err)
	}
	behind := newMiddle(t, "127.0.0.1:"+real)
	relay := &tap.Relay{Carrier: tap.HTTP, Record: rec, Info: capture.WireInfo{Target: "a2a", Carrier: "http"}}
	relay.Dial = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", behind.at) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- relay.Serve(ctx, l) }()
	harness.Checks(t, node(t, "node/a2a.mjs", "http://127.0.0.1:"+public))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := rec.Close(); err != nil {
		t.Error(err)
	}
	log := clean(t, session, 5, "1.0")
	many := 0
	for _, r := range log.Rows(capture.Ref{}, 0) {
		many = max(many, r.Count)
	}
	if many < 3 {
		t.Errorf("the longest stream had %d answers, want some", many)
	}
}
