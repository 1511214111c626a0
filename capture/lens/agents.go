package lens

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A2A returns a Judge for the Agent2Agent protocol, 1.0 and 0.3. One request may have many
// responses in its streams.
func A2A() capture.Judge { return lookA2A }

func lookA2A(l *capture.Look) {
	m := l.Message
	if m == nil || m.Bad != nil {
		return
	}
	method := l.Row.Method
	file := ""
	switch method {
	case a2a.MethodSend, a2a.MethodStreamSend, a2a.MethodGetTask, a2a.MethodListTasks, a2a.MethodCancelTask, a2a.MethodSubscribe,
		a2a.MethodCreatePush, a2a.MethodGetPush, a2a.MethodListPush, a2a.MethodDeletePush, a2a.MethodExtendedCard:
		file, l.Row.Version = "a2a-1.0", "1.0"
	case a2a.MethodSend03, a2a.MethodStreamSend03, a2a.MethodSubscribe03, a2a.MethodCreatePush03, a2a.MethodGetPush03, a2a.MethodListPush03,
		a2a.MethodDeletePush03, a2a.MethodExtendedCard03:
		file, l.Row.Version = "a2a-0.3", "0.3"
	case a2a.MethodGetTask03, a2a.MethodCancelTask03: // MCP has methods of the same name
		var p struct {
			ID text `json:"id"`
		}
		if decode(m.Params, &p); m.Request && p.ID == "" || !m.Request && (l.Call == nil || l.Call.Version != "0.3") {
			return
		}
		file, l.Row.Version = "a2a-0.3", "0.3"
	default:
		return
	}
	if m.Request {
		if method == a2a.MethodStreamSend || method == a2a.MethodSubscribe || method == a2a.MethodStreamSend03 || method == a2a.MethodSubscribe03 {
			l.Repeats()
		}
		var p struct {
			ID      text `json:"id"`
			TaskID  text `json:"taskId"`
			Message struct {
				TaskID text `json:"taskId"`
			} `json:"message"`
		}
		decode(m.Params, &p)
		l.Row.Name = firstOf(p.ID, p.TaskID, p.Message.TaskID)
		if want := map[string]string{"a2a-1.0": "1.0"}[file]; want != "" && l.Request != nil {
			if got := l.Request.Get("A2A-Version"); got != "" && got != want {
				l.Broken("a2a-version", "A2A-Version is "+short(got)+", but the method belongs to "+want)
			}
		}
		checkParams(l, load(file), method)
		return
	}
	if m.Error == nil {
		l.Row.Brief = a2aState(m.Result)
		checkResult(l, load(file), method)
	}
}

// a2aState returns the task state in a result of either version.
func a2aState(result jsonrpc.Raw) string {
	type status struct {
		State text `json:"state"`
	}
	var r struct {
		Kind   text   `json:"kind"`
		Status status `json:"status"`
		Task   struct {
			Status status `json:"status"`
		} `json:"task"`
		Update struct {
			Status status `json:"status"`
		} `json:"statusUpdate"`
		Artifact jsontext.Value `json:"artifactUpdate"`
		Message  jsontext.Value `json:"message"`
	}
	decode(result, &r)
	switch {
	case r.Artifact != nil:
		return "artifact"
	case r.Message != nil:
		return "message"
	}
	return firstOf(r.Status.State, r.Task.Status.State, r.Update.Status.State, r.Kind)
}

// An agentJudge stores which connections use the Agent Client Protocol.
type agentJudge struct {
	editors table[bool]
}

// Agents returns a Judge for the two protocols called ACP: the Agent Client Protocol between an
// editor and an agent, version 1, and the Agent Communication Protocol in its JSON-RPC binding.
func Agents() capture.Judge {
	j := &agentJudge{editors: table[bool]{}}
	return j.look
}

func (j *agentJudge) look(l *capture.Look) {
	if l.Row.Kind == capture.RowClose {
		j.editors.drop(l.Row.Conn)
		return
	}
	m := l.Message
	if m == nil || m.Bad != nil {
		return
	}
	var p struct {
		ProtocolVersion any            `json:"protocolVersion"`
		SessionID       text           `json:"sessionId"`
		RunID           text           `json:"runId"`
		RunID2          text           `json:"run_id"`
		AgentName       text           `json:"agentName"`
		AgentName2      text           `json:"agent_name"`
		Path            text           `json:"path"`
		RequestID       jsontext.Value `json:"requestId"`
		ToolCall        struct {
			Title text `json:"title"`
		} `json:"toolCall"`
		Update struct {
			Kind    text           `json:"sessionUpdate"`
			Title   text           `json:"title"`
			Content jsontext.Value `json:"content"`
		} `json:"update"`
	}
	method := l.Row.Method
	key := talkOf(l.Row)
	switch {
	case !m.Request:
	case method == "initialize", strings.HasPrefix(method, "runs/"), j.editors[key]:
		decode(m.Params, &p)
	default:
		return
	}
	switch method {
	case acp.MethodRunsCreate, acp.MethodRunsGet, acp.MethodRunsResume, acp.MethodRunsCancel, acp.MethodRunsEvents, acp.MethodRunsSubscribe:
		if m.Request {
			l.Row.Name = firstOf(p.RunID, p.RunID2, p.AgentName, p.AgentName2)
		}
		return
	}
	if m.Request && method == "initialize" {
		if _, number := p.ProtocolVersion.(float64); !number {
			return // MCP's version is a date, and language servers have none
		}
		j.editors.set(key, true)
	}
	if !j.editors[key] {
		return
	}
	s := load("acp-1")
	if l.Row.Version == "" {
		l.Row.Version = "1"
	}
	if !m.Request {
		if m.Error == nil {
			var r struct {
				StopReason text `json:"stopReason"`
				SessionID  text `json:"sessionId"`
			}
			decode(m.Result, &r)
			l.Row.Brief = firstOf(r.StopReason, r.SessionID)
			checkResult(l, s, method)
		}
		return
	}
	l.Row.Name = firstOf(p.Path, p.SessionID)
	l.Row.Brief = short(firstOf(p.Update.Title, p.Update.Kind, p.ToolCall.Title))
	if words := textOf(p.Update.Content); words != "" && p.Update.Title == "" {
		l.Row.Brief = short(string(p.Update.Kind) + ": " + words)
	}
	switch method {
	case "session/prompt", "session/load":
		l.Token(string(p.SessionID))
	case "$/cancel_request":
		l.Cancel(string(p.RequestID), false)
	default:
		if l.Row.Dir == capture.In {
			l.Tie(string(p.SessionID))
		}
	}
	checkParams(l, s, method)
}

// textOf returns the text of a content block; "" for other content.
func textOf(content jsontext.Value) string {
	if content.Kind() != '{' {
		return ""
	}
	var block struct {
		Text text `json:"text"`
	}
	decode(jsonrpc.Raw(content), &block)
	return strings.TrimSpace(string(block.Text))
}

// lspKinds are the prefixes of language-server methods.
var lspKinds = []string{"textDocument", "workspace", "initialize", "completionItem", "codeLens", "codeAction", "documentLink", "callHierarchy", "typeHierarchy", "inlayHint", "workspaceSymbol"}

// LSP returns a Judge for the general part of the Language Server Protocol 3.17: cancellation and
// progress.
func LSP() capture.Judge {
	return func(l *capture.Look) {
		m := l.Message
		if m == nil || !m.Request || m.Bad != nil {
			return
		}
		var p struct {
			ID    jsontext.Value `json:"id"`
			Token jsontext.Value `json:"token"`
			Work  jsontext.Value `json:"workDoneToken"`
			Part  jsontext.Value `json:"partialResultToken"`
			Doc   struct {
				URI text `json:"uri"`
			} `json:"textDocument"`
			Value struct {
				Kind    text `json:"kind"`
				Title   text `json:"title"`
				Message text `json:"message"`
			} `json:"value"`
		}
		switch l.Row.Method {
		case "$/cancelRequest":
			decode(m.Params, &p)
			l.Cancel(string(p.ID), false)
		case "$/progress":
			decode(m.Params, &p)
			l.Row.Brief = short(firstOf(p.Value.Message, p.Value.Title, p.Value.Kind))
			l.Tie(string(p.Token))
		default:
			if kind, _, _ := strings.Cut(l.Row.Method, "/"); !slices.Contains(lspKinds, kind) {
				return
			}
			decode(m.Params, &p)
			if p.Doc.URI != "" && l.Row.Name == "" {
				l.Row.Name = string(p.Doc.URI)
			}
			for _, token := range []jsontext.Value{p.Work, p.Part} {
				if len(token) > 0 {
					l.Token(string(token))
				}
			}
		}
	}
}
