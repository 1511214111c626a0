package editor

import (
	"encoding/base64"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of content. The comments list the members of [Content] that each uses. The kinds are those
// of the Model Context Protocol.
const (
	KindText     = "text"          // Text
	KindImage    = "image"         // Data, MIMEType, URI
	KindAudio    = "audio"         // Data, MIMEType
	KindLink     = "resource_link" // Link
	KindResource = "resource"      // Resource
)

// Content is one block in a message of a user, an agent or a tool (Agent Client Protocol v1,
// Content). Kind determines which of the other members are used.
type Content struct {
	Kind     string
	Text     string
	Data     []byte // base64 on the wire
	MIMEType string
	URI      string
	Link     *ResourceLink
	Resource *ResourceContents

	Annotations *Annotations
	Meta        Meta

	// Raw is the whole block if its Kind is unknown. It is sent again unchanged.
	Raw jsonrpc.Raw
}

// A ResourceLink is a link to a resource that the agent can read.
type ResourceLink struct {
	Name        string       `json:"name"`
	URI         string       `json:"uri"`
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MIMEType    string       `json:"mimeType,omitzero"`
	Size        *int64       `json:"size,omitzero"` // in bytes
	Annotations *Annotations `json:"annotations,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
}

// ResourceContents holds the content of a resource: Text, or Blob if that is not nil.
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte // base64 on the wire
	Meta     Meta
}

// Text returns a text block.
func Text(text string) Content { return Content{Kind: KindText, Text: text} }

// Image returns a block with an image, for example of type "image/png".
func Image(mimeType string, data []byte) Content {
	return Content{Kind: KindImage, MIMEType: mimeType, Data: data}
}

// Audio returns a block with sound, for example of type "audio/wav".
func Audio(mimeType string, data []byte) Content {
	return Content{Kind: KindAudio, MIMEType: mimeType, Data: data}
}

// LinkTo returns a block with a link to a resource.
func LinkTo(l ResourceLink) Content { return Content{Kind: KindLink, Link: &l} }

// Embed returns a block that contains a resource.
func Embed(r ResourceContents) Content { return Content{Kind: KindResource, Resource: &r} }

// isNone reports whether there is no block.
func (c *Content) isNone() bool { return c.Kind == "" && c.Raw == nil }

// AppendJSON appends the block as JSON to dst.
func (c Content) AppendJSON(dst []byte) ([]byte, error) {
	if c.Raw != nil {
		return append(dst, c.Raw...), nil
	}
	head := len(dst)
	dst = jsonrpc.AppendString(append(dst, `{"type":`...), c.Kind)
	var err error
	switch c.Kind {
	case KindText:
		dst = jsonrpc.AppendString(append(dst, `,"text":`...), c.Text)
	case KindImage, KindAudio:
		dst = appendBytes(append(dst, `,"data":`...), c.Data)
		dst = jsonrpc.AppendString(append(dst, `,"mimeType":`...), c.MIMEType)
		if c.URI != "" && c.Kind == KindImage {
			dst = jsonrpc.AppendString(append(dst, `,"uri":`...), c.URI)
		}
	case KindResource:
		if c.Resource == nil {
			return dst, fmt.Errorf("editor: content of kind %q needs Resource", c.Kind)
		}
		dst, err = c.Resource.AppendJSON(append(dst, `,"resource":`...))
	case KindLink:
		if c.Link == nil {
			return dst, fmt.Errorf("editor: content of kind %q needs Link", c.Kind)
		}
		link := *c.Link
		if link.Meta == nil {
			link.Meta = c.Meta
		}
		if link.Annotations == nil {
			link.Annotations = c.Annotations
		}
		return appendTagged(dst[:head], "type", KindLink, link)
	default:
		return dst, fmt.Errorf("editor: content of unknown kind %q", c.Kind)
	}
	if err == nil && c.Annotations != nil {
		dst, err = appendValue(append(dst, `,"annotations":`...), c.Annotations)
	}
	if err == nil && c.Meta != nil {
		dst, err = appendValue(append(dst, `,"_meta":`...), c.Meta)
	}
	return append(dst, '}'), err
}

func appendBytes(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// MarshalJSON encodes the block.
func (c Content) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes a block. If its kind is unknown, Kind and Raw are set.
func (c *Content) UnmarshalJSON(text []byte) error {
	var in struct {
		Type        string            `json:"type"`
		Text        string            `json:"text"`
		Data        []byte            `json:"data"`
		MIMEType    string            `json:"mimeType"`
		URI         string            `json:"uri"`
		Resource    *ResourceContents `json:"resource"`
		Annotations *Annotations      `json:"annotations"`
		Meta        Meta              `json:"_meta"`
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := jsonrpc.Raw(text).Decode(&kind); err != nil {
		return err
	}
	switch kind.Type {
	case KindLink:
		c.Link = new(ResourceLink)
		*c = Content{Kind: KindLink, Link: c.Link}
		if err := jsonrpc.Raw(text).Decode(c.Link); err != nil {
			return err
		}
		c.Annotations, c.Meta = c.Link.Annotations, c.Link.Meta
		return nil
	case KindText, KindImage, KindAudio, KindResource:
	default:
		*c = Content{Kind: kind.Type, Raw: jsonrpc.Raw(text).Clone()}
		return nil
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*c = Content{Kind: in.Type, Text: in.Text, Data: in.Data, MIMEType: in.MIMEType, URI: in.URI, Resource: in.Resource, Annotations: in.Annotations, Meta: in.Meta}
	if c.Kind == KindResource && c.Resource == nil {
		return fmt.Errorf("editor: content of kind %q needs resource", c.Kind)
	}
	return nil
}

// AppendJSON appends the contents as JSON to dst.
func (r ResourceContents) AppendJSON(dst []byte) (_ []byte, err error) {
	dst = jsonrpc.AppendString(append(dst, `{"uri":`...), r.URI)
	if r.MIMEType != "" {
		dst = jsonrpc.AppendString(append(dst, `,"mimeType":`...), r.MIMEType)
	}
	if r.Blob != nil {
		dst = appendBytes(append(dst, `,"blob":`...), r.Blob)
	} else {
		dst = jsonrpc.AppendString(append(dst, `,"text":`...), r.Text)
	}
	if r.Meta != nil {
		dst, err = appendValue(append(dst, `,"_meta":`...), r.Meta)
	}
	return append(dst, '}'), err
}

// MarshalJSON encodes the contents.
func (r ResourceContents) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes contents.
func (r *ResourceContents) UnmarshalJSON(text []byte) error {
	var in struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     string  `json:"text"`
		Blob     *[]byte `json:"blob"`
		Meta     Meta    `json:"_meta"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*r = ResourceContents{URI: in.URI, MIMEType: in.MIMEType, Text: in.Text, Meta: in.Meta}
	if in.Blob != nil {
		r.Blob = append([]byte{}, *in.Blob...) // not nil, even if empty
	}
	return nil
}

// TextOf returns the concatenated text of all blocks, with links represented by their URI.
func TextOf(blocks []Content) string {
	var out []byte
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.Kind == KindText:
			out = append(out, b.Text...)
		case b.Kind == KindLink && b.Link != nil:
			out = append(out, b.Link.URI...)
		case b.Kind == KindResource && b.Resource != nil:
			out = append(out, b.Resource.Text...)
		}
	}
	return string(out)
}
