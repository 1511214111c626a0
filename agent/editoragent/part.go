package editoragent

import (
	"strings"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/editor"
	"github.com/da1ed7bb/parley/jsonrpc"
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

// blockTo writes a part: text, pictures and sound as such, an address as a link, other bytes and JSON as an embedded resource.
func blockTo(p agent.Part) editor.Content {
	rest := beside{Name: p.Name, Filename: p.Filename}
	about := editor.Meta{}
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
	var c editor.Content
	switch {
	case p.Data != nil && strings.HasPrefix(p.MediaType, "image/"):
		c = editor.Image(p.MediaType, p.Data)
	case p.Data != nil && strings.HasPrefix(p.MediaType, "audio/"):
		c = editor.Audio(p.MediaType, p.Data)
	case p.Data != nil:
		rest.Data = true
		c = editor.Embed(editor.ResourceContents{URI: scheme + label, MIMEType: p.Type(), Blob: p.Data})
	case p.JSON != nil:
		rest.JSON = true
		c = editor.Embed(editor.ResourceContents{URI: scheme + label, MIMEType: p.Type(), Text: string(p.JSON)})
	case p.URL != "":
		if label == "" {
			label = p.URL
		}
		c = editor.LinkTo(editor.ResourceLink{Name: label, URI: p.URL, MIMEType: p.MediaType})
	default:
		rest.MediaType = p.MediaType
		c = editor.Text(p.Text)
	}
	var notes editor.Annotations
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

const (
	scheme          = "parley:part/"       // of resources that exist only inside their message
	unknown         = "editor/meta/"       // before the names of members of _meta
	metaAnnotations = "editor/annotations" // of a block
	metaBlock       = "editor/content"     // a whole block that the seam has no kind for
	metaResource    = "editor/resource"    // the URI of an embedded resource
	metaLink        = "editor/link"        // what a link says beside its address
)

// blockFrom reads a block.
func blockFrom(c editor.Content) agent.Part {
	var p agent.Part
	var rest beside
	for key, value := range c.Meta {
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
	switch c.Kind {
	case editor.KindText:
		p.Text = c.Text
	case editor.KindImage, editor.KindAudio:
		p.Data, p.MediaType = append([]byte{}, c.Data...), c.MIMEType
		if c.URI != "" {
			p.Metadata = p.Metadata.With(metaResource, c.URI)
		}
	case editor.KindLink:
		p.URL, p.MediaType = c.Link.URI, c.Link.MIMEType
		if l := c.Link; l.Name != l.URI && l.Name != p.Filename && l.Name != p.Name || l.Title != "" || l.Description != "" || l.Size != nil {
			p.Metadata = p.Metadata.With(metaLink, editor.ResourceLink{Name: l.Name, URI: l.URI, Title: l.Title, Description: l.Description, Size: l.Size})
		}
	case editor.KindResource:
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
			p.Metadata = p.Metadata.With(metaResource, r.URI)
		}
	default:
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

// promptTo writes the input of a request: what the user said last, and beside it all of it, if that is more.
func promptTo(input []agent.Message) (blocks []editor.Content, about editor.Meta) {
	from := len(input)
	for from > 0 && input[from-1].Role == agent.RoleUser {
		from--
	}
	if from == len(input) {
		from = 0
	}
	for _, m := range input[from:] {
		blocks = append(blocks, blocksTo(m.Parts)...)
	}
	if len(input) != 1 || input[0].Role != agent.RoleUser || input[0].Metadata != nil {
		about = about.With(agent.MetaInput, input)
	}
	return blocks, about
}

// promptFrom reads it.
func promptFrom(p *editor.PromptParams) (input []agent.Message, about agent.Metadata) {
	input = []agent.Message{{Role: agent.RoleUser, Parts: blocksFrom(p.Prompt)}}
	for key, value := range p.Meta {
		switch key {
		case agent.MetaInput:
			var all []agent.Message
			if value.Decode(&all) == nil && len(all) > 0 {
				input = all
			}
		case agent.MetaRequest:
			var own agent.Metadata
			_ = value.Decode(&own) // of somebody else, who means something else by it
			for k, v := range own {
				about = about.With(k, v)
			}
		case agent.MetaAnswer:
		default:
			about = about.With(unknown+key, value)
		}
	}
	return input, about
}
