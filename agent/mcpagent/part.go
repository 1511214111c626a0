package mcpagent

import (
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/internal/block"
	"github.com/da1ed7bb/parley/mcp"
)

// unknown is the metadata key prefix for unknown members of _meta.
const unknown = "mcp/meta/"

// blockTo converts a part to a block.
func blockTo(p agent.Part) mcp.Content {
	b := block.Write("mcp", p)
	var c mcp.Content
	switch b.Kind {
	case block.Image, block.Audio:
		c = mcp.Content{Kind: b.Kind, MIMEType: b.MIMEType, Data: b.Data}
	case block.Resource:
		c = mcp.Embed(mcp.ResourceContents{URI: b.URI, MIMEType: b.MIMEType, Text: b.Text, Blob: b.Data})
	case block.Link:
		c = mcp.LinkTo(mcp.Resource{Name: b.Name, URI: b.URI, MIMEType: b.MIMEType})
	default:
		c = mcp.Text(b.Text)
	}
	var notes mcp.Annotations
	if b.Annotations != nil && b.Annotations.Decode(&notes) == nil {
		c.Annotations = &notes
	}
	c.Meta = b.Meta
	return c
}

// blockFrom converts a block to a part.
func blockFrom(c mcp.Content) agent.Part {
	b := block.Block{Kind: c.Kind, Text: c.Text, Data: c.Data, MIMEType: c.MIMEType, Meta: c.Meta}
	if c.Annotations != nil {
		b.Annotations = text(c.Annotations)
	}
	switch {
	case c.Kind == mcp.KindLink && c.Link != nil:
		l := c.Link
		b.Name, b.URI, b.MIMEType = l.Name, l.URI, l.MIMEType
		if b.Meta == nil {
			b.Meta = l.Meta
		}
		if l.Title != "" || l.Description != "" || l.Size != nil || l.Icons != nil {
			b.WholeLink = l
		}
	case c.Kind == mcp.KindResource && c.Resource != nil:
		r := c.Resource
		b.URI, b.MIMEType, b.Text, b.Data, b.ResourceMeta = r.URI, r.MIMEType, r.Text, r.Blob, r.Meta
	}
	p := block.Read("mcp", &b)
	switch c.Kind {
	case mcp.KindText, mcp.KindImage, mcp.KindAudio, mcp.KindLink, mcp.KindResource:
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
