package playground

import (
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// protocolMethods are the methods that each protocol has by itself, so that the picker is complete.
var protocolMethods = map[string][]methodView{
	ProtocolMCP: {
		call(mcp.MethodInitialize, "begin a session (up to 2025-11-25)", `{"protocolVersion":"string","capabilities":"object","clientInfo":"object"}`),
		note(mcp.NotifyInitialized, "the session may begin", ``),
		call(mcp.MethodDiscover, "what the server is and can (from 2026-07-28)", `{"_meta":"object"}`),
		call(mcp.MethodPing, "is somebody there?", ``),
		call(mcp.MethodToolsList, "the tools", `{"cursor?":"string"}`),
		call(mcp.MethodToolsCall, "use a tool", `{"name":"string","arguments?":"object","_meta?":"object"}`),
		call(mcp.MethodResourcesList, "the resources", `{"cursor?":"string"}`),
		call(mcp.MethodResourceTemplatesList, "the resource templates", `{"cursor?":"string"}`),
		call(mcp.MethodResourcesRead, "read a resource", `{"uri":"string"}`),
		call(mcp.MethodResourcesSubscribe, "hear when a resource changes", `{"uri":"string"}`),
		call(mcp.MethodResourcesUnsubscribe, "hear of it no more", `{"uri":"string"}`),
		call(mcp.MethodPromptsList, "the prompts", `{"cursor?":"string"}`),
		call(mcp.MethodPromptsGet, "fill in a prompt", `{"name":"string","arguments?":"object"}`),
		call(mcp.MethodComplete, "what could stand here?", `{"ref":"object","argument":"object","context?":"object"}`),
		call(mcp.MethodSetLevel, "how much is logged", `{"level":"string"}`),
		call(mcp.MethodListen, "hear of changes (from 2026-07-28)", `{"notifications":"object","_meta":"object"}`),
		call(mcp.MethodTasksGet, "how a task is doing", `{"taskId":"string"}`),
		call(mcp.MethodTasksResult, "wait for the result of a task", `{"taskId":"string"}`),
		call(mcp.MethodTasksList, "the tasks", `{"cursor?":"string"}`),
		call(mcp.MethodTasksCancel, "give a task up", `{"taskId":"string"}`),
		note(mcp.NotifyCancelled, "nobody waits for a request any more", `{"requestId":"any","reason?":"string"}`),
		note(mcp.NotifyRootsChanged, "the roots are others now", ``),
		back(mcp.MethodElicit, "asks you something"),
		back(mcp.MethodCreateMessage, "wants a text from your model"),
		back(mcp.MethodRootsList, "asks which folders it may see"),
	},
	ProtocolEditor: {
		call(editor.MethodInitialize, "begin", `{"protocolVersion":"integer","clientCapabilities":"object","clientInfo?":"object"}`),
		call(editor.MethodAuthenticate, "log in", `{"methodId":"string"}`),
		call(editor.MethodNewSession, "begin a conversation", `{"cwd":"string","mcpServers":"array"}`),
		call(editor.MethodPrompt, "say something", `{"sessionId":"string","prompt":"array"}`),
		call(editor.MethodLoadSession, "go on with a conversation, and hear it again", `{"sessionId":"string","cwd":"string","mcpServers":"array"}`),
		call(editor.MethodResumeSession, "go on with a conversation", `{"sessionId":"string","cwd":"string","mcpServers":"array"}`),
		call(editor.MethodListSessions, "the conversations", `{"cwd?":"string","cursor?":"string"}`),
		call(editor.MethodCloseSession, "end a conversation", `{"sessionId":"string"}`),
		call(editor.MethodSetMode, "another mode", `{"sessionId":"string","modeId":"string"}`),
		call(editor.MethodSetConfigOption, "another setting", `{"sessionId":"string","configId":"string","value":"any"}`),
		note(editor.NotifyCancel, "stop this turn", `{"sessionId":"string"}`),
		note(editor.NotifyCancelRequest, "nobody waits for a request any more", `{"requestId":"any"}`),
		back(editor.MethodRequestPermission, "asks for permission"),
		back(editor.MethodReadTextFile, "wants to read a file"),
		back(editor.MethodWriteTextFile, "wants to write a file"),
	},
	ProtocolACP: {
		call(acp.MethodPing, "is somebody there?", ``),
		call(acp.MethodAgentsList, "the agents", `{"limit?":"integer","offset?":"integer"}`),
		call(acp.MethodAgentsGet, "one agent", `{"name":"string"}`),
		call(acp.MethodRunsCreate, "begin a run", `{"agent_name":"string","input":"array","mode?":"string","session_id?":"string"}`),
		call(acp.MethodRunsGet, "how a run is doing", `{"run_id":"string"}`),
		call(acp.MethodRunsResume, "answer a run that waits", `{"run_id":"string","await_resume":"object","mode":"string"}`),
		call(acp.MethodRunsCancel, "give a run up", `{"run_id":"string"}`),
		call(acp.MethodRunsEvents, "what a run has said", `{"run_id":"string","after?":"integer"}`),
		call(acp.MethodRunsSubscribe, "hear a run again and go on", `{"run_id":"string","after?":"integer"}`),
		call(acp.MethodSessionsGet, "a session", `{"session_id":"string"}`),
	},
	ProtocolA2A: {
		call(a2a.MethodSend, "say something and wait", `{"message":"object","configuration?":"object","metadata?":"object"}`),
		call(a2a.MethodStreamSend, "say something and hear what is said meanwhile", `{"message":"object","configuration?":"object","metadata?":"object"}`),
		call(a2a.MethodGetTask, "how a task is doing", `{"id":"string","historyLength?":"integer"}`),
		call(a2a.MethodListTasks, "the tasks", `{"contextId?":"string","status?":"string","pageSize?":"integer","pageToken?":"string"}`),
		call(a2a.MethodCancelTask, "give a task up", `{"id":"string"}`),
		call(a2a.MethodSubscribe, "hear a task again and go on", `{"id":"string"}`),
		call(a2a.MethodCreatePush, "have a task's news posted somewhere", `{"taskId":"string","pushNotificationConfig":"object"}`),
		call(a2a.MethodExtendedCard, "the card for those who are known", ``),
	},
	ProtocolLSP: {
		call("initialize", "begin", `{"processId":"any","rootUri":"any","capabilities":"object"}`),
		note("initialized", "the session may begin", `{}`),
		note("textDocument/didOpen", "a document is open", `{"textDocument":"object"}`),
		note("textDocument/didChange", "a document is edited", `{"textDocument":"object","contentChanges":"array"}`),
		call("textDocument/hover", "what is this?", `{"textDocument":"object","position":"object"}`),
		call("textDocument/definition", "where does this come from?", `{"textDocument":"object","position":"object"}`),
		call("textDocument/completion", "what could stand here?", `{"textDocument":"object","position":"object"}`),
		call("workspace/symbol", "where is that name?", `{"query":"string"}`),
		note("$/cancelRequest", "nobody waits for a request any more", `{"id":"any"}`),
		call("shutdown", "finish", ``),
		note("exit", "end", ``),
	},
}

// call is a method of the client. params are the names, in order, with the type of each; "?" marks what may be left out.
func call(name, about, params string) methodView {
	return methodView{Name: name, Title: about, From: "client", Params: shortSchema(params)}
}

func note(name, about, params string) methodView {
	m := call(name, about, params)
	m.Notification = true
	return m
}

func back(name, about string) methodView { return methodView{Name: name, Title: about, From: "server"} }

// shortSchema makes a JSON Schema of the short form above.
func shortSchema(short string) jsonrpc.Raw {
	if short == "" {
		return nil
	}
	properties, required, order := make(map[string]any), []string{}, []string{}
	members(jsonrpc.Raw(short), func(name string, value jsonrpc.Raw) {
		if n := len(name) - 1; n >= 0 && name[n] == '?' {
			name = name[:n]
		} else {
			required = append(required, name)
		}
		order = append(order, name)
		properties[name] = map[string]any{}
		if string(value) != `"any"` {
			properties[name] = map[string]any{"type": value}
		}
	})
	return raw(map[string]any{"type": "object", "properties": properties, "required": required, "x-order": order})
}
