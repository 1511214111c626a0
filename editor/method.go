package editor

import "github.com/da1ed7bb/parley/jsonrpc"

// Version is the protocol version that is spoken (Agent Client Protocol, Initialization). It is a number that grows when something breaks.
const Version = 1

// The methods that a client calls.
const (
	MethodInitialize      = "initialize"
	MethodAuthenticate    = "authenticate"
	MethodLogout          = "logout"
	MethodNewSession      = "session/new"
	MethodLoadSession     = "session/load"
	MethodResumeSession   = "session/resume"
	MethodCloseSession    = "session/close"
	MethodDeleteSession   = "session/delete"
	MethodListSessions    = "session/list"
	MethodPrompt          = "session/prompt"
	MethodSetMode         = "session/set_mode"
	MethodSetConfigOption = "session/set_config_option"
)

// The methods that an agent calls.
const (
	MethodRequestPermission = "session/request_permission"
	MethodReadTextFile      = "fs/read_text_file"
	MethodWriteTextFile     = "fs/write_text_file"
	MethodCreateTerminal    = "terminal/create"
	MethodTerminalOutput    = "terminal/output"
	MethodWaitForExit       = "terminal/wait_for_exit"
	MethodKillTerminal      = "terminal/kill"
	MethodReleaseTerminal   = "terminal/release"
	MethodElicit            = "elicitation/create"
)

// The notifications.
const (
	NotifyCancel            = "session/cancel"       // client
	NotifyUpdate            = "session/update"       // agent
	NotifyElicitationDone   = "elicitation/complete" // agent
	NotifyCancelRequest     = "$/cancel_request"     // both
	extensionPrefix         = '_'                    // of methods that the protocol does not know
	protocolDependentPrefix = "$/"                   // of notifications that may be ignored
)

// Cancellation is how either side says that it stopped waiting: the request is answered nonetheless, with what there is or with
// -32800 (Agent Client Protocol v1, Cancellation).
var Cancellation = jsonrpc.Cancellation{Method: NotifyCancelRequest, Member: "requestId"}

// AgentMode tells the engine what it may assume of a method that an agent answers. A turn lasts as long as it lasts, and its
// cancel overtakes all else.
func AgentMode(method string) jsonrpc.Mode {
	switch method {
	case MethodPrompt, MethodLoadSession, MethodAuthenticate:
		return jsonrpc.Open
	case NotifyCancel:
		return jsonrpc.Quick
	}
	return 0
}

// ClientMode tells the same of a method that a client answers: a person or a program decides when it has an answer.
func ClientMode(method string) jsonrpc.Mode {
	switch method {
	case MethodRequestPermission, MethodElicit, MethodWaitForExit:
		return jsonrpc.Open
	}
	return 0
}

// openForClient tells which calls of a client have no deadline of their own.
func openForClient(method string) bool { return AgentMode(method)&jsonrpc.Open != 0 }

// openForAgent tells which calls of an agent have none.
func openForAgent(method string) bool { return ClientMode(method)&jsonrpc.Open != 0 }

// isExtension reports whether the protocol leaves a method to whoever likes (Agent Client Protocol v1, Extensibility).
func isExtension(method string) bool { return method != "" && method[0] == extensionPrefix }
