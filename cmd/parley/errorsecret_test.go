package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestErrorsHideSecrets checks that the errors and reports of the commands that serve, record and
// list contain no credential of an address, a header, a file or a flag.
func TestErrorsHideSecrets(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	t.Setenv("XDG_RUNTIME_DIR", "")
	if err := os.MkdirAll(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	const servers = `{"mcpServers":{"a":{"url":"http://u:CANARY-1@127.0.0.1:1/?api_key=CANARY-2&k=CANARY-3","headers":{"Authorization":"Bearer CANARY-4","X-Api-Key":["CANARY-5"]}},
		"b":{"command":"/does/not/exist","args":["--token","CANARY-6","--api-key=CANARY-7"],"env":{"B_TOKEN":"CANARY-8","B_PASSWORD":{"CANARY":9}}},"c":{"token":"CANARY-10"}}}`
	config := writeIn(t, home, "mcp.json", servers)
	broken := writeIn(t, home, "broken.json", servers[:len(servers)-4]+`,"password":"CANARY-11" "x"`)
	writeIn(t, home, ".cursor/mcp.json", servers)
	short := writeIn(t, home, "token.txt", "CANARY-12\n")
	token := writeIn(t, home, "long.txt", "CANARY-13-0123456789abcdef0123456789\n")
	const address = "http://127.0.0.1:1/?api_key=CANARY-14&k=CANARY-15"
	for _, words := range [][]string{
		{"up", "--no-demo", "--listen", "127.0.0.1:0", "-c", config},
		{"up", "--no-demo", "--listen", "127.0.0.1:0", "-c", broken},
		{"up", "--no-demo", "--listen", "http://u:CANARY-16@127.0.0.1:0"},
		{"up", "--no-demo", "--listen", "u:CANARY-16@example.com:80"},
		{"tap", "--target", address, "--listen", "tcp://u:CANARY-16@127.0.0.1:0"},
		{"tap", "--target", "http://u:CANARY-16@127.0.0.1:1/"},
		{"tap", "--target", "nothing://127.0.0.1:1/?token=CANARY-17"},
		{"tap", "--target", address, "--listen", "127.0.0.1:0", "--record", "/does/not/exist"},
		{"tap", "--target", address, "--listen", "127.0.0.1:0", "--follow"},
		{"mcp", "listen", address},
		{"mcp", "listen", address, "--token", "CANARY-18", "--trace"},
		{"mcp", "listen", address, "-H", "X-Api-Key: CANARY-19", "-H", "Cookie: a=CANARY-20"},
		{"mcp", "listen", "ws://127.0.0.1:1/?k=CANARY-15", "--token-file", token},
		{"mcp", "listen", "http://u:CANARY-16@127.0.0.1:1/"},
		{"config", "found"},
		{"config", "check", config},
		{"config", "check", broken},
		{"demo", "--listen", "http://u:CANARY-16@127.0.0.1:0"},
		{"demo", "--listen", "tcp://127.0.0.1:0?token=CANARY-17"},
		{"demo", "--listen", "tcp://127.0.0.1:0", "--token-file", short},
		{"demo", "--listen", "tcp://127.0.0.1:0", "--token-file", token},
		{"demo", "--listen", "tcp://127.0.0.1:0", "--weather-url", "http://127.0.0.1:1/?api_key=CANARY-14"},
		{"demo", "--listen", "tcp://192.0.2.1:1", "--token-file", token},
	} {
		var out bytes.Buffer
		errs := &watcher{want: "127.0.0.1:", seen: make(chan struct{})}
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: errs, getenv: func(name string) string {
			return map[string]string{"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state")}[name]
		}}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan int, 1)
		go func() { ended <- a.main(ctx, words) }()
		select {
		case <-ended:
		case <-errs.seen: // it serves, or it reports an address and ends
			cancel(errInterrupted)
			<-ended
		case <-time.After(time.Minute):
			t.Errorf("parley %q neither serves nor ends:\n%s", words, errs)
		}
		cancel(nil)
		for _, text := range []string{out.String(), errs.String()} {
			if strings.Contains(text, "CANARY") {
				t.Errorf("parley %q prints\n%s", words, text)
			}
		}
	}
}
