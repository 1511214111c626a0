package mcpagent

import (
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// beside is what a block of this protocol has no field for.
type beside struct {
	Name      string         `json:"name,omitzero"`
	MediaType string         `json:"mediaType,omitzero"`
	Filename  string         `json:"filename,omitzero"`
	JSON      bool           `json:"json,omitzero"` // a resource that is a JSON value
	Data      bool           `json:"data,omitzero"` // a resource that is bytes
	Metadata  agent.Metadata `json:"metadata,omitzero"`
}

const (
	scheme          = "parley:part/"    // of resources that exist only inside their result
	unknown         = "mcp/meta/"       // before the names of members of _meta
	metaAnnotations = "mcp/annotations" // of a block
	metaResource    = "mcp/resource"    // the URI of an embedded resource
	metaLink        = "mcp/link"        // what a link says beside its address
)

// blockTo writes a part: text, pictures and sound as such, an address as a link, other bytes and JSON as an embedded resource.
func blockTo(p agent.Part) mcp.Content {
	rest := beside{Name: p.Name, Filename: p.Filename}
	about := mcp.Meta{}
	for key, value := range p.Metadata {
		switch {
		case key == metaAnnotations:
		case strings.HasPrefix(key, unknown):
			about[key[len(unknown):]] = value
		default:
			if rest.Metadata == nil {
				rest.Metadata = agent.Metadata{}
			}
			rest.Metadata[key] = value
		}
	}
	label := p.Filename
	if label == "" {
		label = p.Name
	}
	var c mcp.Content
	switch {
	case p.Data != nil && strings.HasPrefix(p.MediaType, "image/"):
		c = mcp.Image(p.MediaType, p.Data)
	case p.Data != nil && strings.HasPrefix(p.MediaType, "audio/"):
		c = mcp.Audio(p.MediaType, p.Data)
	case p.Data != nil:
		rest.Data = true
		c = mcp.Embed(mcp.ResourceContents{URI: scheme + label, MIMEType: p.Type(), Blob: p.Data})
	case p.JSON != nil:
		rest.JSON = true
		c = mcp.Embed(mcp.ResourceContents{URI: scheme + label, MIMEType: p.Type(), Text: string(p.JSON)})
	case p.URL != "":
		if label == "" {
			label = p.URL
		}
		c = mcp.LinkTo(mcp.Resource{Name: label, URI: p.URL, MIMEType: p.MediaType})
	default:
		rest.MediaType = p.MediaType
		c = mcp.Text(p.Text)
	}
	var notes mcp.Annotations
	if p.Metadata.Get(metaAnnotations, &notes) {
		c.Annotations = &notes
	}
	if rest.Name != "" || rest.MediaType != "" || rest.Filename != "" || rest.JSON || rest.Data || rest.Metadata != nil {
		about = about.With(agent.MetaPart, rest)
	}
	if len(about) > 0 {
		c.Meta = about
	}
	return c
}

// blockFrom reads a block.
func blockFrom(c mcp.Content) agent.Part {
	var p agent.Part
	var rest beside
	meta := c.Meta
	if meta == nil && c.Link != nil {
		meta = c.Link.Meta
	}
	for key, value := range meta {
		if key == agent.MetaPart && value.Decode(&rest) == nil {
			p.Name, p.Filename, p.MediaType = rest.Name, rest.Filename, rest.MediaType
			for k, v := range rest.Metadata {
				p.Metadata = p.Metadata.With(k, v)
			}
			continue
		}
		p.Metadata = p.Metadata.With(unknown+key, value)
	}
	if c.Annotations != nil {
		p.Metadata = p.Metadata.With(metaAnnotations, c.Annotations)
	}
	switch {
	case c.Kind == mcp.KindImage || c.Kind == mcp.KindAudio:
		p.Data, p.MediaType = append([]byte{}, c.Data...), c.MIMEType
	case c.Kind == mcp.KindLink && c.Link != nil:
		l := c.Link
		p.URL, p.MediaType = l.URI, l.MIMEType
		if l.Name != l.URI && l.Name != p.Filename && l.Name != p.Name || l.Title != "" || l.Description != "" || l.Size != nil || l.Icons != nil {
			p.Metadata = p.Metadata.With(metaLink, l)
		}
	case c.Kind == mcp.KindResource && c.Resource != nil:
		r := c.Resource
		p.MediaType = r.MIMEType
		value, err := jsonrpc.ParseRaw([]byte(r.Text))
		switch {
		case r.Blob != nil:
			p.Data = append([]byte{}, r.Blob...)
		case err == nil && (rest.JSON || r.MIMEType == "application/json"):
			p.JSON = value
			if r.MIMEType == "application/json" {
				p.MediaType = ""
			}
		default:
			p.Text = r.Text
		}
		if !rest.JSON && !rest.Data {
			p.Metadata = p.Metadata.With(metaResource, r)
		}
	case c.Kind == mcp.KindText:
		p.Text = c.Text
	default:
		p.Metadata = p.Metadata.With("mcp/content", c.Kind)
	}
	return p
}

func blocksTo(parts []agent.Part) []mcp.Content {
	out := make([]mcp.Content, len(parts))
	for i := range parts {
		out[i] = blockTo(parts[i])
	}
	return out
}
