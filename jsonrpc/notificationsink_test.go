package jsonrpc_test

import (
	"context"
	"errors"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A partsSink is a NotificationSink that stores what it gets.
type partsSink struct {
	sent     []string // by Send
	payloads []string // of SendNotification
	methods  []string
	params   []any
}

func (s *partsSink) Send(_ context.Context, payload []byte) error {
	s.sent = append(s.sent, string(payload))
	return nil
}

func (s *partsSink) SendNotification(_ context.Context, payload []byte, method string, params any) error {
	s.payloads, s.methods, s.params = append(s.payloads, string(payload)), append(s.methods, method), append(s.params, params)
	return nil
}

// TestNotificationSink checks that a sink gets the params of a notification as the handler passed
// them, and other messages as before.
func TestNotificationSink(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	value := &point{7}
	const text = `{"jsonrpc":"2.0","method":"moved","params":{"x":7}}`
	const raw = `{"jsonrpc":"2.0","method":"raw"}`
	var peer jsonrpc.Peer
	a := &jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		peer = req.Peer()
		return nil, errors.Join(peer.Notify(ctx, "moved", value), peer.(jsonrpc.Sink).Send(ctx, []byte(raw)))
	})}
	request := []byte(`{"jsonrpc":"2.0","method":"go","id":1}`)

	parts := new(partsSink)
	if _, e := a.Answer(t.Context(), nil, request, &jsonrpc.Exchange{Sink: parts}); e != nil {
		t.Fatal(e)
	}
	if len(parts.payloads) != 1 || parts.payloads[0] != text || parts.methods[0] != "moved" || parts.params[0] != any(value) {
		t.Errorf("SendNotification got %q, %q, %v", parts.payloads, parts.methods, parts.params)
	}
	if len(parts.sent) != 1 || parts.sent[0] != raw {
		t.Errorf("Send got %q", parts.sent)
	}
	if err := peer.Notify(t.Context(), "moved", value); !errors.Is(err, jsonrpc.ErrAnswered) || len(parts.payloads) != 1 {
		t.Errorf("after the response: %v", err)
	}

	parts = new(partsSink)
	if _, e := a.Answer(t.Context(), nil, request, &jsonrpc.Exchange{Sink: struct{ jsonrpc.Sink }{parts}}); e != nil {
		t.Fatal(e)
	}
	if len(parts.payloads) != 0 || len(parts.sent) != 2 || parts.sent[0] != text {
		t.Errorf("a Sink without the method: Send got %q, SendNotification got %q", parts.sent, parts.payloads)
	}
}

// A bareSink needs no payload of the method bare.
type bareSink struct{ partsSink }

func (s *bareSink) WithoutPayload(method string, params any) bool {
	_, counted := params.(*countedParams)
	return counted && method == "bare"
}

// countedParams counts how often they are encoded.
type countedParams struct{ encoded int }

func (p *countedParams) AppendJSON(dst []byte) ([]byte, error) {
	p.encoded++
	return append(dst, `{"x":1}`...), nil
}

// TestNotificationWithoutPayload checks that a notification is not encoded for a sink that does not
// need it, and that it cannot be sent after the response either.
func TestNotificationWithoutPayload(t *testing.T) {
	sink, params := new(bareSink), new(countedParams)
	var peer jsonrpc.Peer
	a := &jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		peer = req.Peer()
		return nil, errors.Join(peer.Notify(ctx, "bare", params), peer.Notify(ctx, "other", params))
	})}
	if _, e := a.Answer(t.Context(), nil, []byte(`{"jsonrpc":"2.0","method":"go","id":1}`), &jsonrpc.Exchange{Sink: sink}); e != nil {
		t.Fatal(e)
	}
	if params.encoded != 1 || len(sink.payloads) != 2 || sink.payloads[0] != "" || sink.methods[0] != "bare" || sink.params[0] != any(params) || sink.payloads[1] == "" {
		t.Errorf("encoded %d times; payloads %q of %q", params.encoded, sink.payloads, sink.methods)
	}
	if err := peer.Notify(t.Context(), "bare", params); !errors.Is(err, jsonrpc.ErrAnswered) || len(sink.payloads) != 2 {
		t.Errorf("after the response: %v", err)
	}
}

// TestLocalNotificationParams checks that the caller of a Local gets the params of a notification,
// whatever its method and params are.
func TestLocalNotificationParams(t *testing.T) {
	params := []any{nil, []int{1, 2}, jsonrpc.Raw(` {"a":[{}]} `), map[string]string{"params": `,"params":{`}}
	want := []string{"", "[1,2]", `{"a":[{}]}`, `{"params":",\"params\":{"}`}
	local := jsonrpc.Local(&jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		for _, p := range params {
			if err := req.Peer().Notify(ctx, "a\n\"b", p); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})}, nil)
	var got []string
	if err := local.Stream(t.Context(), "go", nil, nil, func(req *jsonrpc.Request) error {
		if req.Method != "a\n\"b" {
			t.Errorf("method %q", req.Method)
		}
		got = append(got, string(req.Params))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("params %q, want %q", got, want)
		}
	}
}
