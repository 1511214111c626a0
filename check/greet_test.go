package check_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/check"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// web serves POSTs with a function that gets the body.
func web(t *testing.T, f func(w http.ResponseWriter, body []byte)) parley.Target {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client ended the request
		}
		f(w, body)
	}))
	t.Cleanup(s.Close)
	at, err := parley.ParseTarget(s.URL + "/rpc")
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestNoServer checks places without a JSON-RPC server: all requests get a status that concerns the
// address or the credentials, with whatever body.
func TestNoServer(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		kind, body string
	}{
		"page":      {404, "text/html", "<h1>Not Found</h1>"},
		"JSON":      {404, "application/json", `{"detail":"Not Found"}`},
		"list":      {404, "application/json", `[]`},
		"empty":     {404, "", ""},
		"GET only":  {405, "text/plain", "Method Not Allowed\n"},
		"redirect":  {301, "text/html", "<a href=/rpc/>Moved Permanently</a>"},
		"token":     {401, "text/plain", "Unauthorized\n"},
		"forbidden": {403, "application/json", `{"message":"no"}`},
		"gateway":   {502, "text/html", "<h1>Bad Gateway</h1>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := web(t, func(w http.ResponseWriter, _ []byte) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body) // the client may be gone
			})
			for _, profile := range []string{"", "mcp", "a2a", "acp"} {
				report, err := check.Check(t.Context(), at, &check.Options{Profile: profile})
				unreachable, _ := errors.AsType[*check.UnreachableError](err)
				status, _ := errors.AsType[*httprpc.StatusError](err)
				if report != nil || unreachable == nil || status == nil || status.Status != c.status || string(status.Body) != c.body {
					t.Errorf("profile %q: %v, %v", profile, report, err)
				}
			}
		})
	}
}

// TestAServerThatAnswersSomeRequestsIsChecked checks servers that answer some requests with a
// status and no message: that breaks rules.
func TestAServerThatAnswersSomeRequestsIsChecked(t *testing.T) {
	for name, answers := range map[string]func(body []byte) bool{
		"unknown methods are not found": func(body []byte) bool { return !bytes.Contains(body, []byte("parley.check.unknown")) },
		"only what is no call":          func(body []byte) bool { return bytes.HasSuffix(body, []byte(":")) },
		"only a mapped method":          func(body []byte) bool { return bytes.Contains(body, []byte(`"fail"`)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := new(plainServer)
			at := web(t, func(w http.ResponseWriter, body []byte) {
				if !answers(body) {
					http.Error(w, "not found", http.StatusNotFound)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(plain.answer(body)) // the client may be gone
			})
			report, err := check.Check(t.Context(), at, &check.Options{Fail: "fail", Only: []string{"error/unknown-method"}, Probe: true})
			if err != nil || report.Verdict != check.Fail {
				t.Errorf("%v, %v", report, err)
			}
		})
	}
}

// TestProbe checks that no rule runs on a server of another protocol, or on one that never
// responds, and that the time for that is bounded.
func TestProbe(t *testing.T) {
	for name, f := range map[string]func(c net.Conn){
		"silent": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"closes": func(net.Conn) {},
		"banner": func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n") },
		"HTTP":   func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := hostile(t, f)
			for _, target := range []string{target, "http" + strings.TrimPrefix(target, "tcp") + "/"} {
				at, err := parley.ParseTarget(target)
				if err != nil {
					t.Fatal(err)
				}
				rules := 0
				o := &check.Options{Probe: true, Timeout: 200 * time.Millisecond, Progress: func(int, int, check.Result) { rules++ }}
				_, err = check.Check(t.Context(), at, o)
				if _, ok := errors.AsType[*check.UnreachableError](err); !ok || rules > 0 {
					t.Errorf("%s: %v after %d rules", target, err, rules)
				}
			}
		})
	}
}
