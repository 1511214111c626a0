// Package block is a part of what an agent says as MCP writes it, and the editor protocol, which took its content blocks from there.
package block

import (
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of blocks, as both protocols have them on the wire.
const (
	Text     = "text"          // Text
	Image    = "image"         // Data, MIMEType; URI where it stands elsewhere too
	Audio    = "audio"         // Data, MIMEType
	Link     = "resource_link" // Name, URI, MIMEType
	Resource = "resource"      // URI, MIMEType; Data, or else Text
)

// A Block is what the blocks of both protocols hold. Kind says which members count.
type Block struct {
	Kind     string
	Text     string
	Data     []byte // not nil where it counts
	Name     string
	URI      string
	MIMEType string

	Annotations jsonrpc.Raw            // nil for none
	Meta        map[string]jsonrpc.Raw // _meta; nil for none

	// What is only read: others say it, and a part has no field for it.
	ResourceMeta map[string]jsonrpc.Raw // the _meta inside a Resource
	WholeLink    any                    // a Link as it came, when it says more than its members here; nil if not
}

// beside is what a block has no field for.
type beside struct {
	Name      string         `json:"name,omitzero"`
	MediaType string         `json:"mediaType,omitzero"`
	Filename  string         `json:"filename,omitzero"`
	JSON      bool           `json:"json,omitzero"` // a resource that is a JSON value
	Data      bool           `json:"data,omitzero"` // a resource that is bytes
	Metadata  agent.Metadata `json:"metadata,omitzero"`
}

func (b *beside) isNone() bool {
	return b.Name == "" && b.MediaType == "" && b.Filename == "" && !b.JSON && !b.Data && b.Metadata == nil
}

// scheme begins the URI of a resource that exists only inside its message.
const scheme = "parley:part/"

// Keys of a part's metadata, behind the name of the protocol that they came from.
const (
	keyMeta        = "/meta/"       // before the name of a member of _meta
	keyAnnotations = "/annotations" // of a block
	keyResource    = "/resource"    // where an embedded resource is from: its URI, type and _meta
	keyLink        = "/link"        // what a link says beside its address
)

// Write writes a part for a protocol, "mcp" or "editor": text, pictures and sound as such, an address as a link, other bytes and JSON as a resource.
func Write(protocol string, p agent.Part) Block {
	b := Block{Meta: map[string]jsonrpc.Raw{}}
	rest := beside{Name: p.Name, Filename: p.Filename}
	own := agent.Metadata{}
	for key, value := range p.Metadata {
		if name, ok := strings.CutPrefix(key, protocol+keyMeta); ok {
			b.Meta[name] = value
		} else if key == protocol+keyAnnotations {
			b.Annotations = value
		} else {
			own[key] = value
		}
	}
	if len(own) > 0 {
		rest.Metadata = own
	}
	label := p.Filename
	if label == "" {
		label = p.Name
	}
	switch {
	case p.Data != nil && strings.HasPrefix(p.MediaType, "image/"):
		b.Kind, b.MIMEType, b.Data = Image, p.MediaType, p.Data
	case p.Data != nil && strings.HasPrefix(p.MediaType, "audio/"):
		b.Kind, b.MIMEType, b.Data = Audio, p.MediaType, p.Data
	case p.Data != nil:
		rest.Data = true
		b.Kind, b.URI, b.MIMEType, b.Data = Resource, scheme+label, p.Type(), p.Data
	case p.JSON != nil:
		rest.JSON = true
		b.Kind, b.URI, b.MIMEType, b.Text = Resource, scheme+label, p.Type(), string(p.JSON)
	case p.URL != "":
		if label == "" {
			label = p.URL
		}
		b.Kind, b.Name, b.URI, b.MIMEType = Link, label, p.URL, p.MediaType
	default:
		rest.MediaType = p.MediaType
		b.Kind, b.Text = Text, p.Text
	}
	if !rest.isNone() {
		b.Meta[agent.MetaPart] = agent.Value(rest).JSON
	}
	if len(b.Meta) == 0 {
		b.Meta = nil
	}
	return b
}

// An origin is where something came from that is embedded here, or linked to.
type origin struct {
	Name     string                 `json:"name,omitzero"`
	URI      string                 `json:"uri"`
	MIMEType string                 `json:"mimeType,omitzero"`
	Meta     map[string]jsonrpc.Raw `json:"_meta,omitzero"`
}

// Read reads a block of a protocol. Of one of another kind it reads what all have in common; the rest is its caller's.
func Read(protocol string, b *Block) agent.Part {
	var p agent.Part
	var rest beside
	for key, value := range b.Meta {
		if key == agent.MetaPart && value.Decode(&rest) == nil {
			p.Name, p.Filename, p.MediaType = rest.Name, rest.Filename, rest.MediaType
			p.Metadata = p.Metadata.Merge(rest.Metadata)
			continue
		}
		p.Metadata = p.Metadata.With(protocol+keyMeta+key, value)
	}
	if b.Annotations != nil {
		p.Metadata = p.Metadata.With(protocol+keyAnnotations, b.Annotations)
	}
	switch b.Kind {
	case Text:
		p.Text = b.Text
	case Image, Audio:
		p.Data, p.MediaType = append([]byte{}, b.Data...), b.MIMEType
		if b.URI != "" {
			p.Metadata = p.Metadata.With(protocol+keyResource, origin{URI: b.URI})
		}
	case Link:
		p.URL, p.MediaType = b.URI, b.MIMEType
		switch {
		case b.WholeLink != nil:
			p.Metadata = p.Metadata.With(protocol+keyLink, b.WholeLink)
		case b.Name != b.URI && b.Name != p.Filename && b.Name != p.Name:
			p.Metadata = p.Metadata.With(protocol+keyLink, origin{Name: b.Name, URI: b.URI, MIMEType: b.MIMEType})
		}
	case Resource:
		p.MediaType = b.MIMEType
		value, err := jsonrpc.ParseRaw([]byte(b.Text))
		switch {
		case b.Data != nil:
			p.Data = append([]byte{}, b.Data...)
		case err == nil && (rest.JSON || b.MIMEType == "application/json"):
			p.JSON = value
			if b.MIMEType == "application/json" {
				p.MediaType = ""
			}
		default:
			p.Text = b.Text
		}
		if !rest.JSON && !rest.Data {
			p.Metadata = p.Metadata.With(protocol+keyResource, origin{URI: b.URI, MIMEType: b.MIMEType, Meta: b.ResourceMeta})
		}
	}
	return p
}
