package mcp_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A scripted is a server of the modern era that responds to tools/call with one result after
// another. It records the params.
type scripted struct {
	mu      sync.Mutex
	answers []any // jsonrpc.Raw or error
	params  []string
	lists   int
}

func (s *scripted) Handle(_ context.Context, req *jsonrpc.Request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.Method {
	case mcp.MethodDiscover:
		return jsonrpc.Raw(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"}`), nil
	case mcp.MethodToolsList:
		s.lists++
		return jsonrpc.Raw(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"good","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}}},` +
			`{"name":"bad","inputSchema":{"type":"object","properties":{"r":{"type":"number","x-mcp-header":"R"}}}}]}`), nil
	case mcp.MethodToolsCall:
		_, rest, _ := strings.Cut(string(req.Params), `},"name"`) // after the envelope
		s.params = append(s.params, `{"name"`+rest)
		next := s.answers[0]
		s.answers = s.answers[1:]
		if err, ok := next.(error); ok {
			return nil, err
		}
		return next, nil
	}
	return nil, jsonrpc.ErrMethodNotFound
}

const done = jsonrpcText(`{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)

type jsonrpcText string

func (t jsonrpcText) AppendJSON(dst []byte) ([]byte, error) { return append(dst, t...), nil }

func TestRoundsOfTheClient(t *testing.T) {
	ask := `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}`
	for _, c := range []struct {
		name    string
		answers []any
		want    []string // params of the calls
		fails   error
	}{
		{"state comes back as it came", []any{jsonrpcText(ask + `,"requestState":"s\u00e9 \"x\""}`), done},
			[]string{`{"name":"t","arguments":{"a":1}}`, `{"name":"t","arguments":{"a":1},"inputResponses":{"k":{"roots":[{"uri":"file:///home"}]}},"requestState":"s\u00e9 \"x\""}`}, nil},
		{"no state where none was", []any{jsonrpcText(ask + `}`), done},
			[]string{`{"name":"t","arguments":{"a":1}}`, `{"name":"t","arguments":{"a":1},"inputResponses":{"k":{"roots":[{"uri":"file:///home"}]}}}`}, nil},
		{"state alone", []any{jsonrpcText(`{"resultType":"input_required","requestState":"s"}`), done},
			[]string{`{"name":"t","arguments":{"a":1}}`, `{"name":"t","arguments":{"a":1},"requestState":"s"}`}, nil},
		{"the newest state counts", []any{jsonrpcText(ask + `,"requestState":"1"}`), jsonrpcText(ask + `}`), done},
			[]string{`{"name":"t","arguments":{"a":1}}`, `{"name":"t","arguments":{"a":1},"inputResponses":{"k":{"roots":[{"uri":"file:///home"}]}},"requestState":"1"}`,
				`{"name":"t","arguments":{"a":1},"inputResponses":{"k":{"roots":[{"uri":"file:///home"}]}}}`}, nil},
		{"no resultType is complete", []any{jsonrpcText(`{"content":[{"type":"text","text":"done"}]}`)}, []string{`{"name":"t","arguments":{"a":1}}`}, nil},
		{"an unknown resultType", []any{jsonrpcText(`{"resultType":"maybe","content":[]}`)}, []string{`{"name":"t","arguments":{"a":1}}`}, mcp.ErrUnknownResult},
		{"a question without one", []any{jsonrpcText(`{"resultType":"input_required"}`)}, []string{`{"name":"t","arguments":{"a":1}}`}, mcp.ErrUnknownResult},
		{"a question that nobody can answer", []any{jsonrpcText(`{"resultType":"input_required","inputRequests":{"k":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}}}`)},
			[]string{`{"name":"t","arguments":{"a":1}}`}, mcp.ErrNotSupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{answers: c.answers}
			o := answering()
			o.Sample = nil
			client := connectTo(t, s, o)
			got, err := client.CallTool(t.Context(), "t", jsonrpc.Raw(`{"a":1}`), nil)
			if !errors.Is(err, c.fails) || err == nil && got.Text() != "done" {
				t.Errorf("got %+v, %v", got, err)
			}
			if strings.Join(s.params, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("sent\n%s\nwant\n%s", strings.Join(s.params, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestToolsOverHTTP checks that a tool with an invalid header is dropped, and that the tools are
// listed again after a header mismatch.
func TestToolsOverHTTP(t *testing.T) {
	s := &scripted{answers: []any{mcp.ErrHeaderMismatch, done}}
	reported := make(chan error, 9)
	c := connectTo(t, s, mcp.ClientOptions{OverHTTP: true, Report: func(_ string, err error) { reported <- err }})
	got, err := c.CallTool(t.Context(), "good", map[string]string{"r": "x"}, nil)
	if err != nil || got.Text() != "done" || s.lists != 1 {
		t.Errorf("got %+v, %v after %d lists", got, err, s.lists)
	}
	if err := eventually(t, reported); !strings.Contains(err.Error(), "bad") {
		t.Errorf("reported %v", err)
	}
	headers := c.Headers(mcp.MethodToolsCall, jsonrpc.Raw(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"},"name":"good","arguments":{"r":"x"}}`))
	if len(headers) != 4 || headers[3] != (mcp.HeaderField{Name: "Mcp-Param-R", Value: "x"}) {
		t.Errorf("headers %v", headers)
	}
	names := ""
	for tool, err := range c.Tools(t.Context()) {
		must(t, err)
		names += tool.Name + " "
	}
	if names != "good " || s.lists != 1 {
		t.Errorf("tools %s after %d lists", names, s.lists)
	}
}

// TestEndlessList checks that the client stops reading a list without an end.
func TestEndlessList(t *testing.T) {
	endless := jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
		switch req.Method {
		case mcp.MethodInitialize:
			return jsonrpc.Raw(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`), nil
		case mcp.MethodToolsList:
			return jsonrpc.Raw(`{"tools":[],"nextCursor":""}`), nil
		}
		return nil, jsonrpc.ErrMethodNotFound
	})
	c := connectTo(t, endless, mcp.ClientOptions{})
	var last error
	for _, err := range c.Tools(t.Context()) {
		last = err
	}
	if last == nil {
		t.Error("it ended in silence")
	}
}
