package playground_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/lens"
	"github.com/da1ed7bb/parley/playground"
)

// recorded returns a session file of n calls to two targets in turn.
func recorded(t *testing.T, n int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "s.jsonl")
	rec, err := capture.New(&capture.Options{File: name, MaxMemory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	wires := []*capture.Wire{rec.Wire(capture.WireInfo{Target: "@x", Carrier: "tcp"}), rec.Wire(capture.WireInfo{Target: "@y", Carrier: "ws"})}
	for i := range n {
		w := wires[i/100%2]
		w.Payload(capture.Out, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"m \"\u202e%d","params":[1]}`, i, i%7))
		switch i % 50 {
		case 0:
			w.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"error":{"code":-32601,"message":"no"}}`, i))
		case 1:
			w.Payload(capture.In, fmt.Appendf(nil, `[{"jsonrpc":"2.0","id":%d,"result":1}]`, i))
		case 2:
			w.Payload(capture.In, []byte("not JSON"))
		default:
			w.Payload(capture.In, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":19}`, i))
		}
	}
	wires[0].Close(nil)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// exchanged returns a session file of n MCP calls over HTTP.
func exchanged(t testing.TB, n int) string {
	t.Helper()
	out := capture.AppendHeader(nil)
	seq, at := int64(0), time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	add := func(e capture.Event) {
		seq++
		at = at.Add(137 * time.Microsecond)
		e.Seq, e.Time, e.Conn, e.Size = seq, at, 1, len(e.Data)
		out = capture.AppendLine(out, &e)
	}
	session := []string{"8904ef4f-6693-47bc-9db1-d0ff58d5ca41"}
	add(capture.Event{Kind: capture.KindOpen, Wire: &capture.WireInfo{Target: "@table", Carrier: "http"}})
	for i := range n {
		method, result, status := `"tools/call","params":{"name":"book-table","arguments":{"guests":4}}`, `"result":{"content":[{"type":"text","text":"20:15"}]}`, 200
		switch {
		case i == 0:
			method, result = `"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"h","version":"1"}}`, `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"t","version":"1"}}`
		case i%10 == 9:
			result, status = `"error":{"code":-32602,"message":"no"}`, 400
		}
		x := int64(i + 1)
		add(capture.Event{Kind: capture.KindRequest, Dir: capture.Out, Exchange: x, Method: "POST", URL: "/mcp?a=\"b\"", Header: http.Header{"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Session-Id": session}})
		add(capture.Event{Kind: capture.KindMessage, Dir: capture.Out, Exchange: x, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%s}`, i, method)})
		add(capture.Event{Kind: capture.KindResponse, Dir: capture.In, Exchange: x, Status: status, Header: http.Header{"Content-Type": {"application/json"}, "Mcp-Session-Id": session}})
		add(capture.Event{Kind: capture.KindMessage, Dir: capture.In, Exchange: x, Data: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%s}`, i, result)})
		add(capture.Event{Kind: capture.KindEnd, Exchange: x})
	}
	return string(out)
}

// rowsOf returns the rows of "rows" notifications by ref, including the common values of "all".
func rowsOf(t *testing.T, stream string) map[string]obj {
	t.Helper()
	rows := map[string]obj{}
	for line := range strings.Lines(stream) {
		text, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m struct {
			Params struct {
				All  obj            `json:"all"`
				Rows []any          `json:"rows"`
				Rest map[string]any `json:",embed"`
			} `json:"params"`
			Rest map[string]any `json:",embed"`
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		for _, r := range m.Params.Rows {
			row, full := r.(obj)
			if !full {
				row = listed(t, r.([]any))
			}
			if _, own := row["conn"]; !own && row["kind"] != "lost" {
				for k, v := range m.Params.All {
					if k != "version" || row["kind"] != "http" {
						row[k] = v
					}
				}
			}
			if ms, ok := row["ms"].(float64); ok && ms < 0.001 {
				row["ms"] = 0.0
			}
			delete(row, "rev")
			delete(row, "count")
			rows[row["ref"].(string)] = row
		}
	}
	return rows
}

// listed decodes a row that is a list as the page does: see web/src/lib/short.js.
func listed(t *testing.T, list []any) obj {
	t.Helper()
	row := obj{}
	for i, name := range []string{"ref", "time", "kind", "dir", "id", "method", "bytes", "parent", "call", "answer", "state", "ms", "brief", "name", "http", "code"} {
		if i >= len(list) || list[i] == 0.0 {
			continue
		}
		switch v := list[i]; name {
		case "ref", "parent", "call", "answer":
			row[name] = fmt.Sprint(int(v.(float64)))
		case "kind":
			row[name] = []string{"", "request", "notification", "result", "error", "stderr", "close", "http"}[int(v.(float64))]
		case "dir":
			row[name] = []string{"", "out", "in"}[int(v.(float64))]
		case "state":
			row[name] = []string{"", "waiting", "done", "error", "cancelled", "unanswered"}[int(v.(float64))]
		default:
			row[name] = v
		}
	}
	return row
}

// TestFollowInShort checks that short rows contain the same data in fewer bytes.
func TestFollowInShort(t *testing.T) {
	for name, file := range map[string]string{"lines": recorded(t, 3_000), "HTTP": exchanged(t, 1_500)} {
		t.Run(name, func(t *testing.T) { inShort(t, file) })
	}
}

func inShort(t *testing.T, file string) {
	b := open(t, &playground.Options{Judges: lens.Judges})
	if status, _, text := b.do(http.MethodPost, "/session/open", "application/x-ndjson", file, nil); status != 200 {
		t.Fatal(status, text)
	}
	follow := func(params string) string {
		_, _, text := b.do(http.MethodPost, "/rpc", "application/json", `{"jsonrpc":"2.0","id":1,"method":"follow","params":`+params+`}`, nil)
		return text
	}
	long, short := follow(`{"log":"s1"}`), follow(`{"log":"s1","short":true}`)
	want, got := rowsOf(t, long), rowsOf(t, short)
	if len(want) < 4_500 {
		t.Fatalf("%d rows", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-long +short:\n%.2000s", diff)
	}
	if len(short) > len(long)*7/10 {
		t.Errorf("in short it is %d bytes, else %d", len(short), len(long))
	}
}

// TestCopiesOfSessionsGo checks that the copy of a session is an unnamed file where the system
// supports that, so that nothing remains after kill -9. Elsewhere it is deleted when the session is
// closed, even while it is read, and when the program exits.
func TestCopiesOfSessionsGo(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Setenv("TMP", folder)
	t.Setenv("TEMP", folder)
	copies := func() int {
		names, err := filepath.Glob(filepath.Join(folder, "parley-session-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	names := 1
	if runtime.GOOS != "windows" {
		names = 0
	}
	b := open(t, &playground.Options{})
	text := recorded(t, 20_000)
	for range 2 {
		if status, _, answer := b.do(http.MethodPost, "/session/open", "application/x-ndjson", text, nil); status != 200 {
			t.Fatal(status, answer)
		}
	}
	if n := copies(); n != 2*names {
		t.Errorf("%d copies of 2 sessions", n)
	}
	b.call("session/close", obj{"log": "s1"}, nil)
	if n := copies(); n != names {
		t.Errorf("%d copies of 1 session", n)
	}
	if err := b.page.Close(); err != nil {
		t.Error(err)
	}
	if n := copies(); n != 0 {
		t.Errorf("%d copies are left", n)
	}
}

// TestNoSession checks that an invalid session leaves nothing behind.
func TestNoSession(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("TMPDIR", folder)
	b := open(t, &playground.Options{})
	for _, text := range []string{"", "PK\x03\x04", "\n\n", `{"parley":"session","version":1}`, `{"parley":"session","version":2}`, "[1,2", strings.Repeat("x", 1<<20)} {
		begin := time.Now()
		if status, _, answer := b.do(http.MethodPost, "/session/open", "application/x-ndjson", text, nil); status != http.StatusUnprocessableEntity {
			t.Errorf("%.20q: %d %s after %v", text, status, answer, time.Since(begin))
		}
	}
	if left, err := os.ReadDir(folder); err != nil || bytes.Contains([]byte(fmt.Sprint(left)), []byte("parley-session-")) {
		t.Errorf("left: %v, %v", left, err)
	}
}
