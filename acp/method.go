package acp

import "github.com/da1ed7bb/parley/jsonrpc"

// The methods of the JSON-RPC binding, and its one notification.
const (
	MethodPing          = "ping"
	MethodAgentsList    = "agents/list"
	MethodAgentsGet     = "agents/get"
	MethodRunsCreate    = "runs/create"
	MethodRunsGet       = "runs/get"
	MethodRunsResume    = "runs/resume"
	MethodRunsCancel    = "runs/cancel"
	MethodRunsEvents    = "runs/events"
	MethodRunsSubscribe = "runs/subscribe"
	MethodSessionsGet   = "sessions/get"

	NotifyRunEvent = "runs/event"
)

// ListParams holds the params of agents/list. A limit of 0 means all.
type ListParams struct {
	Limit  int `json:"limit,omitzero"`
	Offset int `json:"offset,omitzero"`
}

// AgentsListResponse is the result of agents/list.
type AgentsListResponse struct {
	Agents []AgentManifest `json:"agents"`
}

// NameParams holds the params of agents/get.
type NameParams struct {
	Name string `json:"name"`
}

// RunParams holds the params of runs/get and runs/cancel.
type RunParams struct {
	RunID string `json:"run_id"`
}

// EventsParams holds the params of runs/events and runs/subscribe. After is the number of the last
// event that the caller has, 0 for none, or -1 for future events only.
type EventsParams struct {
	RunID string `json:"run_id"`
	After int64  `json:"after,omitzero"`
}

// RunEventsListResponse is the result of runs/events. The first event has the number After+1.
type RunEventsListResponse struct {
	Events []jsonrpc.Raw `json:"events"`
}

// SessionParams holds the params of sessions/get.
type SessionParams struct {
	SessionID string `json:"session_id"`
}

// A RunEvent holds the params of runs/event: one event of a run, sent to the caller of the request
// RequestID.
type RunEvent struct {
	RunID     string      `json:"run_id"`
	Seq       int64       `json:"seq"`
	RequestID jsonrpc.ID  `json:"request_id"`
	Event     jsonrpc.Raw `json:"event"` // an [Event], the same bytes that the REST binding sends
}

// AppendJSON appends the params as JSON to dst.
func (e *RunEvent) AppendJSON(dst []byte) ([]byte, error) {
	dst = jsonrpc.AppendString(append(dst, `{"run_id":`...), e.RunID)
	dst = appendInt(append(dst, `,"seq":`...), e.Seq)
	dst = e.RequestID.Append(append(dst, `,"request_id":`...))
	dst = append(append(dst, `,"event":`...), e.Event...)
	return append(dst, '}'), nil
}

// Decode decodes the event.
func (e *RunEvent) Decode() (Event, error) {
	var out Event
	err := e.Event.Decode(&out)
	out.Seq = e.Seq
	return out, err
}

// Mode returns the mode of a method of this protocol. It is used in [jsonrpc.Answerer].
func Mode(method string) jsonrpc.Mode {
	switch method {
	case MethodPing, MethodAgentsList, MethodAgentsGet, MethodRunsCancel:
		return jsonrpc.Quick // a cancel must not wait for the streams of its connection
	}
	if Open(method) {
		return jsonrpc.Open
	}
	return 0
}

// Open reports whether a call has no deadline, because it may last as long as a run. It is used in
// [jsonrpc.Conn].
func Open(method string) bool {
	return method == MethodRunsCreate || method == MethodRunsResume || method == MethodRunsSubscribe
}

// Related returns the id of the call that an event belongs to. It is used in [jsonrpc.Conn].
func Related(req *jsonrpc.Request) (jsonrpc.ID, bool) {
	var in struct {
		RequestID jsonrpc.ID `json:"request_id"`
	}
	if req.Method != NotifyRunEvent || req.Params.Decode(&in) != nil {
		return jsonrpc.ID{}, false
	}
	return in.RequestID, !in.RequestID.IsZero()
}
