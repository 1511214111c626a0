package outline

import (
	"strings"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Methods are the methods that each protocol defines, which the method picker lists.
var Methods = map[string][]Method{
	ProtocolMCP: {
		call(mcp.MethodInitialize, "start a session (up to 2025-11-25)", `{"protocolVersion":"string","capabilities":"object","clientInfo":"object"}`),
		note(mcp.NotifyInitialized, "initialization is complete", ``),
		call(mcp.MethodDiscover, "describe the server (from 2026-07-28)", `{"_meta":"object"}`),
		call(mcp.MethodPing, "check the connection", ``),
		call(mcp.MethodToolsList, "list tools", `{"cursor?":"string"}`),
		call(mcp.MethodToolsCall, "call a tool", `{"name":"string","arguments?":"object","_meta?":"object"}`),
		call(mcp.MethodResourcesList, "list resources", `{"cursor?":"string"}`),
		call(mcp.MethodResourceTemplatesList, "list resource templates", `{"cursor?":"string"}`),
		call(mcp.MethodResourcesRead, "read a resource", `{"uri":"string"}`),
		call(mcp.MethodResourcesSubscribe, "subscribe to a resource", `{"uri":"string"}`),
		call(mcp.MethodResourcesUnsubscribe, "unsubscribe from a resource", `{"uri":"string"}`),
		call(mcp.MethodPromptsList, "list prompts", `{"cursor?":"string"}`),
		call(mcp.MethodPromptsGet, "get a prompt", `{"name":"string","arguments?":"object"}`),
		call(mcp.MethodComplete, "complete an argument", `{"ref":"object","argument":"object","context?":"object"}`),
		call(mcp.MethodSetLevel, "set the log level", `{"level":"string"}`),
		call(mcp.MethodListen, "subscribe to changes (from 2026-07-28)", `{"notifications":"object","_meta":"object"}`),
		call(mcp.MethodTasksGet, "get a task", `{"taskId":"string"}`),
		call(mcp.MethodTasksResult, "wait for the result of a task", `{"taskId":"string"}`),
		call(mcp.MethodTasksList, "list tasks", `{"cursor?":"string"}`),
		call(mcp.MethodTasksCancel, "cancel a task", `{"taskId":"string"}`),
		note(mcp.NotifyCancelled, "cancel a request", `{"requestId":"any","reason?":"string"}`),
		note(mcp.NotifyRootsChanged, "the roots changed", ``),
		back(mcp.MethodElicit, "requests user input"),
		back(mcp.MethodCreateMessage, "requests an LLM completion"),
		back(mcp.MethodRootsList, "requests the list of roots"),
	},
	ProtocolEditor: {
		call(editor.MethodInitialize, "initialize", `{"protocolVersion":"integer","clientCapabilities":"object","clientInfo?":"object"}`),
		call(editor.MethodAuthenticate, "log in", `{"methodId":"string"}`),
		call(editor.MethodNewSession, "start a session", `{"cwd":"string","mcpServers":"array"}`),
		call(editor.MethodPrompt, "send a prompt", `{"sessionId":"string","prompt":"array"}`),
		call(editor.MethodLoadSession, "load a session and replay it", `{"sessionId":"string","cwd":"string","mcpServers":"array"}`),
		call(editor.MethodResumeSession, "resume a session", `{"sessionId":"string","cwd":"string","mcpServers":"array"}`),
		call(editor.MethodListSessions, "list sessions", `{"cwd?":"string","cursor?":"string"}`),
		call(editor.MethodCloseSession, "close a session", `{"sessionId":"string"}`),
		call(editor.MethodSetMode, "set the mode", `{"sessionId":"string","modeId":"string"}`),
		call(editor.MethodSetConfigOption, "set an option", `{"sessionId":"string","configId":"string","value":"any"}`),
		note(editor.NotifyCancel, "cancel the turn", `{"sessionId":"string"}`),
		note(editor.NotifyCancelRequest, "cancel a request", `{"requestId":"any"}`),
		back(editor.MethodRequestPermission, "requests permission"),
		back(editor.MethodReadTextFile, "requests the text of a file"),
		back(editor.MethodWriteTextFile, "requests to write a file"),
	},
	ProtocolACP: {
		call(acp.MethodPing, "check the connection", ``),
		call(acp.MethodAgentsList, "list agents", `{"limit?":"integer","offset?":"integer"}`),
		call(acp.MethodAgentsGet, "get an agent", `{"name":"string"}`),
		call(acp.MethodRunsCreate, "start a run", `{"agent_name":"string","input":"array","mode?":"string","session_id?":"string"}`),
		call(acp.MethodRunsGet, "get a run", `{"run_id":"string"}`),
		call(acp.MethodRunsResume, "resume a waiting run", `{"run_id":"string","await_resume":"object","mode":"string"}`),
		call(acp.MethodRunsCancel, "cancel a run", `{"run_id":"string"}`),
		call(acp.MethodRunsEvents, "list the events of a run", `{"run_id":"string","after?":"integer"}`),
		call(acp.MethodRunsSubscribe, "replay a run and follow it", `{"run_id":"string","after?":"integer"}`),
		call(acp.MethodSessionsGet, "get a session", `{"session_id":"string"}`),
	},
	ProtocolA2A: {
		call(a2a.MethodSend, "send a message", `{"message":"object","configuration?":"object","metadata?":"object"}`),
		call(a2a.MethodStreamSend, "send a message and stream the events", `{"message":"object","configuration?":"object","metadata?":"object"}`),
		call(a2a.MethodGetTask, "get a task", `{"id":"string","historyLength?":"integer"}`),
		call(a2a.MethodListTasks, "list tasks", `{"contextId?":"string","status?":"string","pageSize?":"integer","pageToken?":"string"}`),
		call(a2a.MethodCancelTask, "cancel a task", `{"id":"string"}`),
		call(a2a.MethodSubscribe, "subscribe to a task", `{"id":"string"}`),
		call(a2a.MethodCreatePush, "set push notifications for a task", `{"taskId":"string","pushNotificationConfig":"object"}`),
		call(a2a.MethodExtendedCard, "get the extended agent card", ``),
	},
	ProtocolLSP: {
		call("initialize", "initialize", `{"processId":"any","rootUri":"any","capabilities":"object"}`),
		note("initialized", "initialization is complete", `{}`),
		note("textDocument/didOpen", "a document was opened", `{"textDocument":"object"}`),
		note("textDocument/didChange", "a document was changed", `{"textDocument":"object","contentChanges":"array"}`),
		call("textDocument/hover", "hover", `{"textDocument":"object","position":"object"}`),
		call("textDocument/definition", "go to definition", `{"textDocument":"object","position":"object"}`),
		call("textDocument/completion", "complete at a position", `{"textDocument":"object","position":"object"}`),
		call("workspace/symbol", "find a symbol", `{"query":"string"}`),
		note("$/cancelRequest", "cancel a request", `{"id":"any"}`),
		call("shutdown", "shut down", ``),
		note("exit", "exit", ``),
	},
}

// call describes a method of the client. params lists the names in order with the type of each; "?"
// marks an optional one.
func call(name, about, params string) Method {
	return Method{Name: name, Title: about, From: "client", Params: shortSchema(params)}
}

func note(name, about, params string) Method {
	m := call(name, about, params)
	m.Notification = true
	return m
}

func back(name, about string) Method { return Method{Name: name, Title: about, From: "server"} }

// shortSchema makes a JSON Schema from the short form above.
func shortSchema(short string) jsonrpc.Raw {
	if short == "" {
		return nil
	}
	properties, required, order := make(map[string]any), []string{}, []string{}
	for member, value := range jsonrpc.Raw(short).Members() {
		name, optional := strings.CutSuffix(string(member), "?")
		if !optional {
			required = append(required, name)
		}
		order = append(order, name)
		properties[name] = map[string]any{}
		if string(value) != `"any"` {
			properties[name] = map[string]any{"type": value}
		}
	}
	schema, err := jsonrpc.AppendValue(nil, map[string]any{"type": "object", "properties": properties, "required": required, "x-order": order})
	if err != nil {
		return nil // unreachable: the values are strings
	}
	return schema
}
