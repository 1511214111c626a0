package acpagent

import (
	"encoding/base64"
	"strings"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// beside is what a part of this protocol has no field for.
type beside struct {
	Filename string         `json:"filename,omitzero"`
	Metadata agent.Metadata `json:"metadata,omitzero"`
}

// metaPart is where a part's own metadata stand: a citation or a trajectory.
const metaPart = "acp/metadata"

// partTo writes a part: text and JSON as content, bytes as content in base64, an address as content_url.
func partTo(p agent.Part) acp.MessagePart {
	out := acp.MessagePart{Name: p.Name, ContentType: p.Type()}
	switch {
	case p.Data != nil:
		out.Content, out.ContentEncoding = base64.StdEncoding.EncodeToString(p.Data), acp.EncodingBase64
	case p.JSON != nil:
		out.Content = string(p.JSON)
	case p.URL != "":
		out.ContentURL = p.URL
	default:
		out.Content = p.Text
	}
	rest := agent.Metadata{}
	for key, value := range p.Metadata {
		var own acp.PartMetadata
		switch {
		case key == metaPart && value.Decode(&own) == nil:
			out.Metadata = &own
		case strings.HasPrefix(key, unknown):
			out.Extra = with(out.Extra, key[len(unknown):], value)
		default:
			rest[key] = value
		}
	}
	if p.Filename != "" || len(rest) > 0 {
		if len(rest) == 0 {
			rest = nil
		}
		out.Extra = with(out.Extra, agent.MetaPart, text(beside{p.Filename, rest}))
	}
	return out
}

// unknown stands before the names of members that the protocol does not know.
const unknown = "acp/extra/"

// partFrom reads a part.
func partFrom(p acp.MessagePart) agent.Part {
	out := agent.Part{Name: p.Name}
	if p.ContentType != "text/plain" {
		out.MediaType = p.ContentType
	}
	switch {
	case p.ContentURL != "":
		out.URL = p.ContentURL
	case p.ContentEncoding == acp.EncodingBase64:
		data, err := p.Data()
		if err != nil {
			out.Text, out.Metadata = p.Content, out.Metadata.With("acp/content_encoding", p.ContentEncoding)
			break
		}
		out.Data = append([]byte{}, data...)
	case p.ContentType == "application/json":
		if value, err := jsonrpc.ParseRaw([]byte(p.Content)); err == nil {
			out.JSON, out.MediaType = value, ""
			break
		}
		out.Text = p.Content
	default:
		out.Text = p.Content
	}
	for key, value := range p.Extra {
		var own beside
		if key == agent.MetaPart && value.Decode(&own) == nil {
			out.Filename = own.Filename
			out.Metadata = out.Metadata.Merge(own.Metadata)
			continue
		}
		out.Metadata = out.Metadata.With(unknown+key, value)
	}
	if p.Metadata != nil {
		out.Metadata = out.Metadata.With(metaPart, p.Metadata)
	}
	return out
}

func partsTo(parts []agent.Part) []acp.MessagePart {
	out := make([]acp.MessagePart, len(parts))
	for i := range parts {
		out[i] = partTo(parts[i])
	}
	return out
}

func partsFrom(parts []acp.MessagePart) []agent.Part {
	out := make([]agent.Part, len(parts))
	for i := range parts {
		out[i] = partFrom(parts[i])
	}
	return out
}

// messageTo writes a message.
func messageTo(m agent.Message) acp.Message {
	out := acp.Message{Role: m.Role, Parts: partsTo(m.Parts)}
	if m.Metadata != nil {
		out.Extra = with(out.Extra, agent.MetaMessage, text(m.Metadata))
	}
	return out
}

// messageFrom reads a message.
func messageFrom(m acp.Message) agent.Message {
	out := agent.Message{Role: m.Role, Parts: partsFrom(m.Parts)}
	for key, value := range m.Extra {
		var own agent.Metadata
		switch {
		case key == agent.MetaRequest: // of the request, not of its first message
		case key == agent.MetaMessage && value.Decode(&own) == nil:
			out.Metadata = out.Metadata.Merge(own)
		default:
			out.Metadata = out.Metadata.With(unknown+key, value)
		}
	}
	return out
}

// with adds a member to those that may not be there yet.
func with(m acp.Extra, key string, value jsonrpc.Raw) acp.Extra {
	if m == nil {
		m = acp.Extra{}
	}
	m[key] = value
	return m
}

// text is the JSON text of a value that has one.
func text(v any) jsonrpc.Raw { return agent.Value(v).JSON }

// Input writes what an agent is asked as this protocol has it, for whoever starts a run by [acp.Client] itself.
func Input(input []agent.Message) []acp.Message {
	out := make([]acp.Message, len(input))
	for i, m := range input {
		out[i] = messageTo(m)
	}
	return out
}
