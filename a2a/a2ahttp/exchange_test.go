package a2ahttp

import (
	"errors"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestEventsAreNotParsed: an event is made of the params that package a2a passes, not of their
// encoding. Other messages cannot be sent over HTTP.
func TestEventsAreNotParsed(t *testing.T) {
	params := &a2a.StreamEvent{RequestID: jsonrpc.StringID("q"), Seq: 7, Response: jsonrpc.Raw(`{"task":{}}`)}
	for want, style := range map[string]style{
		`{"jsonrpc":"2.0","result":{"task":{}},"id":"q"}`: rpcStyle{},
		`{"task":{}}`: restStyle{},
	} {
		x := &exchange{style: style}
		e, err := x.event([]byte("is not read"), a2a.MethodStream, params)
		if err != nil || e.ID != "7" || string(e.Data) != want {
			t.Errorf("%T: event %q, %q, %v", style, e.ID, e.Data, err)
		}
		if last := x.last([]byte(`{"jsonrpc":"2.0","result":{},"id":1}`), nil); last.ID != "8" {
			t.Errorf("%T: the last event has id %q", style, last.ID)
		}
		if _, err := x.event([]byte(`{"jsonrpc":"2.0","method":"other"}`), "other", nil); !errors.Is(err, jsonrpc.ErrOneWay) {
			t.Errorf("%T: another notification: %v", style, err)
		}
	}
}

// TestResultWithoutEnvelope checks that the REST binding sends the result of a response unchanged.
func TestResultWithoutEnvelope(t *testing.T) {
	for _, result := range []string{`{}`, `null`, `"\"id\":1}"`, `{"result":{"id":1}}`} {
		out, err := jsonrpc.AppendResult(nil, jsonrpc.Version2, restID, jsonrpc.Raw(result))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, body := (restStyle{}).plain(out, nil); string(body) != result {
			t.Errorf("%s becomes %s", result, body)
		}
	}
}
