package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDefaultLoggersWriteToOurStderr checks that lines of package log and of slog's default logger
// are escaped, one line each, and without secrets.
func TestDefaultLoggersWriteToOurStderr(t *testing.T) {
	logger, writer, flags := slog.Default(), log.Writer(), log.Flags()
	defer func() { slog.SetDefault(logger); log.SetOutput(writer); log.SetFlags(flags) }()
	for kind, text := range escapes(t) {
		var errs glass
		a := &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: &errs, getenv: func(string) string { return "" }, logs: true}
		if code := a.main(t.Context(), []string{"version"}); code != 0 {
			t.Fatal(code)
		}
		a.hide("CANARY-0123456789")
		log.Printf("peer sent %s CANARY-0123456789", text)
		slog.Error("agent: failed "+text, "error", errors.New(text+" CANARY-0123456789"), text, "password=CANARY-other") //nolint:sloglint // the message is what a peer sent
		slog.Default().WithGroup(text).With("a", text).Warn(text)                                                        //nolint:sloglint // as above
		output := errs.String()
		if n := strings.Count(output, "parley: log: "); n != 3 || strings.Count(output, "\n") != 3 {
			t.Errorf("%s: %d reports in %d lines", kind, n, strings.Count(output, "\n"))
		}
		if strings.Contains(output, "CANARY") {
			t.Errorf("%s: a secret is logged:\n%s", kind, output)
		}
		checkShown(t, kind, output, true, false)
	}
}

// TestLinesOfNetHTTP checks the command as a process against a server that sends, after its
// response, what the client did not request: net/http logs the beginning of it with package log.
// Here it is the token of the request.
func TestLinesOfNetHTTP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.ReadAll(r.Body)
				const body = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s%s\x1b]0;owned\a", len(body), body, r.Header.Get("Authorization"))
				_, _ = io.Copy(io.Discard, conn) // until the client closes it
			}()
		}
	}()
	program := parleyProgram(t)
	logged := false
	for range 20 { // the process may end before the line is logged
		cmd := exec.CommandContext(t.Context(), program, "mcp", "tools", "http://"+l.Addr().String()+"/", "--token", "CANARY-0123456789-0123456789")
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
		stderr, _ := cmd.CombinedOutput() // the server speaks no MCP
		if strings.Contains(string(stderr), "CANARY") || strings.Contains(string(stderr), "\x1b") {
			t.Fatalf("it prints\n%q", stderr)
		}
		if logged = strings.Contains(string(stderr), "parley: log: "); logged {
			break
		}
	}
	if !logged {
		t.Error("net/http logs nothing: the test does not reach it")
	}
}
