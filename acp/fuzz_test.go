package acp_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// wireSeeds holds requests and events as written by SDKs and by this package.
var wireSeeds = []string{
	`{"agent_name":"echo","input":[{"role":"user","parts":[{"content_type":"text/plain","content":"Howdy!","content_encoding":"plain"}],"created_at":"2026-11-20T14:39:17.123Z","completed_at":"2026-11-20T14:39:17.123Z"}],"mode":"sync"}`,
	`{"agent_name":"echo","input":[{"parts":[{"content_type":"text/plain","content":"x","name":null,"content_url":null,"metadata":null}],"role":"agent/a","created_at":null,"completed_at":null}],"mode":"stream","session_id":"5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20","session":{"id":"5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20","history":["https://a.example/1"],"state":null}}`,
	`{"run_id":"5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20","mode":"async","await_resume":{"type":"message","message":{"role":"user","parts":[{"content":"y"}]}}}`,
	`{"type":"run.awaiting","run":{"run_id":"5f1ffb71-29a6-4b8c-8ae1-2d2a37a35f20","agent_name":"a","status":"awaiting","await_request":{"type":"message","message":{"role":"agent","parts":[{"content":"?"}]}},"output":[],"created_at":"2026-11-20T14:39:17Z","finished_at":null}}`,
	`{"type":"message.created","message":{"role":"agent/echo","parts":[],"created_at":"2026-11-20T14:39:17.12+00:00","completed_at":null}}`,
	`{"type":"message.part","part":{"content_type":"image/png","content":"AA==","content_encoding":"base64","name":"x","metadata":{"kind":"citation","start_index":0,"end_index":null,"new":[1]}}}`,
	`{"type":"generic","generic":{"a":1}}`,
	`{"type":"error","error":{"code":"server_error","message":"m","data":{"x":1}}}`,
	`{"type":"new.kind","other":[{"a":1e400}]}`,
	`[]`, `{"agent_name":1}`, "\xff", `{"input":[{"parts":[{}]}]}`,
}

// FuzzParse checks that decoded values are equal after encoding and decoding them again, including
// unknown members.
func FuzzParse(f *testing.F) {
	for _, seed := range wireSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		again(t, text, &acp.RunCreateRequest{}, &acp.RunCreateRequest{})
		again(t, text, &acp.RunResumeRequest{}, &acp.RunResumeRequest{})
		again(t, text, &acp.Event{}, &acp.Event{})
		again(t, text, &acp.AgentManifest{}, &acp.AgentManifest{})
		again(t, text, &acp.Error{}, &acp.Error{})
	})
}

// again encodes the first value, decodes the text, and encodes the result: both texts must be
// equal.
func again(t *testing.T, text []byte, first, second any) {
	t.Helper()
	if acp.Parse(text, first) != nil {
		return
	}
	one := textOf(first)
	if one == nil {
		return // a text with invalid escapes cannot be encoded
	}
	if err := acp.Parse(one, second); err != nil {
		t.Fatalf("%T: %s was written as %s, which does not read: %v", first, text, one, err)
	}
	if two := textOf(second); !bytes.Equal(one, two) {
		t.Fatalf("%T: %s was written as %s and then as %s", first, text, one, two)
	}
}

func textOf(v any) []byte {
	out, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, jsonrpc.ID{}, "x", v)
	if err != nil {
		return nil
	}
	var params []byte
	_ = jsonrpc.Scan(out, func(m *jsonrpc.Message) { params = m.Params.Clone() })
	return params
}

// FuzzMethods checks that any params of any method get a response, and that errors have an error
// object of the protocol.
func FuzzMethods(f *testing.F) {
	methods := []string{acp.MethodPing, acp.MethodAgentsList, acp.MethodAgentsGet, acp.MethodRunsCreate, acp.MethodRunsGet, acp.MethodRunsResume,
		acp.MethodRunsCancel, acp.MethodRunsEvents, acp.MethodRunsSubscribe, acp.MethodSessionsGet}
	for i := range methods {
		for _, seed := range append(wireSeeds, `{"limit":1,"offset":2}`, `{"name":"echo"}`, `{"run_id":"x","after":-1}`, `{"session_id":"x"}`) {
			f.Add(uint8(i), []byte(seed))
		}
	}
	s := acp.NewServer(&acp.Options{Limits: acp.Limits{Runs: 10, Sessions: 10}})
	f.Cleanup(func() { s.Close() })
	s.Add(acp.Agent{Manifest: acp.AgentManifest{Name: "echo"}, Run: func(ctx context.Context, j *acp.Job) error {
		if _, err := j.History(ctx); err != nil {
			return err
		}
		return j.Say(ctx, strings.ToUpper(j.Text()))
	}})
	a := &jsonrpc.Answerer{}
	s.Configure(a)
	f.Fuzz(func(t *testing.T, n uint8, params []byte) {
		method := methods[int(n)%len(methods)]
		payload := append([]byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`), params...)
		out, fault := a.Answer(t.Context(), nil, append(payload, '}'), &jsonrpc.Exchange{Sink: nowhere{}})
		if len(out) == 0 {
			t.Fatalf("%s is not answered", payload)
		}
		if fault == nil || fault.Code == jsonrpc.CodeParseError || fault.Code == jsonrpc.CodeInvalidRequest {
			return
		}
		if fault.Code == jsonrpc.CodeInternalError {
			t.Errorf("%s: %s", payload, out)
		}
		if err := judge("Error", fault.Data); err != nil {
			t.Errorf("%s: %s: %v", payload, out, err)
		}
	})
}

// nowhere accepts and discards events.
type nowhere struct{}

func (nowhere) Send(context.Context, []byte) error { return nil }
