package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
)

// A screenWatch is an in-memory terminal, or a file, that signals when its text matches want.
type screenWatch struct {
	person bool
	mu     sync.Mutex // guards the fields below
	text   strings.Builder
	want   *regexp.Regexp
	seen   chan string // receives the match
}

func (s *screenWatch) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if s.want != nil {
		if m := s.want.FindString(s.text.String()); m != "" {
			s.want = nil
			s.seen <- m
		}
	}
	return len(p), nil
}

func (s *screenWatch) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *screenWatch) isTerminal() bool { return s.person }

// hostileCalls sends to a server on a byte stream, and to one on HTTP, what a hostile client can
// send, and waits until the server has ended the connections.
func hostileCalls(t *testing.T, address, text string, web bool) {
	t.Helper()
	plain := strings.NewReplacer("\r", " ", "\n", " ").Replace(text)
	quoted := unescaped(text)
	messages := []string{
		plain,
		`{"jsonrpc":"2.0","id":1,"method":` + quoted + `}`,
		`{"jsonrpc":"2.0","id":` + quoted + `,"method":"echo","params":{"text":` + quoted + `}}`,
		`{"jsonrpc":"2.0","id":2,"method":"subtract","params":[` + quoted + `]}`,
		`{"jsonrpc":"2.0","id":3,"method":"panic","params":[` + quoted + `]}`,
		`{"jsonrpc":"2.0","id":4,"method":"fail","params":{"code":1,"message":` + quoted + `,"text":` + quoted + `}}`,
		`{"jsonrpc":"2.0","method":` + quoted + `,"params":[` + quoted + `]}`,
		`{"jsonrpc":"2.0","id":` + quoted + `,"result":` + quoted + `}`,
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":` + quoted + `,"arguments":{` + quoted + `:1}}}`,
		`[{"jsonrpc":"2.0","id":6,"method":` + quoted + `},` + quoted + `]`,
	}
	send := func(payload string) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, payload) // the server may close it meanwhile
		_ = conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, bufio.NewReader(conn))
	}
	if !web {
		send(strings.Join(messages, "\n") + "\n")
		send(plain)
		return
	}
	for _, body := range append(messages, text) {
		send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, len(body), body))
	}
	send("GET /" + plain + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
	send(plain + " / HTTP/1.1\r\nHost: " + address + "\r\n\r\n")
	for _, name := range []string{"Host", "Origin", "Authorization", "Content-Type", "Mcp-Session-Id", "Mcp-Method", "Upgrade", "Sec-WebSocket-Key", "X"} {
		send("POST / HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\nContent-Length: 2\r\n" + name + ": " + plain + "\r\n\r\n{}")
		send("POST /mcp HTTP/1.1\r\nHost: " + address + "\r\nConnection: close, upgrade\r\nContent-Type: application/json\r\nContent-Length: 2\r\n" + name + ": " + plain + "\r\n\r\n{}")
	}
}

// TestNothingHiddenReachesATerminalOfAServer is TestNothingHiddenReachesATerminal for the commands
// that run until they are interrupted: demo, up and tap --target, which serve hostile clients, mcp
// listen, and for config found.
func TestNothingHiddenReachesATerminalOfAServer(t *testing.T) {
	for kind, text := range kindsToRun(t) {
		t.Run(kind, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("HOME", home)
			t.Setenv("XDG_RUNTIME_DIR", "")
			quoted := unescaped(text)
			child := hostileCommand(text)
			servers := `{"mcpServers":{` + quoted + `:{"url":` + unescaped("http://"+text) + `},"a":{"command":` + quoted + `,"args":[` + quoted + `]},"b":{` + quoted + `:1},"c":{"command":` +
				unescaped(child[0]) + `,"args":[` + unescaped(child[1]) + `,` + unescaped(child[2]) + `],"env":{` + quoted + `:` + quoted + `}}}}`
			config := writeIn(t, home, "mcp.json", servers)
			for _, folder := range []string{".cursor", ".claude", ".codeium/windsurf"} {
				if err := os.MkdirAll(filepath.Join(home, folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{".cursor/mcp.json", ".claude.json", ".codeium/windsurf/mcp_config.json"} {
				writeIn(t, home, file, servers)
			}
			rpc := serveOn(t, &parley.Listener{Handler: hostileServer(text)}, "tcp://127.0.0.1:0").String()
			overHTTP := serveOn(t, &parley.Listener{Handler: hostileServer(text)}, "http://127.0.0.1:0/").String()
			tcp, web := regexp.MustCompile(`tcp://(127\.0\.0\.1:\d+)`), regexp.MustCompile(`http://(127\.0\.0\.1:\d+)`)
			calls := func(on *regexp.Regexp) func(string) {
				return func(seen string) { hostileCalls(t, on.FindStringSubmatch(seen)[1], text, on == web) }
			}
			for _, c := range []struct {
				words []string
				want  *regexp.Regexp // after which do runs, and then the command is interrupted
				do    func(seen string)
			}{
				{[]string{"demo", "--listen", "tcp://127.0.0.1:0"}, tcp, calls(tcp)},
				{[]string{"demo", "--listen", "http://127.0.0.1:0"}, web, calls(web)},
				{[]string{"up", "--no-demo", "--listen", "127.0.0.1:0", "-c", config}, web, calls(web)},
				{[]string{"tap", "--target", rpc, "--listen", "tcp://127.0.0.1:0", "--follow"}, regexp.MustCompile(`at tcp://(127\.0\.0\.1:\d+)`), calls(tcp)},
				{[]string{"tap", "--target", overHTTP, "--listen", "http://127.0.0.1:0", "--follow"}, regexp.MustCompile(`at http://(127\.0\.0\.1:\d+)`), calls(web)},
				{[]string{"mcp", "listen", rpc, "x://y", text, "--for", "200ms", "-o", "text"}, nil, nil},
				{[]string{"mcp", "listen", overHTTP, "x://y", "--for", "200ms", "--trace"}, nil, nil},
				{[]string{"config", "found"}, nil, nil},
			} {
				for _, person := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/person=%v", c.words[0], person), func(t *testing.T) {
						t.Parallel()
						what := fmt.Sprintf("parley %.200q, for a person %v,", c.words, person)
						out := &screenWatch{person: person, seen: make(chan string, 1)}
						errs := &screenWatch{person: person, seen: make(chan string, 1), want: c.want}
						a := &app{stdin: strings.NewReader(""), stdout: out, stderr: errs, getenv: func(name string) string {
							return map[string]string{"NO_COLOR": "1", "HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state")}[name]
						}}
						ctx, cancel := context.WithCancelCause(t.Context())
						ended := make(chan int, 1)
						go func() { ended <- a.main(ctx, c.words) }()
						late := time.After(time.Minute)
						if c.do != nil {
							select {
							case seen := <-errs.seen:
								if c.words[0] == "tap" { // its own address, not the server's
									seen = strings.TrimPrefix(seen, "at ")
								}
								c.do(seen)
								cancel(errInterrupted)
							case code := <-ended:
								t.Fatalf("%s ends with %d:\n%s", what, code, errs)
							case <-late:
								t.Fatalf("%s does not start:\n%s", what, errs)
							}
						}
						select {
						case <-ended:
						case <-late:
							t.Errorf("%s takes more than a minute", what)
						}
						cancel(nil)
						checkShown(t, what+" on stderr", errs.String(), false, false)
						if person || c.words[0] == "config" { // text of peers passes unchanged into a pipe
							checkShown(t, what+" on stdout", out.String(), false, false)
						}
					})
				}
			}
		})
	}
}
