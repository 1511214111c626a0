package acpagent

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A beside holds what a part of this protocol has no field for.
type beside struct {
	Filename string         `json:"filename,omitzero"`
	Metadata agent.Metadata `json:"metadata,omitzero"`
}

// metaPart is the metadata key of a part's own metadata: a citation or a trajectory.
const metaPart = "acp/metadata"

// partTo converts a part: text and JSON to content, bytes to content in base64, an address to
// content_url.
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

// unknown is the metadata key prefix for members that the protocol does not define.
const unknown = "acp/extra/"

// partFrom converts a part of this protocol.
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
	skip := ""
	if value, ok := p.Extra[agent.MetaPart]; ok {
		var own beside
		if value.Decode(&own) == nil {
			skip = agent.MetaPart
			out.Filename = own.Filename
			out.Metadata = out.Metadata.Merge(own.Metadata)
		}
	}
	out.Metadata = out.Metadata.Merge(fromExtra(p.Extra, skip))
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

// messageTo converts a message.
func messageTo(m agent.Message) acp.Message {
	out := acp.Message{Role: m.Role, Parts: partsTo(m.Parts)}
	if m.Metadata != nil {
		out.Extra = with(out.Extra, agent.MetaMessage, text(m.Metadata))
	}
	return out
}

// messageFrom converts a message of this protocol.
func messageFrom(m acp.Message) agent.Message {
	out := agent.Message{Role: m.Role, Parts: partsFrom(m.Parts)}
	rest := make(agent.Metadata, len(m.Extra))
	for key, value := range m.Extra {
		var own agent.Metadata
		switch {
		case key == agent.MetaRequest: // it belongs to the request, not to its first message
		case key == agent.MetaMessage && value.Decode(&own) == nil:
			out.Metadata = out.Metadata.Merge(own)
		default:
			rest[unknown+key] = value
		}
	}
	out.Metadata = out.Metadata.Merge(rest)
	return out
}

// fromExtra returns the members that the protocol does not define, without one of them.
func fromExtra(m acp.Extra, skip string) agent.Metadata {
	out := make(agent.Metadata, len(m))
	for key, value := range m {
		if key != skip {
			out[unknown+key] = value
		}
	}
	return out
}

// with adds a member to m, which may be nil.
func with(m acp.Extra, key string, value jsonrpc.Raw) acp.Extra {
	if m == nil {
		m = acp.Extra{}
	}
	m[key] = value
	return m
}

// text returns the JSON text of a value that encodes as JSON.
func text(v any) jsonrpc.Raw { return agent.Value(v).JSON }

// Input converts an input to messages of this protocol, for starting a run with [acp.Client]
// directly.
func Input(input []agent.Message) []acp.Message {
	out := make([]acp.Message, len(input))
	for i, m := range input {
		out[i] = messageTo(m)
	}
	return out
}

// partRoom is the space reserved for the other members of a part whose text is split.
const partRoom = 4 << 10

// split divides a long unnamed text into several parts, between two characters. The joined parts
// equal the text.
func split(parts []acp.MessagePart, most int) []acp.MessagePart {
	most -= min(partRoom, most/2)
	if !slices.ContainsFunc(parts, func(p acp.MessagePart) bool { return len(p.Content) > most }) {
		return parts
	}
	var out []acp.MessagePart
	for _, p := range parts {
		text := p.ContentEncoding != acp.EncodingBase64 && (p.ContentType == "" || strings.HasPrefix(p.ContentType, "text/"))
		for text && p.Name == "" && p.Metadata == nil && p.Extra == nil && len(p.Content) > most {
			at := most
			for at > most-utf8.UTFMax && !utf8.RuneStart(p.Content[at]) {
				at--
			}
			piece := p
			piece.Content, p.Content = p.Content[:at], p.Content[at:]
			out = append(out, piece)
		}
		out = append(out, p)
	}
	return out
}
