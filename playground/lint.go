package playground

import (
	"context"

	"github.com/da1ed7bb/parley/playground/internal/lint"
	"github.com/da1ed7bb/parley/playground/internal/outline"
)

type lintParams struct {
	Target string `json:"target,omitzero"`
	Text   string `json:"text,omitzero"`
	Base64 []byte `json:"base64,omitzero"`
}

type lintResult struct {
	Kind  string      `json:"kind"`
	Marks []lint.Mark `json:"marks"`
	Bytes int         `json:"bytes"`
}

// apiLint checks a text as a strict server would, and its params against the target's description.
func (p *Playground) apiLint(_ context.Context, in lintParams) (lintResult, error) {
	b := bytesParam{in.Text, in.Base64}
	var known *outline.Description
	line := false
	protocol := ProtocolJSONRPC
	p.mu.Lock()
	if t := p.targets[in.Target]; t != nil {
		known, protocol = t.known, t.protocol()
		line = t.link != nil && t.link.line
	}
	p.mu.Unlock()
	text := b.bytes()
	out := lintResult{Bytes: len(text)}
	out.Kind, out.Marks = lint.Check(text, known, protocol)
	if line {
		out.Bytes = len(oneLine(text))
	}
	return out, nil
}
