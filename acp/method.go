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

// ListParams are the params of agents/list. A limit of 0 means all.
type ListParams struct {
	Limit  int `json:"limit,omitzero"`
	Offset int `json:"offset,omitzero"`
}

// AgentsListResponse is the result of agents/list.
type AgentsListResponse struct {
	Agents []AgentManifest `json:"agents"`
}

// NameParams are the params of agents/get.
type NameParams struct {
	Name string `json:"name"`
}

// RunParams are the params of runs/get and runs/cancel.
type RunParams struct {
	RunID string `json:"run_id"`
}

// EventsParams are the params of runs/events and runs/subscribe: After is the number of the last event that the caller has,
// 0 for none, -1 to have only what comes from now on.
type EventsParams struct {
	RunID string `json:"run_id"`
	After int64  `json:"after,omitzero"`
}

// RunEventsListResponse is the result of runs/events. The first event has the number After+1.
type RunEventsListResponse struct {
	Events []jsonrpc.Raw `json:"events"`
}

// SessionParams are the params of sessions/get.
type SessionParams struct {
	SessionID string `json:"session_id"`
}

// A RunEvent is the params of runs/event: one event of a run, on the way to whoever made the call RequestID.
type RunEvent struct {
	RunID     string      `json:"run_id"`
	Seq       int64       `json:"seq"`
	RequestID jsonrpc.ID  `json:"request_id"`
	Event     jsonrpc.Raw `json:"event"` // an [Event], byte for byte what the REST binding sends
}

// AppendJSON writes the params.
func (e *RunEvent) AppendJSON(dst []byte) ([]byte, error) {
	dst = appendString(append(dst, `{"run_id":`...), e.RunID)
	dst = appendInt(append(dst, `,"seq":`...), e.Seq)
	dst = e.RequestID.Append(append(dst, `,"request_id":`...))
	dst = append(append(dst, `,"event":`...), e.Event...)
	return append(dst, '}'), nil
}

// Decode reads the event.
func (e *RunEvent) Decode() (Event, error) {
	var out Event
	err := e.Event.Decode(&out)
	out.Seq = e.Seq
	return out, err
}

// Mode tells what may be assumed of a method of this protocol. It goes into [jsonrpc.Answerer].
func Mode(method string) jsonrpc.Mode {
	switch method {
	case MethodPing, MethodAgentsList, MethodAgentsGet, MethodRunsCancel:
		return jsonrpc.Quick // a cancel must not stand in line behind the streams of its connection
	}
	if Open(method) {
		return jsonrpc.Open
	}
	return 0
}

// Open reports whether a method takes as long as a run does. It goes into [jsonrpc.Conn].
func Open(method string) bool {
	return method == MethodRunsCreate || method == MethodRunsResume || method == MethodRunsSubscribe
}

// Related tells which call an event is about. It goes into [jsonrpc.Conn].
func Related(req *jsonrpc.Request) (jsonrpc.ID, bool) {
	var in struct {
		RequestID jsonrpc.ID `json:"request_id"`
	}
	if req.Method != NotifyRunEvent || req.Params.Decode(&in) != nil {
		return jsonrpc.ID{}, false
	}
	return in.RequestID, !in.RequestID.IsZero()
}
