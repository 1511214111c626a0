//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// hostileSchemas are output schemas with a value each, which take 2^200 or more steps, or as many
// as the value has pairs, to validate without a bound.
var hostileSchemas = []struct{ name, schema, value string }{
	{"allOf", `{"type":"object","$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`, nestedObject(200)},
	{"anyOf", `{"type":"object","$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"anyOf":[{"$ref":"#/$defs/m"},{"$ref":"#/$defs/m"}]}}},"m":{"$ref":"#/$defs/n","required":["b"]}}}`, nestedObject(200)},
	{"not", `{"type":"object","$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"not":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}}`, nestedObject(200)},
	{"uniqueItems", `{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}`, `{"a":[` + manyNumbers(120_000) + `]}`},
}

func nestedObject(depth int) string {
	return strings.Repeat(`{"a":`, depth) + "{}" + strings.Repeat("}", depth)
}

func manyNumbers(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i))
	}
	return b.String()
}

// TestHostileOutputSchema checks that parley mcp call ends, by --timeout and by the first Ctrl-C,
// while it validates a result against an output schema that has no end.
func TestHostileOutputSchema(t *testing.T) {
	t.Parallel()
	program := parleyProgram(t)
	for _, s := range hostileSchemas {
		liar := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
			switch req.Method {
			case "initialize":
				return jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`), nil
			case "tools/list":
				return jsonrpc.Raw(`{"tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":` + s.schema + `}]}`), nil
			case "tools/call":
				return jsonrpc.Raw(`{"content":[],"structuredContent":` + s.value + `}`), nil
			}
			return nil, jsonrpc.ErrMethodNotFound
		})
		target := serveOn(t, &parley.Listener{Handler: liar}, "tcp://127.0.0.1:0").String()
		for _, interrupt := range []bool{false, true} {
			words := []string{"mcp", "call", target, "t", "--timeout", "3s"}
			if interrupt {
				words = []string{"mcp", "call", target, "t", "--timeout", "1h", "--trace"}
			}
			cmd := exec.CommandContext(t.Context(), program, words...)
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
			out, errs := new(watcher), &watcher{want: "← tools/call", seen: make(chan struct{})}
			cmd.Stdout, cmd.Stderr = out, errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			late := time.After(time.Minute)
			if interrupt {
				select {
				case <-errs.seen: // the response was received, and is validated
					_ = cmd.Process.Signal(syscall.SIGINT) // an error means that it has ended
				case <-late:
					_ = cmd.Process.Kill()
					t.Fatalf("%s: no response is traced:\n%.2000s", s.name, errs)
				}
			}
			select {
			case <-ended:
			case <-late:
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("%s, interrupted %v: parley runs for a minute:\n%.2000s", s.name, interrupt, errs)
			}
			stderr, code := errs.String(), cmd.ProcessState.ExitCode()
			if s.name == "uniqueItems" { // the value is valid, if there is time to find out
				if code != exitOK && code != exitAway && code != exitCancelled && !strings.Contains(stderr, "too long") {
					t.Errorf("%s, interrupted %v: exit code %d:\n%.2000s", s.name, interrupt, code, stderr)
				}
				continue
			}
			switch {
			case strings.Contains(out.String(), "{"):
				t.Errorf("%s, interrupted %v: a result that was not validated is printed", s.name, interrupt)
			case interrupt && code == exitCancelled, !interrupt && code == exitAway:
			case code != exitOK && strings.Contains(stderr, "too long"):
			default:
				t.Errorf("%s, interrupted %v: exit code %d:\n%.2000s", s.name, interrupt, code, stderr)
			}
		}
	}
}
