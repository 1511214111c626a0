package a2ahttp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/a2a/a2ahttp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A script is a server with fixed responses that records its requests.
type script struct {
	url string

	mu   sync.Mutex
	seen []string // method, or "batch"
}

func scripted(t *testing.T, answer func(method string, id json.RawMessage) (contentType, body string)) *script {
	s := &script{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var in struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
		}
		if json.Unmarshal(text, &in) != nil {
			in.Method = "batch"
		}
		s.mu.Lock()
		s.seen = append(s.seen, in.Method)
		s.mu.Unlock()
		contentType, body := answer(in.Method, in.ID)
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

const oldTask = `{"kind":"task","id":"T","contextId":"C","status":{"state":"completed"}}`

// TestTheClientFallsBackToTheOlderVersion uses the responses of 0.3 servers to a 1.0 method: a2a-js
// 0.3.14, a2a-go 2.3.1 with text/plain, and one that returns the error defined in 1.0.
func TestTheClientFallsBackToTheOlderVersion(t *testing.T) {
	for name, refusal := range map[string]string{
		"method not found": `{"code":-32601,"message":"Method not found"}`,
		"invalid params":   `{"code":-32602,"message":"Invalid method parameters"}`,
		"version":          `{"code":-32009,"message":"no"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted(t, func(method string, id json.RawMessage) (string, string) {
				if !strings.Contains(method, "/") {
					return "text/plain; charset=utf-8", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, refusal)
				}
				return "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, oldTask)
			})
			c := a2ahttp.NewClient(s.url, nil)
			defer c.Close()
			for range 2 {
				if got, err := c.Send(t.Context(), text("x")); err != nil || got.Task == nil || got.Task.Status.State != a2a.StateCompleted {
					t.Fatalf("Send = %+v, %v", got, err)
				}
			}
			if diff := cmp.Diff([]string{"SendMessage", "message/send", "message/send"}, s.asked()); diff != "" {
				t.Error(diff)
			}
			if c.Version() != a2a.V03 {
				t.Errorf("the version is %v", c.Version())
			}
			if _, err := c.ListTasks(t.Context(), nil); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("ListTasks: %v", err)
			}
		})
	}
}

// TestARealErrorStays checks that another error of a 1.0 server is not mistaken for a version
// error.
func TestARealErrorStays(t *testing.T) {
	s := serve(t, card(), echo, &a2a.ServerOptions{Versions: []a2a.Version{a2a.V10}})
	c := a2ahttp.NewClient(s.url+"/rpc", nil)
	defer c.Close()
	_, err := c.Send(t.Context(), &a2a.SendRequest{Message: &a2a.Message{Role: a2a.RoleUser, MessageID: "m"}})
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams || len(a2a.Details(e)) != 2 {
		t.Errorf("Send = %v", err)
	}
	if got, err := c.Send(t.Context(), text("x")); err != nil || got.Task == nil || c.Version() != a2a.V10 {
		t.Errorf("Send = %+v, %v by %v", got, err, c.Version())
	}
}

// TestThePeerThatRefusesBatchesIsRemembered uses the response of both official SDKs to an array:
// one error with id null, -32602.
func TestThePeerThatRefusesBatchesIsRemembered(t *testing.T) {
	s := scripted(t, func(method string, id json.RawMessage) (string, string) {
		if method == "batch" {
			return "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Invalid params"}}`
		}
		return "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"id":"T","status":{"state":"TASK_STATE_WORKING"}}}`, id)
	})
	c := a2ahttp.NewClient(s.url, nil)
	defer c.Close()
	for range 2 {
		var one, two a2a.Task
		calls := []a2a.BatchCall{
			{Method: a2a.MethodGetTask, Params: &a2a.GetTaskRequest{ID: "T"}, Result: &one},
			{Method: a2a.MethodCancelTask, Params: &a2a.TaskRequest{ID: "T"}, Result: &two},
		}
		if err := c.Batch(t.Context(), calls); err != nil || calls[0].Err != nil || calls[1].Err != nil || one.ID != "T" || two.ID != "T" {
			t.Errorf("Batch = %v, %v", err, calls)
		}
	}
	if asked := s.asked(); len(asked) != 5 || asked[0] != "batch" {
		t.Errorf("asked %v", asked)
	}
}

func TestBatch(t *testing.T) {
	s := serve(t, card(), echo, nil)
	for name, o := range map[string]*a2ahttp.Options{"JSON-RPC": {}, "0.3": {ClientOptions: a2a.ClientOptions{Version: a2a.V03}}, "REST": {Bindings: []string{a2a.BindingREST}}} {
		t.Run(name, func(t *testing.T) {
			c := s.dial(t, o)
			var done a2a.Event
			var none a2a.Task
			calls := []a2a.BatchCall{
				{Method: a2a.MethodSend, Params: text("in a batch"), Result: &done},
				{Method: a2a.MethodGetTask, Params: &a2a.GetTaskRequest{ID: "nope"}, Result: &none},
			}
			if err := c.Batch(t.Context(), calls); err != nil || calls[0].Err != nil || done.Task.Text() != "in a batch" || !errors.Is(calls[1].Err, a2a.ErrTaskNotFound) {
				t.Errorf("Batch = %v, %+v", err, calls)
			}
			if err := c.Batch(t.Context(), []a2a.BatchCall{{Method: a2a.MethodStreamSend}}); err == nil {
				t.Error("a stream went into a batch")
			}
		})
	}
}

// TestResumingWithoutNumbers uses a server without event numbers, as the official ones: after a
// break the client receives the whole task, and then new events.
func TestResumingWithoutNumbers(t *testing.T) {
	first := true
	s := scripted(t, func(method string, id json.RawMessage) (string, string) {
		event := func(result string) string {
			return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", id, result)
		}
		if method == "SendStreamingMessage" {
			// No further events.
			return "text/event-stream", event(`{"task":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_WORKING"}}}`)
		}
		if method == "SubscribeToTask" && first {
			first = false
			return "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32004,"message":"over"}}`, id)
		}
		return "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED"}}}`, id)
	})
	c := a2ahttp.NewClient(s.url, nil)
	defer c.Close()
	var states []a2a.TaskState
	for e, err := range c.Stream(t.Context(), text("x")) {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, e.State())
	}
	if diff := cmp.Diff([]a2a.TaskState{a2a.StateWorking, a2a.StateCompleted}, states); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"SendStreamingMessage", "SubscribeToTask", "GetTask"}, s.asked()); diff != "" {
		t.Error(diff)
	}
}

// TestTheTokenStaysWhereItBelongs checks that a token is sent to the dialled origin only, whatever
// the card contains, and that a public card cannot name an internal address.
func TestTheTokenStaysWhereItBelongs(t *testing.T) {
	var mu sync.Mutex
	got := "nothing came"
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = r.Header.Get("Authorization")
		mu.Unlock()
		http.Error(w, "no", http.StatusTeapot)
	}))
	t.Cleanup(elsewhere.Close)
	c := card()
	c.SupportedInterfaces = []a2a.AgentInterface{{URL: elsewhere.URL, ProtocolBinding: a2a.BindingJSONRPC, ProtocolVersion: "1.0"}}
	s := serve(t, c, echo, nil)
	client := s.dial(t, &a2ahttp.Options{Token: "secret"})
	if _, err := client.Send(t.Context(), text("x")); err == nil {
		t.Error("Send succeeded")
	}
	mu.Lock()
	defer mu.Unlock()
	if got != "" {
		t.Errorf("Authorization is %q elsewhere", got)
	}
}

func TestAnAgentWithoutStreams(t *testing.T) {
	c := card()
	c.Capabilities.Streaming = false
	s := serve(t, c, echo, nil)
	events := 0
	for e, err := range s.dial(t, nil).Stream(t.Context(), text("x")) {
		if events++; err != nil || e.Task == nil || e.Task.Text() != "x" {
			t.Errorf("Stream = %+v, %v", e, err)
		}
	}
	if events != 1 {
		t.Errorf("%d events", events)
	}
}

func TestDialSaysWhatIsOffered(t *testing.T) {
	c := card()
	c.SupportedInterfaces = []a2a.AgentInterface{{URL: "https://example.com", ProtocolBinding: a2a.BindingGRPC, ProtocolVersion: "1.0"}}
	s := serve(t, c, echo, nil)
	if _, _, err := a2ahttp.Dial(t.Context(), s.url, nil); err == nil || !strings.Contains(err.Error(), "GRPC 1.0") {
		t.Errorf("Dial: %v", err)
	}
	if _, _, err := a2ahttp.Dial(t.Context(), s.url+"/rpc", nil); err == nil || !strings.Contains(err.Error(), "GRPC 1.0") {
		t.Errorf("Dial to the agent's own address: %v", err)
	}
}
