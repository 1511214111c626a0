// Package block converts agent parts to and from the content blocks of MCP, which the Agent Client
// Protocol also uses.
package block

import (
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of blocks, as written in both protocols.
const (
	Text     = "text"          // Text
	Image    = "image"         // Data, MIMEType; URI if it is also available elsewhere
	Audio    = "audio"         // Data, MIMEType
	Link     = "resource_link" // Name, URI, MIMEType
	Resource = "resource"      // URI, MIMEType; Data or Text
)

// A Block is a content block of either protocol. Kind determines which members are used.
type Block struct {
	Kind     string
	Text     string
	Data     []byte // not nil if used
	Name     string
	URI      string
	MIMEType string

	Annotations jsonrpc.Raw            // nil if none
	Meta        map[string]jsonrpc.Raw // _meta; nil if none

	// The members below are only read: other implementations send them, and a part has no field for
	// them.
	ResourceMeta map[string]jsonrpc.Raw // the _meta of a Resource
	// WholeLink is the received Link if it has further members, otherwise nil.
	WholeLink any
}

// A beside holds what a block has no field for.
type beside struct {
	Name      string         `json:"name,omitzero"`
	MediaType string         `json:"mediaType,omitzero"`
	Filename  string         `json:"filename,omitzero"`
	JSON      bool           `json:"json,omitzero"` // a resource holding a JSON value
	Data      bool           `json:"data,omitzero"` // a resource holding bytes
	Metadata  agent.Metadata `json:"metadata,omitzero"`
}

func (b *beside) isNone() bool {
	return b.Name == "" && b.MediaType == "" && b.Filename == "" && !b.JSON && !b.Data && b.Metadata == nil
}

// scheme is the prefix of the URI of a resource that exists only inside its message.
const scheme = "parley:part/"

// Keys of a part's metadata, preceded by the name of their protocol.
const (
	keyMeta        = "/meta/"       // followed by the name of a member of _meta
	keyAnnotations = "/annotations" // of a block
	keyResource    = "/resource"    // the origin of an embedded resource: its URI, type and _meta
	keyLink        = "/link"        // the members of a link besides its address
)

// Write converts a part to a block of a protocol, "mcp" or "editor": text, images and audio become
// blocks of that kind, an address becomes a link, and other bytes and JSON become a resource.
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

// An origin is the source of embedded or linked content.
type origin struct {
	Name     string                 `json:"name,omitzero"`
	URI      string                 `json:"uri"`
	MIMEType string                 `json:"mimeType,omitzero"`
	Meta     map[string]jsonrpc.Raw `json:"_meta,omitzero"`
}

// Read converts a block of a protocol to a part. For an unknown kind it reads the members that all
// kinds share; the caller reads the rest.
func Read(protocol string, b *Block) agent.Part {
	var p agent.Part
	var rest beside
	more := make(agent.Metadata, len(b.Meta))
	for key, value := range b.Meta {
		if key == agent.MetaPart && value.Decode(&rest) == nil {
			p.Name, p.Filename, p.MediaType = rest.Name, rest.Filename, rest.MediaType
			p.Metadata = p.Metadata.Merge(rest.Metadata)
			continue
		}
		more[protocol+keyMeta+key] = value
	}
	p.Metadata = p.Metadata.Merge(more)
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
