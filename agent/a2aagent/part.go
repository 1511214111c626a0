package a2aagent

import (
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A beside holds what a part of this protocol has no field for, at least in v0.3.
type beside struct {
	Name      string `json:"name,omitzero"`      // if no artifact carries it
	MediaType string `json:"mediaType,omitzero"` // of text
	// Bare marks data that is not an object, which v0.3 wraps in one.
	Bare bool `json:"bare,omitzero"`
}

// partTo converts a part. The name belongs to the artifact and is written only if the part has no
// artifact.
func partTo(p agent.Part, named bool) a2a.Part {
	out := a2a.Part{MediaType: p.MediaType, Filename: p.Filename, Metadata: a2a.Metadata(p.Metadata)}
	switch {
	case p.Data != nil:
		out.Kind, out.Raw = a2a.KindRaw, p.Data
	case p.JSON != nil:
		out.Kind, out.Data = a2a.KindData, p.JSON
	case p.URL != "":
		out.Kind, out.URL = a2a.KindURL, p.URL
	default:
		out.Kind, out.Text = a2a.KindText, p.Text
	}
	rest := beside{Bare: out.Kind == a2a.KindData && out.Data[0] != '{'}
	if named {
		rest.Name = p.Name
	}
	if out.Kind == a2a.KindText {
		rest.MediaType = p.MediaType
	}
	if rest != (beside{}) {
		out.Metadata = out.Metadata.With(agent.MetaPart, rest)
	}
	return out
}

// partFrom converts a part of this protocol.
func partFrom(p a2a.Part) agent.Part {
	out := agent.Part{Filename: p.Filename, MediaType: p.MediaType}
	switch p.Kind {
	case a2a.KindRaw:
		out.Data = append([]byte{}, p.Raw...)
	case a2a.KindData:
		out.JSON = p.Data
		if p.MediaType == "application/json" {
			out.MediaType = ""
		}
	case a2a.KindURL:
		out.URL = p.URL
	default:
		out.Text = p.Text
		if p.MediaType == "text/plain" {
			out.MediaType = ""
		}
	}
	rest := make(agent.Metadata, len(p.Metadata))
	for key, value := range p.Metadata {
		var own beside
		if key == agent.MetaPart && value.Decode(&own) == nil {
			out.Name = own.Name
			if own.MediaType != "" {
				out.MediaType = own.MediaType
			}
			var wrapped map[string]jsonrpc.Raw
			if own.Bare && out.JSON.Decode(&wrapped) == nil && len(wrapped) == 1 && wrapped["value"] != nil {
				out.JSON = wrapped["value"]
			}
			continue
		}
		rest[key] = value
	}
	out.Metadata = out.Metadata.Merge(rest)
	return out
}

func partsTo(parts []agent.Part) []a2a.Part {
	out := make([]a2a.Part, len(parts))
	for i := range parts {
		out[i] = partTo(parts[i], true)
	}
	return out
}

func partsFrom(parts []a2a.Part) []agent.Part {
	out := make([]agent.Part, len(parts))
	for i := range parts {
		out[i] = partFrom(parts[i])
	}
	return out
}

// metaMessage is the metadata key of members of a message that package agent has no field for.
const metaMessage = "a2a/message"

// references holds those members.
type references struct {
	Extensions       []string `json:"extensions,omitzero"`
	ReferenceTaskIDs []string `json:"referenceTaskIds,omitzero"`
}

// inputTo converts the input of a request: the last user messages, and in the metadata the whole
// input if it is longer.
func inputTo(input []agent.Message) *a2a.Message {
	m := a2a.UserMessage()
	for _, one := range agent.LastTurn(input) {
		m.Parts = append(m.Parts, partsTo(one.Parts)...)
	}
	if len(input) == 1 && input[0].Role == agent.RoleUser {
		rest := make(a2a.Metadata, len(input[0].Metadata))
		for key, value := range input[0].Metadata {
			var r references
			if key == metaMessage && value.Decode(&r) == nil {
				m.Extensions, m.ReferenceTaskIDs = r.Extensions, r.ReferenceTaskIDs
				continue
			}
			rest[key] = value
		}
		m.Metadata = m.Metadata.Merge(rest)
	} else {
		m.Metadata = m.Metadata.With(agent.MetaInput, input)
	}
	return m
}

// inputFrom converts a message to the input of a request.
func inputFrom(m *a2a.Message) []agent.Message {
	var all []agent.Message
	if own, ok := m.Metadata[agent.MetaInput]; ok && own.Decode(&all) == nil && len(all) > 0 {
		return all
	}
	one := agent.Message{Role: agent.RoleUser, Parts: partsFrom(m.Parts), Metadata: metadataOf(m.Metadata)}
	if m.Extensions != nil || m.ReferenceTaskIDs != nil {
		one.Metadata = one.Metadata.With(metaMessage, references{m.Extensions, m.ReferenceTaskIDs})
	}
	return []agent.Message{one}
}

func metadataOf(m a2a.Metadata) agent.Metadata {
	if len(m) == 0 {
		return nil
	}
	return agent.Metadata(m)
}

// text returns the JSON text of a value that encodes as JSON.
func text(v any) jsonrpc.Raw { return agent.Value(v).JSON }

// Input converts an input to a message of this protocol, for sending with [a2a.Client] directly.
func Input(input []agent.Message) *a2a.Message { return inputTo(input) }
