package mcp

import "github.com/da1ed7bb/parley/jsonrpc"

// Method names on the wire. The comments name the side that calls them, and the versions if not all
// have the method.
const (
	MethodInitialize = "initialize"      // client; legacy
	MethodPing       = "ping"            // both; legacy
	MethodDiscover   = "server/discover" // client; modern

	MethodToolsList             = "tools/list"               // client
	MethodToolsCall             = "tools/call"               // client
	MethodResourcesList         = "resources/list"           // client
	MethodResourceTemplatesList = "resources/templates/list" // client
	MethodResourcesRead         = "resources/read"           // client
	MethodResourcesSubscribe    = "resources/subscribe"      // client; legacy
	MethodResourcesUnsubscribe  = "resources/unsubscribe"    // client; legacy
	MethodPromptsList           = "prompts/list"             // client
	MethodPromptsGet            = "prompts/get"              // client
	MethodComplete              = "completion/complete"      // client
	MethodSetLevel              = "logging/setLevel"         // client; legacy
	MethodListen                = "subscriptions/listen"     // client; modern

	// server; in the modern era a question in a result
	MethodRootsList     = "roots/list"
	MethodCreateMessage = "sampling/createMessage" // server; likewise
	MethodElicit        = "elicitation/create"     // server, since 2025-06-18; likewise

	MethodTasksGet    = "tasks/get"    // 2025-11-25 and the tasks extension
	MethodTasksCancel = "tasks/cancel" // 2025-11-25 and the tasks extension
	MethodTasksList   = "tasks/list"   // 2025-11-25
	MethodTasksResult = "tasks/result" // 2025-11-25
	MethodTasksUpdate = "tasks/update" // the tasks extension

	MethodSkillsList    = "skills/list"              // the skills extension
	MethodSkillsGet     = "skills/get"               // the skills extension
	MethodDirectoryRead = "resources/directory/read" // the skills extension
)

// Notification names on the wire.
const (
	NotifyInitialized         = "notifications/initialized"          // client; legacy
	NotifyCancelled           = "notifications/cancelled"            // both
	NotifyProgress            = "notifications/progress"             // both
	NotifyMessage             = "notifications/message"              // server
	NotifyToolsChanged        = "notifications/tools/list_changed"   // server
	NotifyPromptsChanged      = "notifications/prompts/list_changed" // server
	NotifyResourcesChanged    = "notifications/resources/list_changed"
	NotifyResourceUpdated     = "notifications/resources/updated"    // server
	NotifyRootsChanged        = "notifications/roots/list_changed"   // client; legacy
	NotifyElicitationComplete = "notifications/elicitation/complete" // server; 2025-11-25
	NotifyTaskStatus          = "notifications/tasks/status"         // both; 2025-11-25
	// server; the tasks extension
	NotifyTask         = "notifications/tasks"
	NotifyAcknowledged = "notifications/subscriptions/acknowledged" // server; modern
)

// Cancellation describes how an MCP caller cancels a request: with a notification, and without a
// response to the cancelled request (MCP 2026-07-28, Base Protocol, Cancellation).
var Cancellation = jsonrpc.Cancellation{Method: NotifyCancelled, Member: "requestId", Silent: true}

// Mode returns the mode of a method that a server or a client handles. It is meant for
// [jsonrpc.Answerer]. Requests that a person answers have no deadline.
func Mode(method string) jsonrpc.Mode {
	switch method {
	case MethodPing:
		return jsonrpc.Quick
	case MethodListen, MethodTasksResult, MethodElicit, MethodCreateMessage:
		return jsonrpc.Open
	case NotifyProgress, NotifyMessage, NotifyCancelled:
		return jsonrpc.Unordered
	case MethodToolsCall, MethodToolsList, MethodResourcesRead, MethodResourcesList, MethodPromptsGet, MethodPromptsList, MethodComplete:
		return jsonrpc.Known
	}
	return 0
}

// Open reports whether a client's call has no deadline of its own. It is meant for [jsonrpc.Conn]
// and [jsonrpc.Asker].
func Open(method string) bool { return method == MethodListen || method == MethodTasksResult }

// OpenForServer reports whether a server's request has no deadline of its own: this applies to
// requests that a person answers.
func OpenForServer(method string) bool {
	return method == MethodElicit || method == MethodCreateMessage
}
