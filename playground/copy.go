package playground

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/playground/internal/copyas"
)

type copyParams struct {
	Log     string        `json:"log,omitzero"`
	Ref     string        `json:"ref,omitzero"`
	Target  string        `json:"target,omitzero"`
	Text    string        `json:"text,omitzero"`
	Base64  []byte        `json:"base64,omitzero"`
	Headers []headerField `json:"headers,omitzero"`
	As      string        `json:"as"`
	Secrets bool          `json:"secrets,omitzero"`
}

type textResult struct {
	Text string `json:"text"`
}

// apiCopy converts a message to a command line or a program. Secrets are omitted unless requested.
func (p *Playground) apiCopy(ctx context.Context, in copyParams) (textResult, error) {
	b := bytesParam{in.Text, in.Base64}
	own, err := headerOf(in.Headers)
	if err != nil {
		return textResult{}, err
	}
	s := sent{target: in.Target, payload: b.bytes(), header: own}
	if in.Ref != "" {
		if s, err = p.recall(in.Log, in.Ref); err != nil {
			return textResult{}, err
		}
	}
	p.mu.Lock()
	t := p.targets[s.target]
	var spec Target
	var l *link
	if t != nil {
		spec, l = t.Target, t.link
	}
	p.mu.Unlock()
	if t == nil {
		spec = Target{Name: s.target, Address: s.target}
	}
	text, headers := s.payload, [][2]string(nil)
	var h http.Header
	if l != nil {
		h = l.headers(ctx, s.payload, s.header)
	} else {
		h = closedHeaders(&spec, s.header)
	}
	for _, name := range slices.Sorted(mapsKeys(h)) {
		if name == "User-Agent" {
			continue
		}
		for _, value := range h[name] {
			if isSecretHeader(name) && !in.Secrets {
				value = "$" + variableOf(name)
			}
			headers = append(headers, [2]string{name, value})
		}
	}
	if l != nil && l.line && !s.asIs {
		text = oneLine(text)
	}
	m := copyas.New(copyTarget(&spec), text, headers, in.Secrets)
	switch in.As {
	case "raw":
		if !utf8.Valid(s.payload) {
			return textResult{}, badParam("/as", "these bytes are not text; copy them as curl, Go or Python")
		}
		return textResult{string(s.payload)}, nil
	case "curl":
		return textResult{m.Curl()}, nil
	case "parley":
		return textResult{m.Parley()}, nil
	case "go":
		return textResult{m.Go()}, nil
	case "python":
		return textResult{m.Python()}, nil
	}
	return textResult{}, badParam("/as", "raw, curl, parley, go or python")
}

// copyTarget returns the part of a target that a copy needs.
func copyTarget(spec *Target) copyas.Target {
	return copyas.Target{Address: spec.Address, Command: spec.Command, Dir: spec.Dir, Secrets: spec.Secrets, Plain: spec.protocol() == ProtocolJSONRPC}
}

// closedHeaders returns the request headers for a target that is not open.
func closedHeaders(spec *Target, own http.Header) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if spec.Token != "" {
		h.Set("Authorization", "Bearer "+spec.Token)
	}
	for _, more := range []http.Header{spec.Header, own} {
		for name, values := range more {
			if h[name] = values; values == nil {
				delete(h, name)
			}
		}
	}
	return h
}

// variableOf returns the name of the environment variable that replaces a secret header.
func variableOf(header string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(header))
}
