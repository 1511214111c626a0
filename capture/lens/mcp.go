package lens

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// mcpOnly are the methods that identify a conversation as MCP.
var mcpOnly = []string{
	mcp.MethodDiscover, mcp.MethodToolsList, mcp.MethodToolsCall, mcp.MethodResourcesList, mcp.MethodResourcesRead, mcp.MethodPromptsList,
	mcp.MethodPromptsGet, mcp.MethodListen, mcp.NotifyInitialized,
}

// An mcpTalk is the state of one conversation.
type mcpTalk struct {
	version  mcp.Version // 0 until it is negotiated
	ids      map[idKey]capture.Ref
	progress map[string]float64
}

type idKey struct {
	dir capture.Dir
	id  string
}

const (
	maxIDs   = 20_000 // IDs and progress tokens that are stored for one conversation
	maxToken = 256    // length of a progress token, in bytes; the progress of longer ones is not compared
)

type mcpJudge struct {
	talks table[*mcpTalk]
}

// MCP returns a Judge for the Model Context Protocol, in all its protocol versions.
func MCP() capture.Judge {
	j := &mcpJudge{talks: table[*mcpTalk]{}}
	return j.look
}

// mcpParams are the members that are examined in the params of any method.
type mcpParams struct {
	Name            text           `json:"name"`
	URI             text           `json:"uri"`
	TaskID          text           `json:"taskId"`
	Message         text           `json:"message"`
	Reason          text           `json:"reason"`
	ProgressToken   jsontext.Value `json:"progressToken"`
	RequestID       jsontext.Value `json:"requestId"`
	Progress        number         `json:"progress"`
	Total           number         `json:"total"`
	ProtocolVersion text           `json:"protocolVersion"`
	ClientInfo      struct {
		Name text `json:"name"`
	} `json:"clientInfo"`
	Meta struct {
		Version       text           `json:"io.modelcontextprotocol/protocolVersion"`
		ProgressToken jsontext.Value `json:"progressToken"`
		Trace         text           `json:"traceparent"`
	} `json:"_meta"`
}

func (j *mcpJudge) look(l *capture.Look) {
	if l.Row.Kind == capture.RowClose {
		j.talks.drop(l.Row.Conn)
		return
	}
	m := l.Message
	if m == nil {
		return
	}
	t := j.talks[talkOf(l.Row)]
	if t == nil && l.Row.Session != "" {
		t = j.talks[talk{conn: l.Row.Conn}] // the state from before the session had an ID
	}
	if !m.Request {
		j.response(l, t)
		return
	}
	var p mcpParams
	if t == nil && !mayBegin(m) {
		return // the most common case; avoids decoding
	}
	decode(m.Params, &p)
	if t == nil {
		if !j.recognises(m.Method, &p) {
			return
		}
		t = &mcpTalk{ids: map[idKey]capture.Ref{}, progress: map[string]float64{}}
		j.talks.set(talkOf(l.Row), t)
	}
	version := t.version
	if v := mcp.ParseVersion(string(p.Meta.Version)); v != 0 {
		version = v // stateless: each request contains it
	}
	if version != 0 {
		l.Row.Version = version.String()
	}
	j.describe(l, t, &p)
	if m.Bad != nil {
		return
	}
	j.ids(l, t, version)
	if l.Row.Ref.Member > 0 && version != 0 && !version.HasBatches() {
		l.Broken("mcp-batch", fmt.Sprintf("version %s has no batches", version))
	}
	if l.Request != nil && l.Row.Dir == capture.Out {
		j.headers(l, version, &p)
	}
	if version != 0 && m.Method != mcp.MethodInitialize {
		checkParams(l, mcpSchema(version), m.Method)
	}
}

// mayBegin reports whether recognises might return true.
func mayBegin(m *jsonrpc.Message) bool {
	return m.Method == mcp.MethodInitialize || slices.Contains(mcpOnly, m.Method) ||
		// The member may be spelled with escapes.
		bytes.Contains(m.Params, []byte("io.modelcontextprotocol/")) || bytes.IndexByte(m.Params, '\\') >= 0
}

// recognises reports whether a message starts an MCP conversation.
func (j *mcpJudge) recognises(method string, p *mcpParams) bool {
	if p.Meta.Version != "" {
		return true
	}
	if method == mcp.MethodInitialize {
		// The initialize request of language servers has neither.
		return p.ProtocolVersion != "" && p.ClientInfo.Name != ""
	}
	for _, m := range mcpOnly {
		if m == method {
			return true
		}
	}
	return false
}

// describe sets the subject of the message and the call it belongs to.
func (j *mcpJudge) describe(l *capture.Look, t *mcpTalk, p *mcpParams) {
	l.Row.Name = firstOf(p.Name, p.URI, p.TaskID)
	if trace := traceOf(p.Meta.Trace); trace != "" {
		l.Row.Trace = trace
	}
	if len(p.Meta.ProgressToken) > 0 {
		l.Token(string(p.Meta.ProgressToken))
		delete(t.progress, string(p.Meta.ProgressToken))
	}
	switch l.Row.Method {
	case mcp.MethodInitialize:
		l.Row.Name, l.Row.Brief = short(p.ClientInfo.Name), short(p.ProtocolVersion)
	case mcp.NotifyProgress:
		l.Row.Progress, l.Row.Total, l.Row.Brief = float64(p.Progress), float64(p.Total), short(p.Message)
		token := string(p.ProgressToken)
		if !l.Tie(token) {
			l.Doubt("mcp-progress", "progress for a request that is not open")
			return
		}
		if before, known := t.progress[token]; known && float64(p.Progress) <= before {
			l.Broken("mcp-progress", "progress must grow with each notification")
		}
		if len(t.progress) < maxIDs && len(token) <= maxToken {
			t.progress[token] = float64(p.Progress)
		}
	case mcp.NotifyCancelled:
		l.Row.Brief = short(p.Reason)
		l.Cancel(string(p.RequestID), true)
	case mcp.NotifyMessage, mcp.MethodElicit:
		l.Row.Brief = short(p.Message)
	}
}

// ids checks the ID of a request: it must be new in its session, and not null (MCP 2025-11-25, Base
// Protocol, Requests).
func (j *mcpJudge) ids(l *capture.Look, t *mcpTalk, version mcp.Version) {
	if l.Row.Kind != capture.RowRequest {
		return
	}
	if l.Row.ID == "null" {
		l.Broken("mcp-id-null", "an id must not be null in MCP")
		return
	}
	if l.Request != nil && l.Row.Session == "" || version != 0 && version.Modern() {
		return // without a session, each request is independent
	}
	k := idKey{l.Row.Dir, l.Row.ID}
	if before, used := t.ids[k]; used {
		l.Broken("mcp-id-used", fmt.Sprintf("id %s was already used by #%s in this session", short(l.Row.ID), before))
	} else if len(t.ids) < maxIDs {
		t.ids[k] = l.Row.Ref
	}
}

// headers checks that the headers match the body (MCP 2026-07-28, Transports, Standard Headers;
// before that, only the version).
func (j *mcpJudge) headers(l *capture.Look, version mcp.Version, p *mcpParams) {
	if version == 0 || l.HTTPMethod != "POST" {
		return
	}
	if got := l.Request.Get(mcp.HeaderProtocolVersion); version.HasVersionHeader() && got != version.String() && l.Row.Method != mcp.MethodInitialize {
		switch {
		case got != "":
			l.Broken("mcp-header", fmt.Sprintf("MCP-Protocol-Version is %s, but the session uses %s", short(got), version))
		case version.Modern():
			l.Broken("mcp-header", "MCP-Protocol-Version is missing")
		default:
			l.Doubt("mcp-header", "MCP-Protocol-Version is missing")
		}
	}
	if !version.Modern() || l.Row.Kind != capture.RowRequest {
		return
	}
	header(l, mcp.HeaderMethod, l.Row.Method)
	switch l.Row.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		header(l, mcp.HeaderName, string(p.Name))
	case mcp.MethodResourcesRead:
		header(l, mcp.HeaderName, string(p.URI))
	}
}

func (j *mcpJudge) response(l *capture.Look, t *mcpTalk) {
	if t == nil || l.Call == nil || l.Message.Bad != nil || l.Message.Error != nil {
		return
	}
	var r struct {
		ProtocolVersion text `json:"protocolVersion"`
		IsError         bool `json:"isError"`
		ServerInfo      struct {
			Name text `json:"name"`
		} `json:"serverInfo"`
		Content []struct {
			Type text `json:"type"`
			Text text `json:"text"`
		} `json:"content"`
		Contents []struct {
			Text text `json:"text"`
		} `json:"contents"`
		Action text `json:"action"`
	}
	decode(l.Message.Result, &r)
	version := mcp.ParseVersion(l.Call.Version)
	switch {
	case l.Call.Method == mcp.MethodInitialize:
		if v := mcp.ParseVersion(string(r.ProtocolVersion)); v != 0 {
			t.version, version = v, v
			if l.Row.Session != "" { // the response named it
				j.talks.set(talkOf(l.Row), &mcpTalk{version: v, ids: map[idKey]capture.Ref{{l.Call.Dir, l.Call.ID}: l.Call.Ref}, progress: map[string]float64{}})
			}
		} else {
			l.Broken("mcp-version", "the server responds with an unknown protocol version: "+short(r.ProtocolVersion))
		}
		l.Row.Brief = strings.TrimSpace(short(r.ServerInfo.Name) + " " + short(r.ProtocolVersion))
	case r.IsError:
		l.Row.Brief = "tool error"
		if len(r.Content) > 0 {
			l.Row.Brief = "tool error: " + short(r.Content[0].Text)
		}
	case len(r.Content) > 0:
		l.Row.Brief = short(firstOf(r.Content[0].Text, r.Content[0].Type))
	case len(r.Contents) > 0:
		l.Row.Brief = short(r.Contents[0].Text)
	case r.Action != "": // a person's response to an elicitation
		l.Row.Brief = short(r.Action)
	}
	if version != 0 {
		l.Row.Version, l.Call.Version = version.String(), version.String()
		checkResult(l, mcpSchema(version), l.Call.Method)
	}
}

// header compares a header with the value in the body.
func header(l *capture.Look, name, want string) {
	values := l.Request.Values(name)
	if len(values) == 0 {
		l.Broken("mcp-header", name+" is missing")
		return
	}
	got, err := mcp.DecodeHeader(values[0])
	if err != nil || len(values) > 1 || got != want {
		l.Broken("mcp-header", fmt.Sprintf("%s is %s, but the body has %s", name, short(values[0]), short(want)))
	}
}
