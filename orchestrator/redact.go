package orchestrator

import (
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// This file redacts what is stored of a run: the texts and values of its members, its input and its
// answers. The words of an event, such as its kind and its states, are never changed, so that an
// event can be read again even if a credential is one of these words.

// redact returns a text as it is stored.
func (r *Runner) redact(text string) string {
	if r.Redact == nil || text == "" {
		return text
	}
	return string(r.Redact([]byte(text)))
}

// clip returns text, redacted and cut if it is longer than n bytes. Half of a credential would not
// be recognized later.
func (r *Runner) clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return clipTo(r.redact(text), n)
}

// redactJSON returns a JSON value as it is stored.
func (r *Runner) redactJSON(value jsonrpc.Raw) jsonrpc.Raw {
	if r.Redact == nil || value == nil {
		return value
	}
	out, err := jsonrpc.ParseRaw(r.Redact([]byte(value)))
	if err != nil {
		return jsonrpc.Raw(`"[redacted]"`)
	}
	return out
}

// stored returns an event as it is stored.
func (r *Runner) stored(e *Event) *Event {
	if r.Redact == nil {
		return e
	}
	c := *e
	c.Plan, c.Input, c.Text = r.redact(e.Plan), r.redactJSON(e.Input), r.redact(e.Text)
	c.Parts = r.storedParts(e.Parts)
	if e.Question != nil {
		q := *e.Question
		q.Text, q.Form, q.Parts, q.Metadata = r.redact(q.Text), r.redactJSON(q.Form), r.storedParts(q.Parts), r.storedMetadata(q.Metadata)
		q.Options = append([]agent.Option(nil), q.Options...)
		for i := range q.Options {
			q.Options[i].Name = r.redact(q.Options[i].Name)
		}
		c.Question = &q
	}
	if e.Answer != nil {
		a := *e.Answer
		a.Parts, a.Option, a.Value, a.Metadata = r.storedParts(a.Parts), r.redact(a.Option), r.redactJSON(a.Value), r.storedMetadata(a.Metadata)
		c.Answer = &a
	}
	c.Error = r.storedError(e.Error)
	if e.Report != nil {
		p := *e.Report
		p.Error, p.Output, p.Value = r.storedError(p.Error), r.storedParts(p.Output), r.redactJSON(p.Value)
		p.Remote, p.Session = r.redact(p.Remote), r.redact(p.Session)
		c.Report = &p
	}
	return &c
}

func (r *Runner) storedError(e *StepError) *StepError {
	if e == nil {
		return nil
	}
	c := *e
	c.Text = r.redact(c.Text)
	return &c
}

func (r *Runner) storedParts(parts []agent.Part) []agent.Part {
	if parts == nil {
		return nil
	}
	out := make([]agent.Part, len(parts))
	for i, p := range parts {
		p.Text, p.URL, p.Name, p.Filename, p.MediaType = r.redact(p.Text), r.redact(p.URL), r.redact(p.Name), r.redact(p.Filename), r.redact(p.MediaType)
		p.JSON, p.Metadata = r.redactJSON(p.JSON), r.storedMetadata(p.Metadata)
		if p.Data != nil {
			p.Data = []byte(r.redact(string(p.Data)))
		}
		out[i] = p
	}
	return out
}

func (r *Runner) storedMetadata(m agent.Metadata) agent.Metadata {
	if m == nil {
		return nil
	}
	out := make(agent.Metadata, len(m))
	for key, value := range m {
		out[r.redact(key)] = r.redactJSON(value)
	}
	return out
}
