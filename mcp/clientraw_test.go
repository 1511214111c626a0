package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// asker is a server whose tool asks for a name and reports progress.
func asker(t *testing.T) *mcp.Server {
	s := mcp.NewServer(mcp.Implementation{Name: "asker", Version: "1"}, nil)
	must(t, s.AddTool(mcp.Tool{Name: "greet", InputSchema: jsonrpc.Raw(`{"type":"object"}`)}, func(ctx context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
		if err := r.Progress(ctx, 0.5, 1, ""); err != nil {
			return nil, err
		}
		if err := r.Log(ctx, mcp.LevelInfo, "asker", "hello"); err != nil {
			return nil, err
		}
		e, err := r.Elicit(ctx, "name", &mcp.Elicitation{Message: "Who?"})
		if err != nil {
			return nil, err
		}
		return mcp.TextResult(e.Action + string(r.Arguments)), nil
	}))
	return s
}

// TestInvoke checks one round of a call: the raw result, progress, and at a modern server the
// questions, with the capabilities of the caller and not those of the client.
func TestInvoke(t *testing.T) {
	each(t, func(t *testing.T, v mcp.Version) {
		asked := 0
		o := mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{Form: &mcp.Mark{}}}}
		if v.Modern() {
			o.Capabilities = &mcp.ClientCapabilities{}
		}
		logs := make(chan string, 8)
		o.OnLog = func(p *mcp.LogParams) { logs <- string(p.Data) } // beside the calls
		o.Ask = func(_ context.Context, in mcp.InputRequest) (jsonrpc.Raw, error) {
			asked++
			if in.Method != mcp.MethodElicit || !strings.Contains(string(in.Params), `"message":"Who?"`) {
				t.Errorf("asked %s %s", in.Method, in.Params)
			}
			return jsonrpc.Raw(`{"action":"decline"}`), nil
		}
		c := connect(t, asker(t), o, v)
		steps := 0
		io := &mcp.InvokeOptions{Progress: func(p mcp.Progress) { steps++ }, Meta: mcp.Meta{"own": jsonrpc.Raw("1")}}
		params := jsonrpc.Raw(`{"name":"greet","arguments":{"n":9007199254740993}}`)
		raw, err := c.Invoke(t.Context(), mcp.MethodToolsCall, params, io)
		if v.Modern() {
			if !errors.Is(err, mcp.ErrMissingCapability) {
				t.Fatalf("without the capability: %s, %v", raw, err)
			}
			io.Capabilities = &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}
			io.LogLevel = mcp.LevelInfo
			raw, err = c.Invoke(t.Context(), mcp.MethodToolsCall, params, io)
			must(t, err)
			q, err := mcp.ParseInputRequired(raw)
			if err != nil || q == nil || len(q.InputRequests) != 1 || q.RequestState == nil {
				t.Fatalf("the questions of %s: %+v, %v", raw, q, err)
			}
			if got := <-logs; got != `"hello"` {
				t.Errorf("the log message is %s, want hello", got)
			}
			io.InputResponses, io.RequestState = map[string]jsonrpc.Raw{"name": jsonrpc.Raw(`{"action":"decline"}`)}, q.RequestState
			raw, err = c.Invoke(t.Context(), mcp.MethodToolsCall, params, io)
			must(t, err)
		} else if v.HasElicitation() {
			must(t, err)
			if asked != 1 || steps != 1 {
				t.Errorf("%d questions, %d steps", asked, steps)
			}
		} else {
			return // it cannot ask
		}
		if q, err := mcp.ParseInputRequired(raw); q != nil || err != nil {
			t.Errorf("questions: %+v, %v", q, err)
		}
		if !strings.Contains(string(raw), `"text":"decline{\"n\":9007199254740993}"`) {
			t.Errorf("got %s", raw)
		}
		if _, err := c.Invoke(t.Context(), mcp.MethodToolsCall, jsonrpc.Raw(`[]`), nil); err == nil {
			t.Error("params that are no object")
		}
	})
}

// TestAskedWithAnError checks that the error of Ask reaches the server unchanged.
func TestAskedWithAnError(t *testing.T) {
	s := mcp.NewServer(mcp.Implementation{Name: "s", Version: "1"}, nil)
	got := make(chan error, 1)
	must(t, s.AddTool(mcp.Tool{Name: "t"}, func(ctx context.Context, r *mcp.Request) (*mcp.ToolResult, error) {
		_, err := r.Roots(ctx, "roots")
		got <- err
		return nil, err
	}))
	c := connect(t, s, mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}},
		Ask: func(context.Context, mcp.InputRequest) (jsonrpc.Raw, error) {
			return nil, (&jsonrpc.Error{Code: -7, Message: "not now"}).WithData(1)
		}}, mcp.V20250618)
	_, err := c.CallTool(t.Context(), "t", nil, nil)
	must(t, err)
	if e, ok := errors.AsType[*jsonrpc.Error](eventually(t, got)); !ok || e.Code != -7 || e.Message != "not now" || string(e.Data) != "1" {
		t.Errorf("the server got %v", e)
	}
}

func TestParseInputRequired(t *testing.T) {
	for text, want := range map[string]string{
		`{"content":[]}`: "<nil> <nil>",
		`{"resultType":"complete","text":"input_required"}`:  "<nil> <nil>",
		`{"resultType":"input_required","requestState":"s"}`: `&{map[] "s"} <nil>`,
		`{"resultType":"input_required"}`:                    "<nil> mcp: the server returned a result of unknown type: it has no question",
		`{"resultType":"input_required","inputRequests":7}`:  "<nil> mcp: the server returned a result of unknown type: inputRequests is malformed",
	} {
		q, err := mcp.ParseInputRequired(jsonrpc.Raw(text))
		got := fmt.Sprint(q, " ", err)
		if q != nil {
			got = fmt.Sprintf("&{%v %s} %v", q.InputRequests, q.RequestState, err)
		}
		if got != want {
			t.Errorf("%s: got %s", text, got)
		}
	}
}
