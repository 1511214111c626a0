package tap_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/interop/harness"
)

// TestCurlAndNodeInHTTP2 uses curl and Node.js in HTTP/2 without TLS: no byte is changed in
// transit, and every message is paired.
func TestCurlAndNodeInHTTP2(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatalf("curl is missing (%v); run: make setup", err)
	}
	port := portOf(t, node(t, "node/http2.mjs"), nil, regexp.MustCompile(`listening at port (\d+)`))
	behind := newMiddle(t, "127.0.0.1:"+port)
	session := filepath.Join(t.TempDir(), "session.jsonl")
	at, stop := tapAt(t, "http://"+behind.at+"/", session)
	before := newMiddle(t, strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/"))
	for path, want := range map[string]string{
		"/":       `{"jsonrpc":"2.0","id":7,"result":5}`,
		"/events": "data: {\"jsonrpc\":\"2.0\",\"method\":\"tick\",\"params\":[1]}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":5}",
	} {
		cmd := harness.Command(within(t), t, []string{curl, "--silent", "--show-error", "--noproxy", "*", "--http2-prior-knowledge",
			"-H", "Content-Type: application/json", "-d", `{"jsonrpc":"2.0","id":7,"method":"sum","params":[2,3]}`, "http://" + before.at + path})
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: curl got %s, %v; want %s", path, out, err, want)
		}
	}
	passed(before, behind)
	stop()
	for _, in := range []bool{true, false} {
		if a, b := before.all(in), behind.all(in); a != b || a == "" {
			t.Errorf("to the server %t: %d bytes before the tap, %d behind it, want the same", in, len(a), len(b))
		}
	}
	log := clean(t, session, 2, "")
	payloads := 0
	for _, r := range log.Rows(capture.Ref{}, 0) {
		if r.Kind == capture.RowHTTP && r.Code == 200 {
			payloads++
		}
	}
	if payloads != 2 {
		t.Errorf("%d exchanges were recorded, want 2", payloads)
	}
}
