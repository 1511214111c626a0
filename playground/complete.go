package playground

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/playground/internal/complete"
)

type completeParams struct {
	Target string `json:"target,omitzero"`
	Text   string `json:"text"`
	At     int    `json:"at"` // cursor position, in UTF-16 units
	// Asked is set for an explicit request. Otherwise options are offered only for a started word.
	Asked bool `json:"asked,omitzero"`
}

// apiComplete returns the options at a position of a text. It sends a request to the target only
// for arguments of MCP prompts and resource templates, and only if the target is open.
func (p *Playground) apiComplete(ctx context.Context, in completeParams) (complete.Result, error) {
	return complete.At(ctx, complete.Request{Text: in.Text, At: in.At, Asked: in.Asked}, func() complete.Target {
		return p.completeTarget(in.Target)
	}), nil
}

// completeTarget returns what is known of a target.
func (p *Playground) completeTarget(name string) (out complete.Target) {
	var l *link
	p.mu.Lock()
	if t := p.targets[name]; t != nil {
		out.Protocol, out.Known, l = t.protocol(), t.known, t.link
	}
	p.mu.Unlock()
	if l == nil {
		return out
	}
	for _, q := range p.questions.all() {
		if q.link == l {
			_, choices, form := q.answers()
			question := complete.Question{ID: q.id, Method: q.method, Form: form}
			for _, c := range choices {
				question.Choices = append(question.Choices, complete.Choice{Label: c.Label, Draft: c.Draft})
			}
			out.Questions = append(out.Questions, question)
		}
	}
	l.mu.Lock()
	out.NextID = l.next
	l.mu.Unlock()
	out.Name, out.Propose = l.name, l.propose
	return out
}

// proposeTime limits how long the target may take to propose values.
const proposeTime = 2 * time.Second

// propose requests values for an argument from the target (MCP 2025-11-25, Completion), if the
// target supports it.
func (l *link) propose(ctx context.Context, ref, name, typed string, others map[string]string) []string {
	var hello struct {
		Capabilities struct {
			Completions jsonrpc.Raw `json:"completions"`
		} `json:"capabilities"`
	}
	l.mu.Lock()
	can := decodeLoosely(l.hello, &hello) == nil && len(hello.Capabilities.Completions) > 0
	version := mcp.ParseVersion(l.version)
	l.mu.Unlock()
	if !can {
		return nil
	}
	params := map[string]any{"ref": jsonrpc.Raw(ref), "argument": map[string]string{"name": name, "value": typed}}
	if len(others) > 0 && version.HasStructuredContent() { // both came with 2025-06-18
		params["context"] = map[string]any{"arguments": others}
	}
	if version.Modern() {
		params["_meta"] = modernMeta(l.p.options.Version)
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTime)
	defer cancel()
	result, err := l.call(ctx, mcp.MethodComplete, params)
	if err != nil {
		return nil // the recorded traffic shows the cause
	}
	var out struct {
		Completion struct {
			Values []string `json:"values"`
		} `json:"completion"`
	}
	if decodeLoosely(result, &out) != nil {
		return nil
	}
	return out.Completion.Values
}
