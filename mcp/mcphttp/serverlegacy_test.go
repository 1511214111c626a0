package mcphttp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

// TestLegacyOnTheWire checks the status and body of responses in a session, in each version that
// has sessions.
func TestLegacyOnTheWire(t *testing.T) {
	w := newSite(t, nil)
	for _, v := range []mcp.Version{mcp.V20250326, mcp.V20250618, mcp.V20251125} {
		t.Run(v.String(), func(t *testing.T) {
			session := w.open(t, v.String())
			sum := func(id string) string {
				return `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"3"}]},"id":` + id + `}`
			}
			add := func(id string) string { return call(id, "calculator/add", `{"a":1,"b":2}`) }
			for _, tt := range []struct{ name, body, status, kind, want string }{
				{"plain when nothing streams", add("1"), "200", asJSON, sum("1")},
				{"an id above 2^53", add("9007199254740993"), "200", asJSON, sum("9007199254740993")},
				{"a fractional id", add("1.5"), "400", asJSON, fault(-32600, "Invalid Request: an id must be a string or an integer", "1.5")},
				{"the id null", add("null"), "400", asJSON, fault(-32600, "Invalid Request", "null")},
				{"a key in other letters", strings.Replace(add("1"), `"method"`, `"METHOD"`, 1), "400", asJSON, fault(-32600, "Invalid Request", "1")},
				{"not JSON", `{"jsonrpc":`, "400", asJSON, fault(-32700, "Parse error", "null")},
				{"nothing", ``, "400", asJSON, fault(-32700, "Parse error", "null")},
				{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"nobody"}`, "200", asJSON, fault(-32601, "Method not found", "1")},
				{"discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, "200", asJSON, fault(-32602, "Invalid params: _meta has no io.modelcontextprotocol/protocolVersion", "1")},
				{"initialize again", initialize(v.String()), "400", asJSON, fault(-32600, "Invalid Request: already initialized", "0")},
				{"a notification", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "202", "", ""},
				{"a response that nobody waits for", `{"jsonrpc":"2.0","id":1,"result":{}}`, "202", "", ""},
			} {
				t.Run(tt.name, func(t *testing.T) { w.post(t, tt.body, session...).want(t, tt.status, tt.kind, tt.want) })
			}
			t.Run("a batch", func(t *testing.T) {
				got := w.post(t, "["+add("1")+","+`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`+","+add(`"b"`)+"]", session...)
				if v.HasBatches() {
					got.want(t, "200", asJSON, "["+sum("1")+","+sum(`"b"`)+"]")
				} else {
					got.want(t, "400", asJSON, fault(-32600, "Invalid Request", "null"))
				}
			})
			t.Run("a stream", func(t *testing.T) {
				got := w.post(t, counting("1", 2), session...)
				events := ""
				if v.HasEarlyEvents() {
					events = "id: 1-0\ndata: \n\n"
				}
				for n := 1; n <= 2; n++ {
					events += fmt.Sprintf("id: 1-%d\ndata: ", n) + fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d}}`, n) + "\n\n"
				}
				got.want(t, "200", asStream, events+"id: 1-3\ndata: "+strings.Replace(sum("1"), `"3"`, `"counted"`, 1)+"\n\n")
			})
			t.Run("resumed", func(t *testing.T) {
				got := replyOf(w.send(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream", "Last-Event-ID: 1-2")...)))
				got.want(t, "200", asStream, "id: 1-3\ndata: "+strings.Replace(sum("1"), `"3"`, `"counted"`, 1)+"\n\n")
			})
			t.Run("the version header", func(t *testing.T) {
				if got := w.post(t, add("1"), session[0], "MCP-Protocol-Version: 1900-01-01"); got.status != "400" || !strings.Contains(got.body, `"code":-32022`) {
					t.Errorf("nonsense: got %s %s", got.status, got.body)
				}
				w.post(t, add("1"), session[0]).want(t, "200", asJSON, sum("1"))
			})
			t.Run("a modern request with a session", func(t *testing.T) {
				body, headers := modern("1", "tools/list", "")
				if got := w.post(t, body, append(headers, session[0])...); got.status != "200" || !strings.Contains(got.body, `"resultType":"complete"`) {
					t.Errorf("got %s %s", got.status, got.body)
				}
				if got := w.post(t, body, session...); got.status != "400" || !strings.Contains(got.body, `"code":-32020`) {
					t.Errorf("without its header: got %s %s", got.status, got.body)
				}
			})
			t.Run("the end", func(t *testing.T) {
				if got := replyOf(w.send(t, w.request("DELETE", "/mcp", "", session...))); got.status != "204" {
					t.Errorf("DELETE: got %s", got.head)
				}
				w.post(t, add("1"), session...).want(t, "404", asJSON, fault(-32600, "Invalid Request: unknown session", "1"))
			})
		})
	}
}

// TestHandshake checks that a failed handshake leaves no session behind.
func TestHandshake(t *testing.T) {
	w := newSite(t, nil)
	for _, tt := range []struct{ name, body, status, want string }{
		{"without params", `{"jsonrpc":"2.0","id":0,"method":"initialize"}`, "200", `"code":-32602`},
		{"in a batch", "[" + initialize("2025-03-26") + "]", "400", `"code":-32600`},
		{"without a session", call("4", "echo", "{}"), "400", fault(-32600, "Invalid Request: Mcp-Session-Id is missing, and MCP-Protocol-Version is not 2026-07-28 or later", "4")},
		{"a notification without a session", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "400", `"id":null`},
		{"a response without a session", `{"jsonrpc":"2.0","id":1,"result":{}}`, "400", `"id":null`},
		{"not JSON", `{`, "400", fault(-32700, "Parse error", "null")},
		{"nothing", ` `, "400", fault(-32700, "Parse error", "null")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.post(t, tt.body)
			if got.status != tt.status || got.kind != asJSON || !strings.Contains(got.body, tt.want) || got.header("Mcp-Session-Id") != "" {
				t.Errorf("got %s\n%s", got.head, got.body)
			}
		})
	}
	t.Run("another version is agreed on", func(t *testing.T) {
		for _, name := range []string{"2026-07-28", "1999-01-01"} {
			if got := w.post(t, initialize(name)); got.status != "200" || !strings.Contains(got.body, `"protocolVersion":"2025-11-25"`) {
				t.Errorf("%s: got %s %s", name, got.status, got.body)
			}
		}
	})
	if got := w.handler.Sessions(); got != 2 {
		t.Errorf("there are %d sessions", got)
	}
}

// TestAsked checks that in a session, the user is asked on the stream of the call, and the answer
// arrives in another POST.
func TestAsked(t *testing.T) {
	w := newSite(t, nil)
	session := w.open(t, "2025-11-25")
	s := w.begin(t, w.request("POST", "/mcp", call("1", "book", "{}"), session...), "id: 1-1")
	if got, want := s.until(t, "data: "), `data: {"jsonrpc":"2.0","method":"elicitation/create","params":{"message":"When?","requestedSchema":{"type":"object","properties":{}}},"id":1}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	w.post(t, `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`, session...).want(t, "202", "", "")
	s.until(t, `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"decline"}]},"id":1}`)

	t.Run("and told when nobody waits any more", func(t *testing.T) {
		s := w.begin(t, w.request("POST", "/mcp", call(`"b"`, "book", "{}"), session...), "elicitation/create")
		w.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"b"}}`, session...).want(t, "202", "", "")
		if got := s.until(t, "data: "); got != `data: {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` {
			t.Errorf("got %s", got)
		}
		if rest, _ := s.lines.ReadString(0); strings.Contains(rest, "data: ") {
			t.Errorf("a cancelled call was answered: %s", rest)
		}
	})
}

// TestUnasked checks that changes are sent on the stream of the GET.
func TestUnasked(t *testing.T) {
	w := newSite(t, nil)
	session := w.open(t, "2025-06-18")
	w.mcp.RemoveTools("region") // waits for the stream
	s := w.begin(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream")...), "id: 0-1")
	s.until(t, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	w.mcp.RemoveTools("echo")
	s.until(t, "id: 0-2")
	s.until(t, "notifications/tools/list_changed")
	if got := replyOf(w.send(t, w.request("GET", "/mcp", "", append(session, "Accept: text/event-stream")...))); got.status != "409" {
		t.Errorf("a second stream: got %s", got.head)
	}
}

// TestSessionless checks that older clients may be served without sessions.
func TestSessionless(t *testing.T) {
	sum := `{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"3"}]},"id":1}`
	add := call("1", "calculator/add", `{"a":1,"b":2}`)
	for _, policy := range []mcphttp.Sessions{mcphttp.SessionsOptional, mcphttp.SessionsNone} {
		w := newSite(t, &mcphttp.Options{Sessions: policy})
		got := w.post(t, initialize("2025-06-18"))
		if hasSession := got.header("Mcp-Session-Id") != ""; got.status != "200" || hasSession != (policy == mcphttp.SessionsOptional) {
			t.Errorf("%d: initialize was answered %s\n%s", policy, got.head, got.body)
		}
		w.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).want(t, "202", "", "")
		w.post(t, add).want(t, "200", asJSON, sum)
		w.post(t, add, "MCP-Protocol-Version: 2025-06-18").want(t, "200", asJSON, sum)
		w.post(t, "["+add+"]").want(t, "200", asJSON, "["+sum+"]")
		w.post(t, counting("1", 1)).want(t, "200", asStream, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`+
			"\n\ndata: "+strings.Replace(sum, `"3"`, `"counted"`, 1)+"\n\n")
		w.modern(t, "1", "nobody", "").want(t, "404", asJSON, fault(-32601, "Method not found", "1"))

		// Disconnecting does not cancel (MCP 2025-11-25, Transports).
		s := w.begin(t, w.request("POST", "/mcp", call("1", "wait", "{}")), "")
		within(t, w.started)
		s.Close()
		w.post(t, add).want(t, "200", asJSON, sum)
		select {
		case err := <-w.ended:
			t.Errorf("%d: the handler ended: %v", policy, err)
		default:
		}
	}
}
