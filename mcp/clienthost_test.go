package mcp_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// TestHostedTasks lets a server of 2025-11-25 send requests as tasks, and compares the bytes that
// it receives.
func TestHostedTasks(t *testing.T) {
	release := make(chan struct{})
	// the cancellation causes of two questions: the cancelled one and the last one
	gaveUp := make(chan error, 2)
	o := answering()
	o.Versions, o.HostTasks = []mcp.Version{mcp.V20251125}, true
	o.Elicit = func(ctx context.Context, _ *mcp.Elicitation) (*mcp.ElicitResult, error) {
		select {
		case <-release:
			return &mcp.ElicitResult{Action: mcp.ActionAccept, Content: jsonrpc.Raw(`{"name":"Ada"}`)}, nil
		case <-ctx.Done():
			gaveUp <- context.Cause(ctx)
			return nil, context.Cause(ctx)
		}
	}
	asks := make(chan jsonrpc.Peer, 1)
	over := make(chan struct{})
	capabilities := ""
	c := connectTo(t, jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		switch req.Method {
		case mcp.MethodInitialize:
			_, capabilities, _ = strings.Cut(string(req.Params), `"tasks":`)
			return jsonrpc.Raw(helloOfOld), nil
		case mcp.MethodToolsCall:
			asks <- req.Peer()
			select {
			case <-over:
			case <-ctx.Done():
			}
			return jsonrpc.Raw(`{"content":[]}`), nil
		}
		return nil, jsonrpc.ErrMethodNotFound
	}), o)
	if want := `{"list":{},"cancel":{},"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}}}`; !strings.HasPrefix(capabilities, want) {
		t.Errorf("capabilities are %s, want %s", capabilities, want)
	}
	called := make(chan error, 1)
	go func() {
		_, err := c.CallTool(t.Context(), "t", nil, nil)
		called <- err
	}()
	server := <-asks
	ask := func(method, params string) (string, error) {
		raw, err := jsonrpc.Call[jsonrpc.Raw](t.Context(), server, method, jsonrpc.Raw(params))
		return string(raw), err
	}
	begin := func(method, params string) string {
		t.Helper()
		got, err := ask(method, params)
		_, rest, found := strings.Cut(got, `{"task":{"taskId":"`)
		id, state, _ := strings.Cut(rest, `"`)
		if err != nil || !found || !strings.HasPrefix(state, `,"status":"working",`) || !strings.Contains(state, `"ttl":60000,"pollInterval":500}}`) {
			t.Fatalf("%s was answered %s, %v", method, got, err)
		}
		return id
	}
	want := func(method, id, text string) {
		t.Helper()
		if got, err := ask(method, `{"taskId":"`+id+`"}`); err != nil || !strings.Contains(got, text) {
			t.Errorf("%s: %s, %v; want %s", method, got, err, text)
		}
	}
	refused := func(method, id string) {
		t.Helper()
		got, err := ask(method, `{"taskId":"`+id+`"}`)
		if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}

	sampling := begin(mcp.MethodCreateMessage, `{"task":{"ttl":60000},"messages":[{"role":"user","content":{"type":"text","text":"Ada"}}],"maxTokens":5}`)
	want(mcp.MethodTasksResult, sampling, `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"`+sampling+`"}}`)
	want(mcp.MethodTasksResult, sampling, `Hello from Ada!`)
	want(mcp.MethodTasksGet, sampling, `"status":"completed"`)
	refused(mcp.MethodTasksCancel, sampling)

	form := begin(mcp.MethodElicit, `{"task":{"ttl":60000},"message":"?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`)
	want(mcp.MethodTasksGet, form, `"status":"working"`)
	release <- struct{}{}
	want(mcp.MethodTasksResult, form, `"content":{"name":"Ada"}`)

	cancelled := begin(mcp.MethodElicit, `{"task":{"ttl":60000},"message":"?","requestedSchema":{"type":"object","properties":{}}}`)
	want(mcp.MethodTasksCancel, cancelled, `"status":"cancelled"`)
	if cause := eventually(t, gaveUp); cause == nil || errors.Is(cause, jsonrpc.ErrClosed) {
		t.Errorf("the cancelled question ended with %v", cause)
	}
	refused(mcp.MethodTasksResult, cancelled)
	refused(mcp.MethodTasksGet, "nonsense")
	if got, err := ask(mcp.MethodTasksList, `{}`); err != nil || strings.Count(got, `"taskId"`) != 3 {
		t.Errorf("list: %s, %v", got, err)
	}

	// Without the member it is an ordinary request.
	if got, err := ask(mcp.MethodRootsList, `{"task":{}}`); err != nil || !strings.Contains(got, "file:///home") {
		t.Errorf("roots: %s, %v", got, err)
	}
	if got, err := ask(mcp.MethodCreateMessage, `{"task":{"ttl":"x"},"messages":[],"maxTokens":5}`); err == nil {
		t.Errorf("a malformed task: %s", got)
	}

	// A question that still runs when the conversation is closed is cancelled, and Close waits for
	// it.
	begin(mcp.MethodElicit, `{"task":{"ttl":60000},"message":"?","requestedSchema":{"type":"object","properties":{}}}`)
	close(over)
	if err := <-called; err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if cause := eventually(t, gaveUp); !errors.Is(cause, jsonrpc.ErrClosed) {
		t.Errorf("the last question ended with %v", cause)
	}
}

// TestHostedTasksBounds checks how many tasks are stored, and for how long.
func TestHostedTasksBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := true
		var mu sync.Mutex
		l := &scriptLink{answer: func(string, jsonrpc.Raw) (string, error) { return helloOfOld, nil }}
		c := mcp.NewClient(mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{Versions: []mcp.Version{mcp.V20251125}, HostTasks: true,
			Elicit: func(ctx context.Context, _ *mcp.Elicitation) (*mcp.ElicitResult, error) {
				mu.Lock()
				wait := block
				mu.Unlock()
				if wait {
					<-ctx.Done()
				}
				return &mcp.ElicitResult{Action: mcp.ActionCancel}, nil
			}})
		if err := c.Open(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		ask := func() error {
			_, err := c.Handle(t.Context(), &jsonrpc.Request{ID: jsonrpc.IntID(1), Method: mcp.MethodElicit, Params: jsonrpc.Raw(`{"task":{"ttl":99999999},"message":"?"}`)})
			return err
		}
		for i := range 100 {
			if err := ask(); err != nil {
				t.Fatalf("question %d: %v", i, err)
			}
		}
		if e, ok := errors.AsType[*jsonrpc.Error](ask()); !ok || e.Code != jsonrpc.CodeBusy {
			t.Errorf("one too many: %v", e)
		}
		time.Sleep(time.Hour + time.Second) // in the bubble: all of them have expired
		mu.Lock()
		block = false
		mu.Unlock()
		for i := range 150 { // finished tasks make room
			if err := ask(); err != nil {
				t.Fatalf("question %d after that: %v", i, err)
			}
			synctest.Wait()
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := ask(); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
