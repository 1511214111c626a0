package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSuiteInABlackHole checks that parley test ends by its timeout if the server accepts
// connections and never answers, also during a handshake.
func TestSuiteInABlackHole(t *testing.T) {
	place := blackHole(t)
	file := filepath.Join(t.TempDir(), "suite.yaml")
	if err := os.WriteFile(file, []byte("calls:\n  - {method: x}\n  - {method: y, notify: true}\n  - {method: z}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, protocol string }{
		{"http://" + place + "/rpc", "jsonrpc"}, {"http://" + place + "/mcp", "mcp"}, {"ws://" + place, "jsonrpc"}, {"tcp://" + place, "jsonrpc"}, {"tcp://" + place, "editor"}, {"tls://" + place, "jsonrpc"}, {"sse+http://" + place + "/sse", "mcp"},
	} {
		t.Run(c.target[:strings.Index(c.target, ":")]+" "+c.protocol, func(t *testing.T) {
			t.Parallel()
			var errs, out glass
			a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
			ended := make(chan int, 1)
			go func() {
				ended <- a.main(context.Background(), []string{"test", file, "--target", c.target, "--protocol", c.protocol, "--timeout", "100ms", "-o", "json", "--color", "never"})
			}()
			select {
			case code := <-ended:
				if code != exitAway || !strings.Contains(out.String(), `"kind": "timeout"`) {
					t.Errorf("exit code %d, want %d:\n%s\n%s", code, exitAway, &out, &errs)
				}
			case <-time.After(time.Minute):
				t.Errorf("the command does not end:\n%s", &errs)
			}
		})
	}
}

// TestSuiteIsCancelled checks that Ctrl-C ends a run with its own exit code, and that the rest is
// skipped.
func TestSuiteIsCancelled(t *testing.T) {
	place := blackHole(t)
	file := filepath.Join(t.TempDir(), "suite.yaml")
	if err := os.WriteFile(file, []byte("calls:\n  - {method: x}\n  - {method: z}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	var out glass
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: io.Discard, getenv: func(string) string { return "" }}
	if code := a.main(ctx, []string{"test", file, "--target", "tcp://" + place}); code != exitCancelled || strings.Count(out.String(), "skip ") != 2 {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}
