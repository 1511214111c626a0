package editor

import "github.com/da1ed7bb/parley/jsonrpc"

// Version is the supported protocol version (Agent Client Protocol, Initialization). The number
// grows with each breaking change.
const Version = 1

// The methods of agents, which a client calls.
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

// The methods of clients, which an agent calls.
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

// The notifications. The comments name the sender.
const (
	NotifyCancel            = "session/cancel"       // client
	NotifyUpdate            = "session/update"       // agent
	NotifyElicitationDone   = "elicitation/complete" // agent
	NotifyCancelRequest     = "$/cancel_request"     // both
	extensionPrefix         = '_'                    // of methods that the protocol does not define
	protocolDependentPrefix = "$/"                   // of notifications that may be ignored
)

// Cancellation is how either side reports that it has stopped waiting. The request still gets a
// response: a result, or -32800 (Agent Client Protocol v1, Cancellation).
var Cancellation = jsonrpc.Cancellation{Method: NotifyCancelRequest, Member: "requestId"}

// AgentMode returns the mode of a method that an agent handles. A turn has no deadline, and its
// cancel overtakes all other messages.
func AgentMode(method string) jsonrpc.Mode {
	switch method {
	case MethodPrompt, MethodLoadSession, MethodAuthenticate:
		return jsonrpc.Open
	case NotifyCancel:
		return jsonrpc.Quick
	}
	return 0
}

// ClientMode returns the mode of a method that a client handles. A method that waits for a user or
// a program has no deadline.
func ClientMode(method string) jsonrpc.Mode {
	switch method {
	case MethodRequestPermission, MethodElicit, MethodWaitForExit:
		return jsonrpc.Open
	}
	return 0
}

// openForClient reports whether a call of a client has no deadline.
func openForClient(method string) bool { return AgentMode(method)&jsonrpc.Open != 0 }

// openForAgent reports whether a call of an agent has no deadline.
func openForAgent(method string) bool { return ClientMode(method)&jsonrpc.Open != 0 }

// isExtension reports whether a method is an extension (Agent Client Protocol v1, Extensibility).
func isExtension(method string) bool { return method != "" && method[0] == extensionPrefix }
