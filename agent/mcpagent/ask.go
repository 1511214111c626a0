package mcpagent

import (
	"errors"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// Conversion of questions and answers for both ends of this protocol: forms with one field, unless
// the question has its own form.

const (
	fieldAnswer = "answer" // any text
	fieldChoice = "choice" // one of the options
)

// formOf converts a question to a form.
func formOf(q *agent.Question) *mcp.Elicitation {
	e := &mcp.Elicitation{Message: q.Text, RequestedSchema: q.Form}
	for i := range q.Parts {
		if part := q.Parts[i].String(); part != "" {
			e.Message += "\n" + part
		}
	}
	type field struct {
		Type      string   `json:"type"`
		Title     string   `json:"title"`
		Enum      []string `json:"enum,omitzero"`
		EnumNames []string `json:"enumNames,omitzero"`
	}
	name, one := fieldAnswer, field{Type: "string", Title: "Answer"}
	if len(q.Options) > 0 {
		name = fieldChoice
		for _, o := range q.Options {
			one.Enum, one.EnumNames = append(one.Enum, o.ID), append(one.EnumNames, o.Name)
		}
	}
	if e.RequestedSchema == nil {
		e.RequestedSchema = text(map[string]any{"type": "object", "properties": map[string]field{name: one}, "required": []string{name}})
	}
	if q.Form != nil || q.Auth || q.Parts != nil || q.Options != nil || q.Metadata != nil {
		e.Meta = e.Meta.With(agent.MetaQuestion, q)
	}
	return e
}

// answerOf converts the user's reaction to an answer.
func answerOf(q *agent.Question, r *mcp.ElicitResult) (*agent.Answer, error) {
	a := new(agent.Answer)
	var filled map[string]jsonrpc.Raw
	switch {
	case r.Meta.Get(agent.MetaAnswer, a):
		return a, nil
	case r.Action != mcp.ActionAccept:
		a.Declined = true
		return a, nil
	case q.Form != nil:
		a.Value = r.Content.Clone()
		return a, nil
	case r.Content.Decode(&filled) != nil:
		return nil, errors.New("mcpagent: the form was answered with an unexpected value")
	}
	if len(q.Options) > 0 {
		return a, filled[fieldChoice].Decode(&a.Option)
	}
	var answer string
	if err := filled[fieldAnswer].Decode(&answer); err != nil {
		return nil, err
	}
	a.Parts = []agent.Part{agent.Text(answer)}
	return a, nil
}

// A schema holds the parts of a JSON Schema that this package reads.
type schema struct {
	Properties map[string]struct {
		Type string   `json:"type"`
		Enum []string `json:"enum"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// questionOf converts a form to a question.
func questionOf(e *mcp.Elicitation) *agent.Question {
	q := new(agent.Question)
	if e.Meta.Get(agent.MetaQuestion, q) {
		return q
	}
	q.Text = e.Message
	if e.Mode == mcp.ElicitURL {
		q.Auth, q.Parts = true, []agent.Part{agent.LinkTo("", e.URL)}
		return q
	}
	var s schema
	if e.RequestedSchema.Decode(&s) == nil && len(s.Properties) == 1 {
		for _, field := range s.Properties {
			if field.Type == "string" && field.Enum == nil {
				return q // it accepts any text
			}
		}
	}
	q.Form = e.RequestedSchema
	return q
}

// fill writes an answer into a form. Text is written into the only field.
func fill(e *mcp.Elicitation, a *agent.Answer) *mcp.ElicitResult {
	out := &mcp.ElicitResult{Action: mcp.ActionAccept, Meta: mcp.Meta{}.With(agent.MetaAnswer, a)}
	var s schema
	switch {
	case a.Declined:
		out.Action = mcp.ActionDecline
	case e.Mode == mcp.ElicitURL:
	case a.Value != nil:
		out.Content = a.Value
	case e.RequestedSchema.Decode(&s) == nil && len(s.Properties) == 1:
		for name, field := range s.Properties {
			reply := a.Text()
			if a.Option != "" {
				reply = a.Option
			}
			value := text(reply)
			if raw, err := jsonrpc.ParseRaw([]byte(reply)); err == nil && field.Type != "string" {
				value = raw
			}
			out.Content = text(map[string]jsonrpc.Raw{name: value})
		}
	default:
		out.Action = mcp.ActionDecline // a text cannot fill several fields
	}
	return out
}

// text returns the JSON text of a value that encodes as JSON.
func text(v any) jsonrpc.Raw { return agent.Value(v).JSON }
