package mcp

import "github.com/da1ed7bb/parley/jsonrpc"

// The methods, as they are on the wire. The comment says who calls, and which revisions have it when not all do.
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

	MethodRootsList     = "roots/list"             // server; in the modern era a question in an answer
	MethodCreateMessage = "sampling/createMessage" // server; likewise
	MethodElicit        = "elicitation/create"     // server, from 2025-06-18; likewise

	MethodTasksGet    = "tasks/get"    // 2025-11-25 and the tasks extension
	MethodTasksCancel = "tasks/cancel" // 2025-11-25 and the tasks extension
	MethodTasksList   = "tasks/list"   // 2025-11-25
	MethodTasksResult = "tasks/result" // 2025-11-25
	MethodTasksUpdate = "tasks/update" // the tasks extension

	MethodSkillsList    = "skills/list"              // the skills extension
	MethodSkillsGet     = "skills/get"               // the skills extension
	MethodDirectoryRead = "resources/directory/read" // the skills extension
)

// The notifications.
const (
	NotifyInitialized         = "notifications/initialized"          // client; legacy
	NotifyCancelled           = "notifications/cancelled"            // both
	NotifyProgress            = "notifications/progress"             // both
	NotifyMessage             = "notifications/message"              // server
	NotifyToolsChanged        = "notifications/tools/list_changed"   // server
	NotifyPromptsChanged      = "notifications/prompts/list_changed" // server
	NotifyResourcesChanged    = "notifications/resources/list_changed"
	NotifyResourceUpdated     = "notifications/resources/updated"          // server
	NotifyRootsChanged        = "notifications/roots/list_changed"         // client; legacy
	NotifyElicitationComplete = "notifications/elicitation/complete"       // server; 2025-11-25
	NotifyTaskStatus          = "notifications/tasks/status"               // both; 2025-11-25
	NotifyTask                = "notifications/tasks"                      // server; the tasks extension
	NotifyAcknowledged        = "notifications/subscriptions/acknowledged" // server; modern
)

// Cancellation is how MCP says that a caller stopped waiting: a cancelled request is not answered
// (MCP 2026-07-28, Base Protocol, Cancellation).
var Cancellation = jsonrpc.Cancellation{Method: NotifyCancelled, Member: "requestId", Silent: true}

// Mode tells the engine what it may assume of a method that a server or a client answers. It goes into [jsonrpc.Answerer]. What a person
// answers has no deadline.
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

// Open tells which calls of a client have no deadline of their own. It goes into [jsonrpc.Conn] and [jsonrpc.Asker].
func Open(method string) bool { return method == MethodListen || method == MethodTasksResult }

// OpenForServer tells which questions of a server have no deadline of their own: those that a person answers.
func OpenForServer(method string) bool {
	return method == MethodElicit || method == MethodCreateMessage
}
