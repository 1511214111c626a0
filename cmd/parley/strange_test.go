package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/demo"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// runOn runs a command line in this process.
func runOn(t *testing.T, words ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code = a.main(t.Context(), words)
	return code, out.String(), errs.String()
}

// answering starts a TCP server that sends one fixed text for each line, and then continues or
// closes the connection.
func answering(t *testing.T, say string, hangUp bool) (target string) {
	t.Helper()
	return "tcp://" + acceptTCP(t, func(c net.Conn) {
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			if _, err := io.WriteString(c, say); err != nil || hangUp {
				return
			}
		}
	})
}

// TestStrangeServers checks that a server that does not speak JSON-RPC is distinguished from an
// absent one.
func TestStrangeServers(t *testing.T) {
	web := func(status int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, c := range []struct {
		name, target string
		code         int
	}{
		{"a web page", web(200, "text/html", "<html>hello</html>"), exitProtocol},
		{"JSON that is no response", web(200, "application/json", `{"hello":1}`), exitProtocol},
		{"another id", web(200, "application/json", `{"jsonrpc":"2.0","id":99,"result":1}`), exitProtocol},
		{"result and error", web(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}`), exitProtocol},
		{"not found", web(404, "text/plain", "no"), exitAway},
		{"unauthorized", web(401, "text/plain", "no"), exitAuth},
		{"forbidden", web(403, "text/plain", "no"), exitAuth},
		{"overloaded", web(503, "text/plain", "no"), exitAway},
		{"no answer but the end", answering(t, "", true), exitAway},
		{"result and error on a stream", answering(t, `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}`+"\n", false), exitProtocol},
		{"unauthenticated on a stream", answering(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-31005,"message":"Unauthenticated"}}`+"\n", false), exitAuth},
		{"silence", answering(t, "", false), exitAway},
	} {
		t.Run(c.name, func(t *testing.T) {
			patience := "20s"
			if c.name == "silence" {
				patience = "50ms"
			}
			code, stdout, stderr := runOn(t, "call", c.target, "add", "1", "2", "--timeout", patience)
			if code != c.code || stdout != "" || !strings.HasPrefix(stderr, "parley: ") {
				t.Errorf("exit code %d, want %d\nstdout %s\nstderr %s", code, c.code, stdout, stderr)
			}
		})
	}
}

// TestBatchWithoutBatches checks that requests are sent one by one to a server that rejects
// batches.
func TestBatchWithoutBatches(t *testing.T) {
	service := demo.New("test")
	for _, carrier := range []string{"tcp://127.0.0.1:0", "http://127.0.0.1:0"} {
		target := serveOn(t, &parley.Listener{Handler: service.Handler(), Prepare: func(a *jsonrpc.Answerer) { a.NoBatch = true }}, carrier)
		file := filepath.Join(t.TempDir(), "batch")
		if err := os.WriteFile(file, []byte(`{"method":"add","params":[1,2]}`+"\n"+`{"method":"get_data"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := runOn(t, "call", target.String(), "--batch", file, "--jq", ".[].result", "-o", "raw")
		if want := "3\n[\"hello\",5]\n"; code != exitOK || stdout != want {
			t.Errorf("%s: exit code %d, stdout %q, want %q, stderr %s", carrier, code, stdout, want, stderr)
		}
	}
}

// TestTimeoutsNameWhatWaits checks that every kind of call lists the pending calls on a timeout.
func TestTimeoutsNameWhatWaits(t *testing.T) {
	target := serveDemo(t, "tcp://127.0.0.1:0").String()
	file := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(`{"method":"sleep","params":[60000],"jsonrpc":"2.0","id":"slow"}`+"\n"+`{"method":"sleep","params":[60000]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"sleep", "60000"}, "parley: sleep: no response within 50ms (--timeout); outstanding: id 1\n"},
		{[]string{"sleep", "60000", "--id", "mine"}, "parley: sleep: no response within 50ms (--timeout); outstanding: id \"mine\"\n"},
		{[]string{"--batch", file}, "parley: batch: no response within 50ms (--timeout); outstanding: id \"slow\", 2\n"},
		{[]string{"--raw", `{"jsonrpc":"2.0","id":1,"method":"sleep","params":[60000]}`}, "parley: no response within 50ms (--timeout)"},
	} {
		code, stdout, stderr := runOn(t, append([]string{"call", target, "--timeout", "50ms"}, c.words...)...)
		if code != exitAway || stdout != "" || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("%q: exit code %d, stdout %q, stderr\n%swant\n%s", c.words, code, stdout, stderr, c.want)
		}
	}
}

// TestRawStreamGoesOn checks that --stream continues after the response until the server closes the
// connection or the time is up, and that neither is an error.
func TestRawStreamGoesOn(t *testing.T) {
	const said = `{"jsonrpc":"2.0","id":1,"result":1}` + "\n" + `{"jsonrpc":"2.0","method":"news"}` + "\n"
	for _, c := range []struct{ target, patience, want string }{
		{answering(t, said, true), "20s", said},
		{answering(t, "", false), "50ms", ""},
	} {
		code, stdout, stderr := runOn(t, "call", c.target, "--timeout", c.patience, "--stream", "--raw", `{"jsonrpc":"2.0","id":1,"method":"x"}`)
		if code != exitOK || stdout != c.want || stderr != "" {
			t.Errorf("exit code %d, stdout %q, want %q, stderr %s", code, stdout, c.want, stderr)
		}
	}
}

func TestWantsColour(t *testing.T) {
	for _, c := range []struct {
		flag, variable, value string
		terminal, want        bool
	}{
		{"auto", "", "", true, true},
		{"auto", "", "", false, false},
		{"auto", "NO_COLOR", "1", true, false},
		{"auto", "TERM", "dumb", true, false},
		{"always", "NO_COLOR", "1", false, true},
		{"never", "", "", true, false},
	} {
		a := &app{getenv: func(name string) string {
			if name == c.variable {
				return c.value
			}
			return ""
		}}
		if got, err := a.wantsColour(c.flag, c.terminal); got != c.want || err != nil {
			t.Errorf("--color %s, %s=%s, terminal %v: %v, %v", c.flag, c.variable, c.value, c.terminal, got, err)
		}
	}
}

func TestSocketPath(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ runtime, want string }{
		{dir, filepath.Join(dir, "parley", "demo.sock")},
		{"", "temporary"},
		{"relative", "temporary"},
		{filepath.Join(dir, strings.Repeat("x", maxSocketPath)), "temporary"},
		{"/dev/null", "temporary"},
	} {
		a := &app{getenv: func(string) string { return c.runtime }}
		got := a.socketPath("demo.sock")
		if c.want == "temporary" && !strings.HasPrefix(got, os.TempDir()) || c.want != "temporary" && got != c.want {
			t.Errorf("with XDG_RUNTIME_DIR=%s the socket is %s, want %s", c.runtime, got, c.want)
		}
	}
}
