package a2aagent_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/a2aagent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

// A server built with @a2a-js/sdk 1.3.0 whose executor does not publish the task first refuses the
// stream of an answer after the executor has received it. The state of the task shows whether the
// answer counted.
func TestRefusedStreamOfAnAnswer(t *testing.T) {
	const (
		asking  = `{"task":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_INPUT_REQUIRED","timestamp":"2026-11-20T15:00:00.000Z","message":{"messageId":"q","role":"ROLE_AGENT","parts":[{"text":"Which?"}]}}}}`
		waiting = `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_INPUT_REQUIRED","timestamp":"2026-11-20T15:00:00.000Z","message":{"messageId":"q","role":"ROLE_AGENT","parts":[{"text":"Which?"}]}}}`
		done    = `{"id":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-11-20T15:00:01.000Z"},"artifacts":[{"artifactId":"a","name":"result","parts":[{"text":"that"}]}]}`
	)
	for name, c := range map[string]struct {
		task string // the result of GetTask after the refusal
		sent int32  // how often the answer is sent again
	}{
		"not taken": {waiting, 1},
		"taken":     {done, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var streams, sends atomic.Int32
			here, there := inproc.Pipe(nil)
			conn := jsonrpc.NewConn(there)
			conn.Handler = jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (any, error) {
				switch req.Method {
				case a2a.MethodStreamSend:
					if streams.Add(1) == 1 {
						return jsonrpc.Raw(asking), nil
					}
					return nil, jsonrpc.NewError(-32004, "Received statusUpdate before initial 'Message'/'Task' event.")
				case a2a.MethodGetTask:
					return jsonrpc.Raw(c.task), nil
				case a2a.MethodSend:
					sends.Add(1)
					return jsonrpc.Raw(`{"task":` + done + `}`), nil
				}
				return nil, jsonrpc.ErrMethodNotFound
			})
			conn.Start(context.WithoutCancel(t.Context()))
			defer conn.Close()
			client := a2aagent.Client(a2a.Connect(t.Context(), here, &a2a.ClientOptions{Version: a2a.V10}), nil)
			defer client.Close()
			r, err := client.Run(t.Context(), &agent.Request{Input: agent.Prompt("go")}, agent.Funcs{OnAsk: func(context.Context, *agent.Question) (*agent.Answer, error) { return agent.Reply("that"), nil }})
			if err != nil || r.String() != "that" || r.State != agent.Completed || sends.Load() != c.sent || streams.Load() != 2 {
				t.Errorf("Run = %+v, %v after %d streams and %d sends", r, err, streams.Load(), sends.Load())
			}
		})
	}
}
