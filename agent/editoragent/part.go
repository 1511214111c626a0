package editoragent

import (
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/internal/block"
	"github.com/da1ed7bb/parley/editor"
)

const (
	unknown   = "editor/meta/"   // followed by the names of unknown members of _meta
	metaBlock = "editor/content" // a block of a kind that package agent does not have
)

// blockTo converts a part to a block.
func blockTo(p agent.Part) editor.Content {
	b := block.Write("editor", p)
	var c editor.Content
	switch b.Kind {
	case block.Image, block.Audio:
		c = editor.Content{Kind: b.Kind, MIMEType: b.MIMEType, Data: b.Data}
	case block.Resource:
		c = editor.Embed(editor.ResourceContents{URI: b.URI, MIMEType: b.MIMEType, Text: b.Text, Blob: b.Data})
	case block.Link:
		c = editor.LinkTo(editor.ResourceLink{Name: b.Name, URI: b.URI, MIMEType: b.MIMEType})
	default:
		c = editor.Text(b.Text)
	}
	var notes editor.Annotations
	if b.Annotations != nil && b.Annotations.Decode(&notes) == nil {
		c.Annotations = &notes
	}
	c.Meta = b.Meta
	return c
}

// blockFrom converts a block to a part.
func blockFrom(c editor.Content) agent.Part {
	b := block.Block{Kind: c.Kind, Text: c.Text, Data: c.Data, URI: c.URI, MIMEType: c.MIMEType, Meta: c.Meta}
	if c.Annotations != nil {
		b.Annotations = agent.Value(c.Annotations).JSON
	}
	switch {
	case c.Kind == editor.KindLink && c.Link != nil:
		l := c.Link
		b.Name, b.URI, b.MIMEType = l.Name, l.URI, l.MIMEType
		if l.Title != "" || l.Description != "" || l.Size != nil {
			b.WholeLink = editor.ResourceLink{Name: l.Name, URI: l.URI, Title: l.Title, Description: l.Description, MIMEType: l.MIMEType, Size: l.Size}
		}
	case c.Kind == editor.KindResource && c.Resource != nil:
		r := c.Resource
		b.URI, b.MIMEType, b.Text, b.Data, b.ResourceMeta = r.URI, r.MIMEType, r.Text, r.Blob, r.Meta
	}
	p := block.Read("editor", &b)
	if c.Raw != nil {
		p.JSON = c.Raw
		p.Metadata = p.Metadata.With(metaBlock, c.Kind)
	}
	return p
}

func blocksTo(parts []agent.Part) []editor.Content {
	out := make([]editor.Content, len(parts))
	for i := range parts {
		out[i] = blockTo(parts[i])
	}
	return out
}

func blocksFrom(blocks []editor.Content) []agent.Part {
	out := make([]agent.Part, len(blocks))
	for i := range blocks {
		out[i] = blockFrom(blocks[i])
	}
	return out
}

// promptTo converts the input of a request: the last user messages, and in the metadata the whole
// input if it is longer.
func promptTo(input []agent.Message) (blocks []editor.Content, about editor.Meta) {
	for _, m := range agent.LastTurn(input) {
		blocks = append(blocks, blocksTo(m.Parts)...)
	}
	if len(input) != 1 || input[0].Role != agent.RoleUser || input[0].Metadata != nil {
		about = about.With(agent.MetaInput, input)
	}
	return blocks, about
}

// promptFrom converts a prompt to an input.
func promptFrom(p *editor.PromptParams) (input []agent.Message, about agent.Metadata) {
	input = []agent.Message{{Role: agent.RoleUser, Parts: blocksFrom(p.Prompt)}}
	rest := make(agent.Metadata, len(p.Meta))
	for key, value := range p.Meta {
		switch key {
		case agent.MetaInput:
			var all []agent.Message
			if value.Decode(&all) == nil && len(all) > 0 {
				input = all
			}
		case agent.MetaRequest:
			var own agent.Metadata
			_ = value.Decode(&own) // another implementation may use the key differently
			about = about.Merge(own)
		case agent.MetaAnswer:
		default:
			rest[unknown+key] = value
		}
	}
	return input, about.Merge(rest)
}
