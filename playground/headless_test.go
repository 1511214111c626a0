package playground_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground"
	"github.com/da1ed7bb/parley/playground/suite"
)

func headless(t *testing.T, targets ...playground.Target) *playground.Playground {
	t.Helper()
	p, err := playground.New(&playground.Options{Headless: true, Targets: targets, Folder: t.TempDir(), Recording: capture.Options{MaxDisk: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestSend checks that a reply has the response with its secrets, all responses of a stream, and
// the notifications.
func TestSend(t *testing.T) {
	web, tcp := services(t)
	p := headless(t, playground.Target{Name: "web", Address: web + "/rpc"}, playground.Target{Name: "tcp", Address: tcp}, playground.Target{Name: "mcp", Address: web + "/mcp", Protocol: playground.ProtocolMCP})
	for _, name := range []string{"web", "tcp"} {
		reply, err := p.Send(t.Context(), &suite.Request{Target: name, Method: "echo", Params: jsonrpc.Raw(`{"token":"not-redacted","n":9007199254740993}`)})
		if err != nil || !strings.Contains(string(reply.Response), `"result":{"token":"not-redacted","n":9007199254740993}`) {
			t.Errorf("%s: %+v %v", name, reply, err)
		}
		reply, err = p.Send(t.Context(), &suite.Request{Target: name, Method: "countdown", Params: jsonrpc.Raw(`{"from":3,"interval_ms":1}`)})
		if err != nil || len(reply.Notifications) != 3 || len(reply.Responses) != 1 || !strings.HasPrefix(reply.Command, "parley call ") {
			t.Errorf("%s: %+v %v", name, reply, err)
		}
		reply, err = p.Send(t.Context(), &suite.Request{Target: name, Method: "update", Notify: true})
		if err != nil || reply.Response != nil {
			t.Errorf("%s: a notification: %+v %v", name, reply, err)
		}
		reply, err = p.Send(t.Context(), &suite.Request{Target: name, Text: []byte(`[{"jsonrpc":"2.0","id":"a","method":"sum","params":[1]},{"jsonrpc":"2.0","id":"b","method":"sum","params":[2]}]`)})
		if err != nil || strings.Count(string(reply.Response), `"result"`) != 2 {
			t.Errorf("%s: a batch: %+v %v", name, reply, err)
		}
	}
	book := &suite.Request{Target: "mcp", Method: "tools/call", Params: jsonrpc.Raw(`{"name":"book-table","arguments":{"restaurant":"Zur Linde","guests":4}}`)}
	reply, err := p.Send(t.Context(), book)
	if err != nil || !slices.Contains(reply.Unanswered, "elicitation/create") {
		t.Errorf("without an answer: %+v %v", reply, err)
	}
	book.Answers = suite.Answers{"elicitation/create": jsonrpc.Raw(`{"action":"accept","content":{"name":"Ada","time":"20:15"}}`)}
	reply, err = p.Send(t.Context(), book)
	if err != nil || len(reply.Unanswered) != 0 || !strings.Contains(string(reply.Response), "Zur Linde, 4 guests, 20:15") {
		t.Errorf("with an answer: %s %v", reply.Response, err)
	}
}

// TestStreamOfResponses checks that all responses of a stream are returned, and the last one is the
// response.
func TestStreamOfResponses(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, state := range []string{"one", "two", "three"} {
			_, _ = io.WriteString(w, `data: {"jsonrpc":"2.0","id":1,"result":"`+state+`"}`+"\n\n")
		}
	}))
	t.Cleanup(s.Close)
	p := headless(t, playground.Target{Name: "a", Address: s.URL, Protocol: playground.ProtocolA2A})
	reply, err := p.Send(t.Context(), &suite.Request{Target: "a", Method: "SendStreamingMessage"})
	if err != nil || len(reply.Responses) != 3 || !strings.Contains(string(reply.Response), "three") {
		t.Errorf("%+v %v", reply, err)
	}
}

// TestSendFaults checks the kind of each reason for which there is no response.
func TestSendFaults(t *testing.T) {
	for _, c := range []struct {
		name, protocol string
		answer         http.HandlerFunc
		kind           suite.Kind
	}{
		{"401", "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, suite.Unauthorized},
		{"403 to MCP", "mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, suite.Unauthorized},
		{"401 to MCP", "mcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, suite.Unauthorized},
		{"404", "", http.NotFound, suite.Unreachable},
		{"500", "", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, suite.Unreachable},
		{"400", "", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 400) }, suite.Broken},
		{"a page", "", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, suite.Broken},
		{"nothing", "", func(http.ResponseWriter, *http.Request) {}, suite.Broken},
		{"result and error", "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}`)
		}, suite.Broken},
		{"the handshake is rejected", "mcp", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}`)
		}, suite.Rejected},
		{"cut off", "", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, suite.Unreachable},
		{"silence", "", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.ReadAll(r.Body)
			<-r.Context().Done()
		}, suite.TimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.answer)
			t.Cleanup(s.Close)
			p := headless(t, playground.Target{Name: "a", Address: s.URL, Protocol: c.protocol})
			limit := time.Minute
			if c.kind == suite.TimedOut {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := p.Send(ctx, &suite.Request{Target: "a", Method: "x"})
			fault, ok := errors.AsType[*suite.SendError](err)
			if !ok || fault.Kind != c.kind || fault.Text == "" {
				t.Errorf("%+v (%v), want %s", fault, err, c.kind)
			}
		})
	}
}
