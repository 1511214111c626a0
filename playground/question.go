package playground

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A question is a request of a server that waits for somebody to answer.
type question struct {
	link   *link
	ref    capture.Ref
	id     string
	method string
	params jsonrpc.Raw
	since  time.Time
}

// A choice is one way to answer.
type choice struct {
	Label string `json:"label"`
	Draft string `json:"draft"`
}

type questionView struct {
	Ref     string      `json:"ref"`
	Conn    int64       `json:"conn"`
	Target  string      `json:"target"`
	Method  string      `json:"method"`
	ID      string      `json:"id"`
	Params  jsonrpc.Raw `json:"params,omitzero"`
	About   string      `json:"about"`
	Since   time.Time   `json:"since"`
	Draft   string      `json:"draft"`
	Choices []choice    `json:"choices"`
	Schema  jsonrpc.Raw `json:"schema,omitzero"`
	Call    string      `json:"call,omitzero"`
}

// asked takes a request of the server. It runs on the reader of the connection and does not wait.
func (l *link) asked(m *jsonrpc.Message, ref capture.Ref) {
	p := l.p
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[l.name]
	auto, roots := defaultAuto, []jsonrpc.Raw(nil)
	if t != nil {
		auto, roots = t.auto, t.roots
	}
	if slices.Contains(auto, m.Method) {
		result := jsonrpc.Raw(`{}`)
		if m.Method == mcp.MethodRootsList {
			result = raw(map[string]any{"roots": append([]jsonrpc.Raw{}, roots...)})
		}
		id := m.ID
		payload, err := jsonrpc.AppendResult(nil, jsonrpc.Version2, id, result)
		select {
		case l.busy <- struct{}{}:
			if err == nil {
				p.running.Go(func() {
					defer func() { <-l.busy }()
					_, _ = l.send(p.ctx, outgoing{payload: payload}) // a connection that is gone tells by itself
				})
			}
			return
		default: // a server that asks faster than it reads answers: people see its questions
		}
	}
	if len(p.questions) >= maxQuestions {
		return
	}
	p.questions = append(slices.Clone(p.questions), &question{
		link: l, ref: ref, id: m.ID.String(), method: strings.Clone(m.Method), params: m.Params.Clone(), since: time.Now(),
	})
	p.tellLocked()
}

// notified takes a notification of the server: one that takes a question back.
func (l *link) notified(m *jsonrpc.Message) {
	var in struct {
		RequestID jsonrpc.ID `json:"requestId"`
		ID        jsonrpc.ID `json:"id"`
	}
	switch m.Method {
	case mcp.NotifyCancelled, editor.NotifyCancelRequest, jsonrpc.CancelRequest.Method:
	default:
		return
	}
	if decodeLoosely(m.Params, &in) != nil {
		return
	}
	id := in.RequestID
	if id.IsZero() {
		id = in.ID
	}
	l.p.answered(l, []string{id.String()})
}

// answered takes questions off the list.
func (p *Playground) answered(l *link, ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.questions)
	p.questions = deleteFunc(p.questions, func(q *question) bool { return q.link == l && slices.Contains(ids, q.id) })
	if len(p.questions) != before {
		p.tellLocked()
	}
}

func (p *Playground) questionViews() []questionView {
	p.mu.Lock()
	list := p.questions
	p.mu.Unlock()
	views := make([]questionView, 0, len(list))
	for _, q := range list {
		views = append(views, q.view(p))
	}
	return views
}

func (q *question) view(p *Playground) questionView {
	v := questionView{
		Ref: q.ref.String(), Conn: q.link.wire.Conn(), Target: q.link.name, Method: q.method, ID: q.id, Params: q.params, Since: q.since,
	}
	if row, ok := p.rec.Row(q.ref); ok {
		v.Call = row.Parent.String()
	}
	v.About, v.Choices, v.Schema = q.answers()
	v.Draft = v.Choices[0].Draft
	return v
}

// response is the text of a response to the question.
func (q *question) response(member string, value jsonrpc.Raw) string {
	return `{"jsonrpc":"2.0","id":` + q.id + `,"` + member + `":` + string(value) + `}`
}

// answers are good ways to answer, the first of them the one that people mostly want.
func (q *question) answers() (about string, choices []choice, schema jsonrpc.Raw) {
	who := q.link.name
	result := func(label string, v any) { choices = append(choices, choice{label, q.response("result", raw(v))}) }
	refuse := func(label string, code int64, text string) {
		choices = append(choices, choice{label, q.response("error", raw(map[string]any{"code": code, "message": text}))})
	}
	var in struct {
		Message         string      `json:"message"`
		URL             string      `json:"url"`
		RequestedSchema jsonrpc.Raw `json:"requestedSchema"`
		Question        string      `json:"question"`
		Path            string      `json:"path"`
		ToolCall        struct {
			Title string `json:"title"`
		} `json:"toolCall"`
		Options []struct {
			ID   string `json:"optionId"`
			Name string `json:"name"`
		} `json:"options"`
	}
	positional := []string{}
	if decodeLoosely(q.params, &in) != nil {
		_ = decodeLoosely(q.params, &positional) // what is neither has no text
	}
	switch q.method {
	case mcp.MethodElicit:
		about = fmt.Sprintf("%s asks you: %s", who, in.Message)
		schema = in.RequestedSchema
		accept := map[string]any{"action": "accept"}
		if in.URL == "" {
			accept["content"] = exampleOf(schema)
		}
		result("Accept", accept)
		result("Decline", map[string]any{"action": "decline"})
		result("Cancel", map[string]any{"action": "cancel"})
	case mcp.MethodCreateMessage:
		about = who + " wants a text from your model. You are the model."
		result("Answer", map[string]any{"role": "assistant", "content": map[string]any{"type": "text", "text": ""}, "model": "a person", "stopReason": "endTurn"})
		refuse("Decline", -1, "The user declined")
	case mcp.MethodRootsList:
		about = who + " asks which folders it may see."
		result("None", map[string]any{"roots": []string{}})
		result("One folder", map[string]any{"roots": []any{map[string]string{"uri": "file:///tmp/project", "name": "project"}}})
		refuse("Refuse", jsonrpc.CodeMethodNotFound, "Method not found")
	case editor.MethodRequestPermission:
		about = fmt.Sprintf("%s asks for permission: %s", who, in.ToolCall.Title)
		for _, o := range in.Options {
			result(orDefault(o.Name, o.ID), map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": o.ID}})
		}
		result("Cancel", map[string]any{"outcome": map[string]string{"outcome": "cancelled"}})
	case editor.MethodReadTextFile:
		about = fmt.Sprintf("%s wants to read %s. You are its editor.", who, in.Path)
		result("Answer", map[string]string{"content": ""})
		refuse("Refuse", jsonrpc.CodeInvalidParams, "There is no such file")
	case editor.MethodWriteTextFile:
		about = fmt.Sprintf("%s wants to write %s. Nothing is written: you are its editor.", who, in.Path)
		result("Done", nil)
		refuse("Refuse", jsonrpc.CodeInvalidParams, "The file cannot be written")
	case "answer":
		about = who + " asks you"
		if in.Question == "" && len(positional) > 0 {
			in.Question = positional[0]
		}
		if in.Question != "" {
			about += ": " + in.Question
		}
		result("Answer", "")
		refuse("Refuse", 1, "No answer")
	default:
		about = fmt.Sprintf("%s calls your method %s.", who, q.method)
		result("Answer", jsonrpc.Raw(`{}`))
		refuse("Method not found", jsonrpc.CodeMethodNotFound, "Method not found")
	}
	return about, choices, schema
}

// answer sends a response to a question.
func (p *Playground) answer(ctx context.Context, ref string, text []byte) (sentRef, error) {
	q := p.question(ref)
	if q == nil {
		return sentRef{}, badParam("/ref", "#%s is no open question", ref)
	}
	return q.link.send(ctx, outgoing{payload: text})
}

func (p *Playground) question(ref string) *question {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.questions {
		if q.ref.String() == ref {
			return q
		}
	}
	return nil
}
