package a2a

import (
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Methods of v1.0 (A2A 1.0.1, section 9.4).
const (
	MethodSend         = "SendMessage"
	MethodStreamSend   = "SendStreamingMessage"
	MethodGetTask      = "GetTask"
	MethodListTasks    = "ListTasks"
	MethodCancelTask   = "CancelTask"
	MethodSubscribe    = "SubscribeToTask"
	MethodCreatePush   = "CreateTaskPushNotificationConfig"
	MethodGetPush      = "GetTaskPushNotificationConfig"
	MethodListPush     = "ListTaskPushNotificationConfigs"
	MethodDeletePush   = "DeleteTaskPushNotificationConfig"
	MethodExtendedCard = "GetExtendedAgentCard"
)

// Methods of v0.3 (A2A 0.3.0, section 7).
const (
	MethodSend03         = "message/send"
	MethodStreamSend03   = "message/stream"
	MethodGetTask03      = "tasks/get"
	MethodCancelTask03   = "tasks/cancel"
	MethodSubscribe03    = "tasks/resubscribe"
	MethodCreatePush03   = "tasks/pushNotificationConfig/set"
	MethodGetPush03      = "tasks/pushNotificationConfig/get"
	MethodListPush03     = "tasks/pushNotificationConfig/list"
	MethodDeletePush03   = "tasks/pushNotificationConfig/delete"
	MethodExtendedCard03 = "agent/getAuthenticatedExtendedCard"
)

// What [BindingStream] adds, for carriers on which both sides speak.
const (
	// MethodStream is the notification that holds one event of a stream: {"request_id", "seq", "response"}.
	MethodStream = "a2a/stream"

	// MethodCard asks for the public card, which has no address there. Its result is an [AgentCard].
	MethodCard = "a2a/card"
)

// Service parameters (A2A 1.0.1, section 3.2.6): headers over HTTP, members of params._meta in [BindingStream].
const (
	HeaderVersion      = "A2A-Version"
	HeaderExtensions   = "A2A-Extensions"
	HeaderExtensions03 = "X-A2A-Extensions" // 0.3
	HeaderLastEvent    = "Last-Event-ID"    // ours: on SubscribeToTask, the event to go on behind
)

// Protocol bindings (A2A 1.0.1, section 4.4.6).
const (
	BindingJSONRPC = "JSONRPC"
	BindingREST    = "HTTP+JSON"
	BindingGRPC    = "GRPC"

	// BindingStream is ours: JSON-RPC on a carrier where both sides speak, such as WebSocket or stdio. The guide describes it.
	BindingStream = "https://github.com/da1ed7bb/parley/blob/main/docs/guides/a2a.md#binding"
)

// names03 gives the v0.3 name of each method that has one.
var names03 = map[string]string{
	MethodSend: MethodSend03, MethodStreamSend: MethodStreamSend03, MethodGetTask: MethodGetTask03, MethodCancelTask: MethodCancelTask03,
	MethodSubscribe: MethodSubscribe03, MethodCreatePush: MethodCreatePush03, MethodGetPush: MethodGetPush03,
	MethodListPush: MethodListPush03, MethodDeletePush: MethodDeletePush03, MethodExtendedCard: MethodExtendedCard03,
}

var names10 = func() map[string]string {
	m := make(map[string]string, len(names03))
	for name, old := range names03 {
		m[old] = name
	}
	return m
}()

// VersionOf tells which version a method belongs to: names with a slash are v0.3, except for those of [BindingStream].
func VersionOf(method string) Version {
	if strings.Contains(method, "/") && method != MethodCard && method != MethodStream {
		return V03
	}
	return V10
}

// IsStream reports whether a method answers with a stream of events.
func IsStream(method string) bool {
	switch method {
	case MethodStreamSend, MethodSubscribe, MethodStreamSend03, MethodSubscribe03:
		return true
	}
	return false
}

// Open tells which calls have no deadline: a task takes what it takes. It goes into [jsonrpc.Conn].
func Open(method string) bool {
	return IsStream(method) || method == MethodSend || method == MethodSend03
}

// Mode is what the engine may assume of a method. It goes into [jsonrpc.Answerer].
func Mode(method string) jsonrpc.Mode {
	if Open(method) {
		return jsonrpc.Open
	}
	return 0
}

// Cancellation is how a caller leaves a stream of [BindingStream]; the task goes on.
var Cancellation = jsonrpc.CancelRequest

// Related tells which call an event is about. It goes into [jsonrpc.Conn].
func Related(req *jsonrpc.Request) (jsonrpc.ID, bool) {
	if req.Method != MethodStream {
		return jsonrpc.ID{}, false
	}
	var in struct {
		RequestID jsonrpc.ID `json:"request_id"`
	}
	if req.Params.Decode(&in) != nil || in.RequestID.IsZero() || in.RequestID.IsNull() {
		return jsonrpc.ID{}, false
	}
	return in.RequestID, true
}
