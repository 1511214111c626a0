package mcphttp_test

import (
	"flag"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestNothingIsLost counts 100,000 notifications in one response, in both eras.
func TestNothingIsLost(t *testing.T) {
	const notes = 100_000
	w := newSite(t, nil)
	session := w.open(t, "2025-06-18")
	text := strings.Replace(counting("1", notes), `"_meta":{`, envelope[:len(envelope)-1]+",", 1)
	for name, request := range map[string]string{
		"legacy": w.request("POST", "/mcp", counting("1", notes), session...),
		"modern": w.request("POST", "/mcp", text, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: count"),
	} {
		t.Run(name, func(t *testing.T) {
			s := w.begin(t, request, "event-stream")
			for n := 1; n <= notes; n++ {
				if got := s.until(t, "data: {"); !strings.HasSuffix(got, fmt.Sprintf(`"progress":%d}}`, n)) {
					t.Fatalf("notification %d is %s", n, got)
				}
			}
			s.until(t, `"counted"`)
			if rest, err := io.ReadAll(s.lines); strings.Contains(string(rest), "data") {
				t.Errorf("behind the answer: %q, %v", rest, err)
			}
		})
	}
}

// sessions is the number of clients that vanish in TestVanished; -sessions=10000 is the full
// figure.
var sessions = flag.Int("sessions", 300, "clients that vanish in TestVanished")

// TestVanished checks that clients that open a session, listen, call and vanish leave nothing
// behind after their sessions have expired.
func TestVanished(t *testing.T) {
	w := newSite(t, &mcphttp.Options{Idle: time.Second + time.Duration(*sessions)*time.Millisecond})
	round := func() (full uint64) {
		for range *sessions {
			session := w.open(t, "2025-11-25")
			get := w.dial(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream")...))
			get.until(t, "id: 0-0")
			call := w.dial(t, w.request("POST", "/mcp", counting("1", 20), session...))
			call.until(t, "id: 1-3")
			get.Close()
			call.Close()
		}
		full = memory()
		for until := time.Now().Add(5 * time.Minute); w.handler.Sessions() > 0; {
			w.modern(t, "1", "tools/list", "") // the server does other work meanwhile
			if time.Now().After(until) {
				t.Fatalf("%d sessions are left", w.handler.Sessions())
			}
		}
		return full
	}
	round()
	round() // now maps and pools have their final size
	before, goroutines := memory(), runtime.NumGoroutine()
	full := round()
	after := memory()
	t.Logf("heap before %d KiB, with the last of %d sessions %d KiB, after %d KiB", before>>10, *sessions, full>>10, after>>10)
	if after > before+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	for until := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines+5; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("there were %d goroutines, and now there are %d", goroutines, runtime.NumGoroutine())
		}
	}
}

func memory() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
