//go:build !race

package parley

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
)

// A holder is a peer over HTTP that tries to make the server hold much. Each of its connections
// sends requests one after the other.
type holder struct {
	address string
	session string
	task    string // the member of a message that names its task
	id      atomic.Int64
}

// post returns the text of a request.
func (h *holder) post(path, body, more string) string {
	if h.session != "" {
		more += "Mcp-Session-Id: " + h.session + "\r\nMcp-Protocol-Version: 2025-11-25\r\n"
	}
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n%sContent-Length: %d\r\n\r\n%s", path, h.address, more, len(body), body)
}

// call returns the text of an MCP or A2A call.
func (h *holder) call(path, method, params string) string {
	return h.post(path, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, h.id.Add(1), method, params), "")
}

// open begins an MCP session whose client can be asked.
func (h *holder) open(t *testing.T) {
	t.Helper()
	answer := func(body string) http.Header {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+h.address+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if h.session != "" {
			req.Header.Set("Mcp-Session-Id", h.session)
		}
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		if r.StatusCode >= 300 {
			t.Fatalf("%s: %s", body, r.Status)
		}
		return r.Header
	}
	head := answer(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"h","version":"1"}}}`)
	h.session = head.Get("Mcp-Session-Id")
	answer(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// TestWhatAProtocolMakesUsHold is like TestWhatAPeerCanMakeUsHold for what the protocols on top of
// HTTP hold.
func TestWhatAProtocolMakesUsHold(t *testing.T) {
	task := func(h *holder, text string) string {
		return h.call("/mcp", "tools/call", `{"name":"task","arguments":{"text":"`+text+`"},"task":{"ttl":3600000}}`)
	}
	for name, row := range map[string]struct {
		conns   int
		times   int // requests of each connection
		session bool
		read    bool // it reads the responses
		text    func(h *holder) string
	}{
		"questions": {600, 1, true, false, func(h *holder) string { return h.call("/mcp", "tools/call", `{"name":"ask","arguments":{}}`) }},
		"headers": {1000, 1, false, false, func(h *holder) string {
			return strings.TrimSuffix(h.post("/", "", strings.Repeat("X-Y: "+strings.Repeat("z", 1000)+"\r\n", 40)), "\r\n\r\n")
		}},
		"event streams":  {200, 1, true, false, func(h *holder) string { return h.call("/mcp", "tools/call", `{"name":"stream","arguments":{}}`) }},
		"finished tasks": {8, 1500, true, true, func(h *holder) string { return task(h, strings.Repeat("x", 32<<10)) }},
		"running tasks":  {8, 400, true, true, func(h *holder) string { return task(h, "wait") }},
		"history": {8, 2000, false, true, func(h *holder) string {
			return h.call("/a2a", "SendMessage", `{"message":{"messageId":"m`+fmt.Sprint(h.id.Add(1))+`",`+h.task+`"role":"ROLE_USER","parts":[{"text":"`+strings.Repeat("x", 32<<10)+`"}]},"configuration":{"returnImmediately":true,"historyLength":0}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t, holdChild, "http")
			address := server.target.Address
			before := server.calls()
			h := &holder{address: address}
			if row.session {
				h.open(t)
			}
			if name == "history" {
				peer := a2ahttp.NewClient("http://"+address+"/a2a", nil)
				defer peer.Close()
				e, err := peer.Send(t.Context(), &a2a.SendRequest{Message: a2a.UserMessage(a2a.Text("x"))})
				if err != nil {
					t.Fatal(err)
				}
				h.task = `"taskId":"` + e.Task.ID + `",`
			}
			server.weigh()
			var sending sync.WaitGroup
			var refused atomic.Int64
			for range row.conns {
				peer, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer peer.Close()
				// it is a socket, which has deadlines
				_ = peer.SetDeadline(time.Now().Add(5 * time.Second))
				sending.Go(func() {
					in := bufio.NewReader(peer)
					for range row.times {
						if _, err := io.WriteString(peer, row.text(h)); err != nil {
							return // the server reads nothing more
						}
						if !row.read {
							continue
						}
						r, err := http.ReadResponse(in, nil)
						if err != nil {
							return
						}
						if r.StatusCode >= 300 {
							refused.Add(1)
						}
						_, _ = io.Copy(io.Discard, r.Body)
						r.Body.Close()
					}
				})
			}
			during := server.sampleUntil(wait(&sending))
			during = append(during, server.sampleHeld()...)
			server.check(96) // the goal is 64; a busy machine collects garbage later
			server.checkLatency(before, during)
			t.Logf("from %d to %d MiB, %d requests refused", server.base, server.most, refused.Load())
		})
	}
}
