package editoragent

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Conversion of questions and answers for both ends of this protocol.

// permission asks with session/request_permission.
func permission(ctx context.Context, t *editor.Turn, q *agent.Question, n int) (*agent.Answer, error) {
	tool := editor.ToolCall{ID: "parley-question-" + strconv.Itoa(n), Title: q.Text, Kind: editor.ToolOther, Status: editor.StatusPending}
	for _, p := range q.Parts {
		tool.Content = append(tool.Content, editor.Shown(blockTo(p)))
	}
	tool.Meta = tool.Meta.With(agent.MetaQuestion, q)
	options := make([]editor.PermissionOption, len(q.Options))
	for i, o := range q.Options {
		options[i] = editor.PermissionOption{ID: o.ID, Name: o.Name, Kind: editor.OptionKind(o.Kind)}
		if o.Kind == "" {
			options[i].Kind = editor.AllowOnce // one of the four kinds is required
		}
	}
	said, err := t.RequestPermission(ctx, tool, options...)
	if err != nil {
		return nil, err
	}
	var a agent.Answer
	switch {
	case said.Outcome.Outcome == editor.OutcomeCancelled:
		return nil, agent.ErrCancelled
	case said.Meta.Get(agent.MetaAnswer, &a):
		return &a, nil
	}
	return agent.Choose(said.Outcome.OptionID), nil
}

// questionOfTool reads a question that was asked with session/request_permission.
func questionOfTool(p *editor.PermissionParams) *agent.Question {
	q := new(agent.Question)
	if p.ToolCall.Meta.Get(agent.MetaQuestion, q) {
		return q
	}
	q.Text = p.ToolCall.Title
	for _, c := range p.ToolCall.Content {
		if c.Content != nil {
			q.Parts = append(q.Parts, blockFrom(*c.Content))
		}
	}
	for _, o := range p.Options {
		q.Options = append(q.Options, agent.Option{ID: o.ID, Name: o.Name, Kind: string(o.Kind)})
	}
	q.Metadata = q.Metadata.With("editor/toolCall", p.ToolCall)
	return q
}

// plain is the form for a question that accepts any text.
var plain = &editor.Form{Type: "object", Properties: map[string]editor.Field{"answer": {Type: "string", Title: "Answer"}}, Required: []string{"answer"}}

// form asks with elicitation/create.
func form(ctx context.Context, t *editor.Turn, q *agent.Question) (*agent.Answer, error) {
	p := &editor.ElicitParams{Mode: editor.ElicitForm, SessionID: t.ID, Message: q.Text, RequestedSchema: plain}
	if q.Form != nil {
		p.RequestedSchema = new(editor.Form)
		if err := q.Form.Decode(p.RequestedSchema); err != nil {
			return nil, fmt.Errorf("editoragent: the form of a question: %w", err)
		}
	}
	if q.Form != nil || q.Auth || q.Parts != nil || q.Metadata != nil {
		p.Meta = p.Meta.With(agent.MetaQuestion, q)
	}
	said, err := t.Elicit(ctx, p)
	if err != nil {
		return nil, err
	}
	a := new(agent.Answer)
	switch {
	case said.Meta.Get(agent.MetaAnswer, a):
	case said.Action != editor.ActionAccept:
		a.Declined = true
	case q.Form != nil:
		a.Value = agent.Metadata{}.With("", said.Content)[""]
	default:
		var text string
		if err := said.Content["answer"].Decode(&text); err != nil {
			return nil, errors.New("editoragent: the form was returned without an answer")
		}
		a.Parts = []agent.Part{agent.Text(text)}
	}
	return a, nil
}

// questionOfForm reads a question that was asked with elicitation/create.
func questionOfForm(p *editor.ElicitParams) *agent.Question {
	q := new(agent.Question)
	if p.Meta.Get(agent.MetaQuestion, q) {
		return q
	}
	q.Text = p.Message
	if p.Mode == editor.ElicitURL {
		q.Auth = true
		q.Parts = []agent.Part{agent.LinkTo("", p.URL)}
		return q
	}
	if p.RequestedSchema != nil && !isPlain(p.RequestedSchema) {
		q.Form = agent.Metadata{}.With("", p.RequestedSchema)[""]
	}
	return q
}

// isPlain reports whether a form has exactly one field, of type text.
func isPlain(f *editor.Form) bool {
	if len(f.Properties) != 1 {
		return false
	}
	for _, field := range f.Properties {
		return field.Type == "string" && field.Enum == nil && field.OneOf == nil
	}
	return false
}

// fill writes an answer into a form. Text is written into the only field.
func fill(p *editor.ElicitParams, a *agent.Answer) *editor.ElicitResult {
	out := &editor.ElicitResult{Action: editor.ActionAccept, Meta: editor.Meta{}.With(agent.MetaAnswer, a)}
	switch {
	case a.Declined:
		out.Action = editor.ActionDecline
	case p.Mode == editor.ElicitURL:
	case a.Value != nil:
		if a.Value.Decode(&out.Content) != nil {
			out.Action = editor.ActionDecline
		}
	case p.RequestedSchema != nil && len(p.RequestedSchema.Properties) == 1:
		out.Content = map[string]jsonrpc.Raw{}
		for name, field := range p.RequestedSchema.Properties {
			text := a.Text()
			value := agent.Metadata{}.With("", text)[""]
			if field.Type != "string" {
				if raw, err := jsonrpc.ParseRaw([]byte(text)); err == nil {
					value = raw
				}
			}
			out.Content[name] = value
		}
	default:
		out.Action = editor.ActionDecline // a text cannot fill several fields
	}
	return out
}

// answerOf reads the answer to a question that ended a turn, from the next prompt.
func answerOf(t *editor.Turn) *agent.Answer {
	a := new(agent.Answer)
	if t.Params.Meta.Get(agent.MetaAnswer, a) {
		return a
	}
	return &agent.Answer{Parts: blocksFrom(t.Prompt)}
}
