package a2a

import (
	"strconv"
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

// Methods that [BindingStream] adds, for bidirectional transports.
const (
	// MethodStream is the notification with one event of a stream: {"request_id", "seq",
	// "response"}.
	MethodStream = "a2a/stream"

	// MethodCard requests the public card, which has no URL there. Its result is an [AgentCard].
	MethodCard = "a2a/card"
)

// Service parameters (A2A 1.0.1, section 3.2.6): headers over HTTP, members of params._meta in
// [BindingStream].
const (
	HeaderVersion      = "A2A-Version"
	HeaderExtensions   = "A2A-Extensions"
	HeaderExtensions03 = "X-A2A-Extensions" // 0.3
	// our extension: on SubscribeToTask, the event to resume after
	HeaderLastEvent = "Last-Event-ID"
)

// Protocol bindings (A2A 1.0.1, section 4.4.6).
const (
	BindingJSONRPC = "JSONRPC"
	BindingREST    = "HTTP+JSON"
	BindingGRPC    = "GRPC"

	// BindingStream is our own binding: JSON-RPC on a bidirectional transport, such as WebSocket or
	// stdio. The guide describes it.
	BindingStream = "https://github.com/da1ed7bb/parley/blob/main/docs/guides/a2a.md#binding"
)

// names03 maps each method to its v0.3 name, if it has one.
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

// VersionOf returns the protocol version that a method belongs to: names with a slash are v0.3,
// except for those of [BindingStream].
func VersionOf(method string) Version {
	if strings.Contains(method, "/") && method != MethodCard && method != MethodStream {
		return V03
	}
	return V10
}

// IsStream reports whether a method returns a stream of events.
func IsStream(method string) bool {
	switch method {
	case MethodStreamSend, MethodSubscribe, MethodStreamSend03, MethodSubscribe03:
		return true
	}
	return false
}

// Open reports whether a call has no deadline, because a task may take any time. It is used in
// [jsonrpc.Conn].
func Open(method string) bool {
	return IsStream(method) || method == MethodSend || method == MethodSend03
}

// Mode returns the mode of a method. It is used in [jsonrpc.Answerer].
func Mode(method string) jsonrpc.Mode {
	if Open(method) {
		return jsonrpc.Open
	}
	return 0
}

// Cancellation is how a caller leaves a stream of [BindingStream]. The task continues.
var Cancellation = jsonrpc.CancelRequest

// Related returns the id of the call that an event belongs to. It is used in [jsonrpc.Conn].
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

// A StreamEvent holds the params of [MethodStream]: one event of a stream, sent to the caller of
// the request RequestID.
type StreamEvent struct {
	RequestID jsonrpc.ID  `json:"request_id"`
	Seq       int64       `json:"seq"`
	Response  jsonrpc.Raw `json:"response"` // an [Event], as the protocol version encodes it
}

// AppendJSON appends the params as JSON to dst.
func (e *StreamEvent) AppendJSON(dst []byte) ([]byte, error) {
	dst = e.RequestID.Append(append(dst, `{"request_id":`...))
	dst = strconv.AppendInt(append(dst, `,"seq":`...), e.Seq, 10)
	dst = append(append(dst, `,"response":`...), e.Response...)
	return append(dst, '}'), nil
}
