package mcphttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/mcp/mcphttp"
)

const (
	asJSON   = "application/json"
	asStream = "text/event-stream"
	asText   = "text/plain; charset=utf-8"
)

// TestModernOnTheWire checks the status and body of responses without a session.
func TestModernOnTheWire(t *testing.T) {
	w := newSite(t, nil)
	const sum = `{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"site","version":"1"}},"content":[{"type":"text","text":"3"}]}`
	add := func(id string) string { return `{"jsonrpc":"2.0","result":` + sum + `,"id":` + id + `}` }
	const two = `"name":"calculator/add","arguments":{"a":1,"b":2}`

	t.Run("plain when nothing streams", func(t *testing.T) { w.modern(t, "1", "tools/call", two).want(t, "200", asJSON, add("1")) })
	t.Run("an id above 2^53", func(t *testing.T) {
		w.modern(t, "9007199254740993", "tools/call", two).want(t, "200", asJSON, add("9007199254740993"))
	})
	t.Run("an id with escapes", func(t *testing.T) {
		w.modern(t, `"\u0061\/"`, "tools/call", two).want(t, "200", asJSON, add(`"\u0061\/"`))
	})
	for _, id := range []string{"1.5", "1.0", "1e3"} {
		t.Run("the fractional id "+id, func(t *testing.T) {
			w.modern(t, id, "tools/call", two).want(t, "400", asJSON, fault(-32600, "Invalid Request: an id must be a string or an integer", id))
		})
	}
	t.Run("numbers in arguments", func(t *testing.T) {
		got := w.modern(t, "1", "tools/call", `"name":"echo","arguments":{"n":9007199254740993,"f":1.10}`)
		if !strings.Contains(got.body, `{\"n\":9007199254740993,\"f\":1.10}`) {
			t.Errorf("got %s", got.body)
		}
	})
	t.Run("a stream once there is something to say", func(t *testing.T) {
		body, headers := modern("1", "tools/call", `"name":"count","arguments":{"to":2}`)
		body = strings.Replace(body, `"_meta":{`, `"_meta":{"progressToken":7,`, 1)
		got := w.post(t, body, headers...)
		got.want(t, "200", asStream, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`+"\n\n"+
			`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":2}}`+"\n\n"+
			`data: `+strings.Replace(add("1"), `"3"`, `"counted"`, 1)+"\n\n")
		if got.header("X-Accel-Buffering") != "no" {
			t.Errorf("a proxy may hold events back: %s", got.head)
		}
	})
	t.Run("no session, no event ids", func(t *testing.T) {
		got := w.modern(t, "1", "tools/call", two, "Mcp-Session-Id: nobody", "Last-Event-ID: 1-1")
		if got.want(t, "200", asJSON, add("1")); got.header("Mcp-Session-Id") != "" {
			t.Errorf("a session was made: %s", got.head)
		}
	})

	t.Run("to listen without a stream", func(t *testing.T) {
		for _, accept := range []string{"application/json", "*/*", "application/json, text/event-stream;q=0"} {
			got := w.modern(t, "1", "subscriptions/listen", `"notifications":{}`, "Accept: "+accept)
			got.want(t, "406", asJSON, fault(-32600, "Invalid Request: the response is an event stream, which Accept does not allow", "1"))
		}
	})
	t.Run("a notification", func(t *testing.T) {
		w.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "MCP-Protocol-Version: 2026-07-28").want(t, "202", "", "")
	})
	t.Run("an unknown notification", func(t *testing.T) {
		w.post(t, `{"jsonrpc":"2.0","method":"notifications/nobody"}`, "MCP-Protocol-Version: 2026-07-28").want(t, "202", "", "")
	})
	const noID = `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`
	t.Run("a response", func(t *testing.T) {
		w.post(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, "MCP-Protocol-Version: 2026-07-28").want(t, "400", asJSON, noID)
	})
	t.Run("a batch", func(t *testing.T) {
		body, headers := modern("1", "tools/list", "")
		w.post(t, "["+body+"]", headers...).want(t, "400", asJSON, noID)
	})
	t.Run("not JSON", func(t *testing.T) {
		w.post(t, `{"jsonrpc"`, "MCP-Protocol-Version: 2026-07-28").want(t, "400", asJSON, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`)
	})
	t.Run("keys in other letters", func(t *testing.T) {
		body, headers := modern("1", "tools/call", two)
		w.post(t, strings.Replace(body, `"method"`, `"Method"`, 1), headers...).want(t, "400", asJSON, fault(-32600, "Invalid Request", "1"))
		got := w.post(t, strings.Replace(body, `"name"`, `"Name"`, 1), headers...)
		if got.status == "200" && !strings.Contains(got.body, `"code":-32602`) || strings.Contains(got.body, `"3"`) {
			t.Errorf("Name: got %s %s", got.status, got.body)
		}
		got = w.post(t, strings.Replace(body, `"a":1`, `"A":1`, 1), headers...)
		if !strings.Contains(got.body, `"isError":true`) {
			t.Errorf("A: got %s %s", got.status, got.body)
		}
	})
	t.Run("a key twice", func(t *testing.T) {
		body, headers := modern("1", "tools/call", two)
		w.post(t, strings.Replace(body, `"method"`, `"method":"ping","method"`, 1), headers...).want(t, "400", asJSON, fault(-32600, "Invalid Request", "1"))
	})
	for _, method := range []string{"nobody", "initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/list", "tasks/result"} {
		t.Run("unknown or removed: "+method, func(t *testing.T) {
			w.modern(t, `"x"`, method, "").want(t, "404", asJSON, fault(-32601, "Method not found", `"x"`))
		})
	}
	t.Run("a handler's own complaint", func(t *testing.T) {
		got := w.modern(t, "1", "tools/call", `"name":"nobody"`)
		if got.status != "200" || !strings.Contains(got.body, `"code":-32602`) {
			t.Errorf("got %s %s", got.status, got.body)
		}
	})
	t.Run("a panic", func(t *testing.T) {
		got := w.modern(t, "1", "resources/read", `"uri":"test://panics"`)
		if got.status != "500" || !strings.Contains(got.body, `"code":-32603`) || strings.Contains(got.body, "secret") {
			t.Errorf("got %s %s", got.status, got.body)
		}
	})
	for _, method := range []string{"GET", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			got := replyOf(w.send(t, w.request(method, "/mcp", "", "MCP-Protocol-Version: 2026-07-28", "Mcp-Session-Id: nobody")))
			if got.status != "405" || got.header("Allow") != "POST" {
				t.Errorf("got %s", got.head)
			}
		})
	}
}

// TestEnvelopeAndHeaders checks which members and headers a modern request must have.
func TestEnvelopeAndHeaders(t *testing.T) {
	w := newSite(t, nil)
	const (
		version  = "MCP-Protocol-Version: 2026-07-28"
		method   = "Mcp-Method: tools/call"
		name     = "Mcp-Name: region"
		region   = "Mcp-Param-Region: "
		mismatch = -32020
	)
	body := func(region string) string {
		text, _ := modern("7", "tools/call", `"name":"region","arguments":{"region":"`+region+`"}`)
		return text
	}
	meta := func(text string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + text + `}}`
	}
	const v, caps = `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientCapabilities":{}`
	list := []string{version, "Mcp-Method: tools/list"}
	for _, tt := range []struct {
		name, body string
		headers    []string
		status     string
		code       int // 0 for a result
	}{
		{"all right", body("eu"), []string{version, method, name, region + "eu"}, "200", 0},
		{"names without case", body("eu"), []string{"mcp-protocol-version: 2026-07-28", "MCP-METHOD: tools/call", "mcp-name: region", "mcp-param-region: eu"}, "200", 0},
		{"blanks around", body("eu"), []string{version, method, "Mcp-Name:  region \t", region + "eu"}, "200", 0},
		{"base64", body("日本"), []string{version, method, name, region + "=?base64?5pel5pys?="}, "200", 0},
		{"no version", body("eu"), []string{method, name, region + "eu"}, "400", mismatch},
		{"an older version", body("eu"), []string{"MCP-Protocol-Version: 2025-11-25", method, name, region + "eu"}, "400", mismatch},
		{"two versions", body("eu"), []string{version, version, method, name, region + "eu"}, "400", mismatch},
		{"no method", body("eu"), []string{version, name, region + "eu"}, "400", mismatch},
		{"another method", body("eu"), []string{version, "Mcp-Method: tools/list", name, region + "eu"}, "400", mismatch},
		{"the method in other letters", body("eu"), []string{version, "Mcp-Method: Tools/Call", name, region + "eu"}, "400", mismatch},
		{"the method in base64", body("eu"), []string{version, "Mcp-Method: =?base64?dG9vbHMvY2FsbA==?=", name, region + "eu"}, "400", mismatch},
		{"a method with escapes", body("eu"), []string{version, "Mcp-Method: tools/call\x9b2J", name, region + "eu"}, "400", mismatch},
		{"two methods", body("eu"), []string{version, method, method, name, region + "eu"}, "400", mismatch},
		{"no name", body("eu"), []string{version, method, region + "eu"}, "400", mismatch},
		{"another name", body("eu"), []string{version, method, "Mcp-Name: echo", region + "eu"}, "400", mismatch},
		{"two names", body("eu"), []string{version, method, name, name, region + "eu"}, "400", mismatch},
		{"no param", body("eu"), []string{version, method, name}, "400", mismatch},
		{"another param", body("eu"), []string{version, method, name, region + "us"}, "400", mismatch},
		{"a param in base64 that is none", body("eu"), []string{version, method, name, region + "=?base64?ZXU?="}, "400", mismatch},

		{"no _meta", meta(``), list, "400", -32602},
		{"no version in _meta", meta(`"_meta":{` + caps + `}`), list, "400", -32602},
		{"no capabilities", meta(`"_meta":{` + v + `}`), list, "400", -32602},
		{"capabilities that are none", meta(`"_meta":{` + v + `,"io.modelcontextprotocol/clientCapabilities":1}`), list, "400", -32602},
		{"a client that is none", meta(`"_meta":{` + v + `,` + caps + `,"io.modelcontextprotocol/clientInfo":"me"}`), list, "400", -32602},
		{"an unknown log level", meta(`"_meta":{` + v + `,` + caps + `,"io.modelcontextprotocol/logLevel":"loud"}`), list, "400", -32602},
		{"with blanks", meta(`"_meta" : { ` + v + ` , "io.modelcontextprotocol/clientCapabilities" : { } }`), list, "200", 0},
		{"keys with escapes", meta(`"_meta":{` + v + `,"\u0069o.modelcontextprotocol/clientCapabilities":{}}`), list, "200", 0},
		{"no params", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, list, "400", -32602},

		{"a version that is not spoken", meta(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01",` + caps + `}`),
			[]string{"MCP-Protocol-Version: 2099-01-01", "Mcp-Method: tools/list"}, "400", -32022},
		{"an old version that never was", meta(`"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01",` + caps + `}`),
			[]string{"MCP-Protocol-Version: 1900-01-01", "Mcp-Method: tools/list"}, "400", -32022},
		{"a legacy version in _meta", meta(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25",` + caps + `}`),
			[]string{"MCP-Protocol-Version: 2025-11-25", "Mcp-Method: tools/list"}, "400", -32022},
		{"an unknown header alone", meta(``), []string{"MCP-Protocol-Version: nonsense", "Mcp-Method: tools/list"}, "400", -32022},
		{"discover without anything", `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, nil, "400", -32602},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.post(t, tt.body, tt.headers...)
			bad := got.status != tt.status || got.kind != asJSON || !strings.HasSuffix(got.body, `"id":7}`)
			if tt.code == 0 {
				bad = bad || !strings.Contains(got.body, `"result":`)
			} else {
				bad = bad || !strings.HasPrefix(got.body, `{"jsonrpc":"2.0","error":{"code":`+mcpCode(tt.code))
			}
			if bad {
				t.Errorf("%s %q\ngot %s %s, want %s and %d", tt.body, tt.headers, got.status, got.body, tt.status, tt.code)
			}
		})
	}
	t.Run("what is spoken", func(t *testing.T) {
		got := w.post(t, meta(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01",`+caps+`}`), "MCP-Protocol-Version: 2099-01-01", "Mcp-Method: tools/list")
		got.want(t, "400", asJSON, `{"jsonrpc":"2.0","error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":`+
			`["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"2099-01-01"}},"id":7}`)
	})
}

func mcpCode(code int) string {
	return strings.TrimSuffix(fault(code, "", ""), `,"message":""},"id":}`)[len(`{"jsonrpc":"2.0","error":{"code":`):]
}

// TestAborted checks that closing a modern HTTP request cancels it, and that a request in a session
// continues.
func TestAborted(t *testing.T) {
	w := newSite(t, nil)
	t.Run("modern", func(t *testing.T) {
		body, headers := modern("1", "tools/call", `"name":"wait"`)
		s := w.begin(t, w.request("POST", "/mcp", body, headers...), "")
		within(t, w.started)
		s.Close()
		if err := within(t, w.ended); err == nil {
			t.Error("the handler went on")
		}
	})
	t.Run("listening", func(t *testing.T) {
		body, headers := modern(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`)
		s := w.begin(t, w.request("POST", "/mcp", body, headers...), "notifications/subscriptions/acknowledged")
		w.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"l"}}`, "MCP-Protocol-Version: 2026-07-28")
		w.mcp.RemoveTools("region")
		if got := s.until(t, "data:"); !strings.Contains(got, "notifications/tools/list_changed") || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"l"`) {
			t.Errorf("another's cancel counted, or the id is another: got %s", got)
		}
		s.Close()
		if err := w.handler.Shutdown(t.Context()); err != nil { // waits for running requests
			t.Error(err)
		}
	})
	t.Run("in a session", func(t *testing.T) {
		w := newSite(t, nil)
		session := w.open(t, "2025-11-25")
		s := w.begin(t, w.request("POST", "/mcp", call("1", "wait", "{}"), session...), "")
		within(t, w.started)
		s.Close()
		select {
		case err := <-w.ended:
			t.Errorf("the handler ended: %v", err)
		default:
		}
		w.post(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, session...).want(t, "202", "", "")
		if err := within(t, w.ended); err == nil {
			t.Error("the handler went on after it was cancelled")
		}
	})
}

// TestDoor checks that requests with another Host or Origin are rejected.
func TestDoor(t *testing.T) {
	w := newSite(t, &mcphttp.Options{Hosts: []string{"mcp.example:*"}, Origins: []string{"https://app.example"}})
	body, headers := modern("1", "tools/list", "")
	for _, tt := range []struct {
		name   string
		header []string
		status string
	}{
		{"no origin", nil, "200"},
		{"own origin", []string{"Origin: http://" + w.host()}, "200"},
		{"a page of localhost", []string{"Origin: http://localhost:" + strings.Split(w.host(), ":")[1]}, "200"},
		{"a configured page", []string{"Origin: https://app.example"}, "200"},
		{"a configured host", []string{"Host: mcp.example:1"}, "200"},
		{"a foreign page, local host", []string{"Origin: https://evil.example"}, "403"},
		{"a page whose name ends like ours", []string{"Origin: http://evil-localhost"}, "403"},
		{"null", []string{"Origin: null"}, "403"},
		{"a foreign host", []string{"Host: evil.example"}, "403"},
		{"a foreign host and page", []string{"Host: evil.example", "Origin: http://evil.example"}, "403"},
		{"a page of another site", []string{"Sec-Fetch-Site: cross-site"}, "403"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := w.post(t, body, append(headers, tt.header...)...); got.status != tt.status {
				t.Errorf("got %s %s, want %s", got.status, got.body, tt.status)
			}
		})
	}
	for _, path := range []string{"/mcp", "/sse"} {
		got := replyOf(w.send(t, w.request("GET", path, "", "Origin: https://evil.example", "Accept: text/event-stream")))
		if got.status != "403" || got.kind != asText {
			t.Errorf("GET %s of a foreign page: got %s", path, got.head)
		}
	}
	t.Run("names that never match", func(t *testing.T) {
		if err := mcphttp.CheckNames([]string{"http://x"}, nil); err == nil {
			t.Error("a URL is a host")
		}
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		mcphttp.NewHandler(w.mcp, &mcphttp.Options{Origins: []string{"app.example"}})
	})
	t.Run("unguarded", func(t *testing.T) {
		w := newSite(t, &mcphttp.Options{Unguarded: true})
		if got := w.post(t, body, append(headers, "Host: evil.example")...); got.status != "200" {
			t.Errorf("got %s", got.head)
		}
	})
}

type whoKey struct{}

// TestPrincipal checks that a session of another principal is not found.
func TestPrincipal(t *testing.T) {
	o := &mcphttp.Options{Principal: func(ctx context.Context) string {
		who, _ := ctx.Value(whoKey{}).(string)
		return who
	}}
	w := newSite(t, o)
	inner := w.Config.Handler
	w.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), whoKey{}, r.Header.Get("Who"))))
	})
	session := w.open(t, "2025-11-25", "Who: anna")
	hijack := append(append([]string{}, session[0]), session[2:]...)
	const ping = `{"jsonrpc":"2.0","id":5,"method":"ping"}`
	const none = "Invalid Request: unknown session"
	w.post(t, ping, append(hijack, "Who: bert")...).want(t, "404", asJSON, fault(-32600, none, "5"))
	w.post(t, ping, hijack...).want(t, "404", asJSON, fault(-32600, none, "5"))
	for _, method := range []string{"GET", "DELETE"} {
		if got := replyOf(w.send(t, w.request(method, "/mcp", "", append(hijack, "Who: bert")...))); got.status != "404" {
			t.Errorf("%s: got %s", method, got.head)
		}
	}
	w.post(t, ping, session...).want(t, "200", asJSON, `{"jsonrpc":"2.0","result":{},"id":5}`)

	stream := w.begin(t, w.request("GET", "/sse", "", "Who: anna", "Accept: text/event-stream"), "event: endpoint")
	path := strings.TrimPrefix(stream.until(t, "data: "), "data: ")
	if got := replyOf(w.send(t, w.request("POST", path, ping, "Who: bert"))); got.status != "404" {
		t.Errorf("a pair's stream of another: got %s", got.head)
	}
	if got := replyOf(w.send(t, w.request("POST", path, ping, "Who: anna"))); got.status != "202" {
		t.Errorf("a pair's own stream: got %s", got.head)
	}
	stream.until(t, `"id":5`)
}
