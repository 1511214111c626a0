package parley

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/acp/acphttp"
	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/mcp/mcphttp"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/sse"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// unreadSize is the size of the long value in each response, more than one HTTP/2 connection may
// leave unread.
const unreadSize = 3 << 19

// A longResponse is one way in which an HTTP binding sends a long response.
type longResponse struct {
	name    string
	serve   func(*testing.T) http.Handler
	path    string
	accept  string
	headers []string // pairs
	body    string   // if empty, the request is a GET
	free    bool     // the response does not count as unread: an own bound holds
}

const (
	bothTypes   = "application/json, text/event-stream"
	onlyStreams = "text/event-stream"
	textCall    = `{"jsonrpc":"2.0","method":"text","id":1}`
	tellCall    = `{"jsonrpc":"2.0","method":"tell","id":1}`
)

// longMux has a method with a long result, and one that notifies with long params.
func longMux() *jsonrpc.Mux {
	m := new(jsonrpc.Mux)
	long := strings.Repeat("x", unreadSize)
	m.Add("text", jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) { return long, nil }))
	m.Add("tell", jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		return nil, req.Peer().Notify(ctx, "told", []string{long})
	}))
	return m
}

func serveLongRPC(*testing.T) http.Handler { return httprpc.Handler(longMux()) }

// serveLongStreamable serves with a session that exists, and without sessions.
func serveLongStreamable(t *testing.T) http.Handler {
	mux := longMux()
	var ids []string
	s := &streamable.Server{SessionHeader: "Session", Begin: func(n *streamable.Session, _ *http.Request) {
		n.Answerer.Handler = mux
		ids = append(ids, n.ID)
	}}
	alone := &streamable.Alone{Answerer: &jsonrpc.Answerer{Handler: mux}}
	s.Door = func(r *http.Request, _ []byte) streamable.Route {
		switch r.Header.Get("How") {
		case "alone":
			return streamable.Route{Alone: alone}
		case "begin":
			return streamable.Route{Begin: true}
		}
		return streamable.Route{}
	}
	t.Cleanup(s.Close)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("How") == "" && len(ids) == 0 {
			begin := httptest.NewRequest("POST", "/", strings.NewReader(`{"jsonrpc":"2.0","method":"none","id":1}`))
			begin.Header = http.Header{"Content-Type": {"application/json"}, "How": {"begin"}}
			s.ServeHTTP(httptest.NewRecorder(), begin)
		}
		if r.Header.Get("How") == "" {
			r.Header.Set("Session", ids[0])
		}
		s.ServeHTTP(w, r)
	})
}

func serveLongMCP(t *testing.T) http.Handler {
	s := mcp.NewServer(mcp.Implementation{Name: "long", Version: "1"}, nil)
	t.Cleanup(s.Close)
	long := strings.Repeat("x", unreadSize)
	if err := s.AddTool(mcp.Tool{Name: "text", InputSchema: jsonrpc.Raw(`{"type":"object"}`)}, func(context.Context, *mcp.Request) (*mcp.ToolResult, error) {
		return mcp.TextResult(long), nil
	}); err != nil {
		t.Fatal(err)
	}
	h := mcphttp.NewHandler(s, &mcphttp.Options{Unguarded: true, Sessions: mcphttp.SessionsNone})
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func serveLongACP(serve func(*acp.Server, *acphttp.Options) (http.Handler, error)) func(t *testing.T) http.Handler {
	return func(t *testing.T) http.Handler {
		s := acp.NewServer(&acp.Options{Limits: acp.Limits{Part: 2 * unreadSize}})
		t.Cleanup(func() { _ = s.Close() })
		long := strings.Repeat("x", unreadSize)
		s.Add(acp.Agent{Manifest: acp.AgentManifest{Name: "long", Description: "For tests."}, Run: func(ctx context.Context, j *acp.Job) error {
			return j.Say(ctx, long)
		}})
		h, err := serve(s, &acphttp.Options{NoDoor: true})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
}

func serveLongA2A(t *testing.T) http.Handler {
	long := strings.Repeat("x", unreadSize)
	card := a2a.AgentCard{Name: "long", Description: long, Version: "1", SupportedInterfaces: a2ahttp.Interfaces("/rpc", "/"),
		Capabilities: a2a.AgentCapabilities{Streaming: true}, DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"}}
	s := a2a.NewServer(card, a2a.AgentFunc(func(ctx context.Context, r *a2a.Run) error {
		return r.Artifact(ctx, a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.Text(long)}})
	}), nil)
	t.Cleanup(s.Close)
	return &a2ahttp.Server{A2A: s, Unguarded: true}
}

func serveLongPair(*testing.T) http.Handler {
	return &sse.Pair{Serve: func(_ context.Context, conn jsonrpc.Transport, _ *http.Request) {
		text := make([]byte, unreadSize)
		_ = conn.Write(jsonrpc.Burst{Bytes: text, Ends: []int{len(text)}})
	}}
}

// longResponses lists all HTTP bindings.
func longResponses() []longResponse {
	const (
		acpInput = `"agent_name":"long","input":[{"role":"user","parts":[{"content":"y"}]}]`
		acpSync  = `{` + acpInput + `,"mode":"sync"}`
		acpFlow  = `{` + acpInput + `,"mode":"stream"}`
		a2aInput = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"y"}]}}`
	)
	rpc := func(method, params string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s,"id":1}`, method, params)
	}
	v1 := []string{a2a.HeaderVersion, "1.0"}
	older := []string{"Mcp-Protocol-Version", "2025-06-18"}
	tool := rpc("tools/call", `{"name":"text","arguments":{}}`)
	return []longResponse{
		{name: "httprpc", serve: serveLongRPC, accept: "application/json", body: textCall},
		{name: "httprpc, stream", serve: serveLongRPC, accept: onlyStreams, body: textCall},
		{name: "httprpc, notification", serve: serveLongRPC, accept: bothTypes, body: tellCall},
		{name: "streamable, alone", serve: serveLongStreamable, accept: bothTypes, headers: []string{"How", "alone"}, body: textCall},
		{name: "streamable, alone, stream", serve: serveLongStreamable, accept: onlyStreams, headers: []string{"How", "alone"}, body: textCall},
		{name: "streamable, alone, notification", serve: serveLongStreamable, accept: bothTypes, headers: []string{"How", "alone"}, body: tellCall},
		{name: "streamable, begin", serve: serveLongStreamable, accept: bothTypes, headers: []string{"How", "begin"}, body: textCall},
		{name: "streamable, begin, stream", serve: serveLongStreamable, accept: onlyStreams, headers: []string{"How", "begin"}, body: textCall},
		{name: "streamable, session", serve: serveLongStreamable, accept: bothTypes, body: textCall},
		{name: "streamable, session, stream", serve: serveLongStreamable, accept: onlyStreams, body: textCall},
		{name: "streamable, session, notification", serve: serveLongStreamable, accept: bothTypes, body: tellCall},
		{name: "mcphttp", serve: serveLongMCP, accept: bothTypes, headers: older, body: tool},
		{name: "acphttp, RPC", serve: serveLongACP(acphttp.NewRPC), accept: bothTypes, body: rpc(acp.MethodRunsCreate, acpSync)},
		{name: "acphttp, RPC, stream", serve: serveLongACP(acphttp.NewRPC), accept: bothTypes, body: rpc(acp.MethodRunsCreate, acpFlow)},
		{name: "acphttp, REST", serve: serveLongACP(acphttp.NewREST), path: "/runs", accept: bothTypes, body: acpSync},
		{name: "acphttp, REST, stream", serve: serveLongACP(acphttp.NewREST), path: "/runs", accept: bothTypes, body: acpFlow},
		{name: "a2ahttp, RPC", serve: serveLongA2A, path: "/rpc", accept: bothTypes, headers: v1, body: rpc(a2a.MethodSend, a2aInput)},
		{name: "a2ahttp, RPC, stream", serve: serveLongA2A, path: "/rpc", accept: bothTypes, headers: v1, body: rpc(a2a.MethodStreamSend, a2aInput)},
		{name: "a2ahttp, REST", serve: serveLongA2A, path: "/message:send", accept: bothTypes, headers: v1, body: a2aInput},
		{name: "a2ahttp, REST, stream", serve: serveLongA2A, path: "/message:stream", accept: bothTypes, headers: v1, body: a2aInput},
		{name: "a2ahttp, card", serve: serveLongA2A, path: a2ahttp.CardPath},
		{name: "sse", serve: serveLongPair, accept: onlyStreams, free: true},
	}
}

func (c *longResponse) request(ctx context.Context, major int, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "POST", "/"+strings.TrimPrefix(c.path, "/"), strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if body == "" {
		r.Method = "GET"
		r.Header.Del("Content-Type")
	}
	if c.accept != "" {
		r.Header.Set("Accept", c.accept)
	}
	for i := 0; i < len(c.headers); i += 2 {
		r.Header.Set(c.headers[i], c.headers[i+1])
	}
	r.ProtoMajor = major
	return r
}

// A slowClient is the ResponseWriter of a slow client.
type slowClient struct {
	*progresstest.Peer
	failed error // of the first write that failed
}

func (c *slowClient) Write(p []byte) (int, error) {
	n, err := c.Peer.Write(p)
	if c.failed == nil {
		c.failed = err
	}
	return n, err
}

// TestSlowAndSilentClients: in every HTTP binding a client that reads slowly and steadily gets the
// whole response, one that stops is disconnected ten seconds later (twenty if it took a part of the
// last 64 KiB), and while an HTTP/2 connection leaves over 1 MiB unread its next request waits.
func TestSlowAndSilentClients(t *testing.T) {
	for _, c := range longResponses() {
		for _, major := range []int{1, 2} {
			for name, most := range map[string]int{"steady": 0, "stops": 200 << 10} {
				t.Run(fmt.Sprintf("%s/HTTP %d/%s", c.name, major, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { c.check(t, major, most) })
				})
			}
		}
	}
}

func (c *longResponse) check(t *testing.T, major, most int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := c.serve(t)
	client := &slowClient{Peer: progresstest.New(64<<10, most)}
	giveUp := time.AfterFunc(5*time.Minute, func() { _ = client.Close() })
	defer giveUp.Stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(client, c.request(ctx, major, c.body))
	}()
	counted := false
	for range 60 { // a binding sends short events first
		if counted = budget.UnreadHTTP.Load() > 1<<20; counted {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if want := major == 2 && !c.free; counted != want {
		t.Errorf("the response counts as unread: %t, want %t", counted, want)
	}
	second := make(chan struct{})
	next := "{}"
	if c.body == "" {
		next = "" // the same again
	}
	if counted {
		go func() {
			defer close(second)
			h.ServeHTTP(httptest.NewRecorder(), c.request(ctx, major, next))
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Error("the next request of the connection is handled")
		default:
		}
	}
	<-done
	taken, silent := client.Taken()
	switch {
	case most == 0 && (client.failed != nil || taken < unreadSize):
		t.Errorf("the slow client got %d bytes, %v", taken, client.failed)
	case most > 0 && (client.failed == nil || taken != most || silent < 9*time.Second || silent > 22*time.Second):
		t.Errorf("the silent client took %d bytes, and was disconnected after %v with %v", taken, silent, client.failed)
	}
	if counted {
		<-second
	}
	if left := budget.UnreadHTTP.Load(); left != 0 {
		t.Errorf("%d bytes still count as unread", left)
	}
	cancel()
	time.Sleep(time.Minute) // ticks and sessions end
}
