package mcp

import (
	"encoding/base64"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of content. The comments list the members of [Content] that each kind uses.
const (
	KindText       = "text"          // Text
	KindImage      = "image"         // Data, MIMEType
	KindAudio      = "audio"         // Data, MIMEType; since 2025-03-26
	KindResource   = "resource"      // Resource
	KindLink       = "resource_link" // Link; since 2025-06-18
	KindToolUse    = "tool_use"      // Use; in sampling, since 2025-11-25
	KindToolResult = "tool_result"   // Result; in sampling, since 2025-11-25
)

// Content is one content block of a tool result, a prompt or a model message. Kind selects which of
// the other members are used.
type Content struct {
	Kind     string
	Text     string
	Data     []byte // base64 on the wire
	MIMEType string
	Resource *ResourceContents
	Link     *Resource
	Use      *ToolUse
	Result   *ToolUseResult

	Annotations *Annotations
	Meta        Meta
}

// Text returns a text block.
func Text(text string) Content { return Content{Kind: KindText, Text: text} }

// Image returns a block with an image, for example of type "image/png".
func Image(mimeType string, data []byte) Content {
	return Content{Kind: KindImage, MIMEType: mimeType, Data: data}
}

// Audio returns a block with sound, for example of type "audio/wav". A client of 2024-11-05
// receives it as an embedded resource.
func Audio(mimeType string, data []byte) Content {
	return Content{Kind: KindAudio, MIMEType: mimeType, Data: data}
}

// Embed returns a block that contains a resource.
func Embed(r ResourceContents) Content { return Content{Kind: KindResource, Resource: &r} }

// LinkTo returns a block that links to a resource. A client older than 2025-06-18 receives it as
// text.
func LinkTo(r Resource) Content { return Content{Kind: KindLink, Link: &r} }

// A ToolUse is a model's request to call a tool.
type ToolUse struct {
	ID    string
	Name  string
	Input jsonrpc.Raw // an object
}

// A ToolUseResult is the result of a [ToolUse].
type ToolUseResult struct {
	ToolUseID  string
	Content    []Content
	Structured jsonrpc.Raw
	IsError    bool
}

// ResourceContents are the contents of a resource: Blob if it is not nil, otherwise Text.
type ResourceContents struct {
	URI      string
	MIMEType string
	Text     string
	Blob     []byte // base64 on the wire
	Meta     Meta
}

// AppendJSON appends the JSON text of the block to dst.
func (c Content) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"type":`...)
	dst = jsonrpc.AppendString(dst, c.Kind)
	var err error
	switch c.Kind {
	case KindText:
		dst = jsonrpc.AppendString(append(dst, `,"text":`...), c.Text)
	case KindImage, KindAudio:
		dst = appendBytes(append(dst, `,"data":`...), c.Data)
		dst = jsonrpc.AppendString(append(dst, `,"mimeType":`...), c.MIMEType)
	case KindResource:
		if c.Resource == nil {
			return dst, fmt.Errorf("mcp: content of kind %q needs Resource", c.Kind)
		}
		dst, err = c.Resource.AppendJSON(append(dst, `,"resource":`...))
	case KindLink:
		if c.Link == nil {
			return dst, fmt.Errorf("mcp: content of kind %q needs Link", c.Kind)
		}
		link := *c.Link
		if link.Meta == nil {
			link.Meta = c.Meta
		}
		if link.Annotations == nil {
			link.Annotations = c.Annotations
		}
		var body jsonrpc.Raw
		if body, err = encode(link); err == nil {
			dst = append(append(dst, ','), body[1:]...)
		}
		return dst, err
	case KindToolUse:
		if c.Use == nil {
			return dst, fmt.Errorf("mcp: content of kind %q needs Use", c.Kind)
		}
		dst = jsonrpc.AppendString(append(dst, `,"id":`...), c.Use.ID)
		dst = jsonrpc.AppendString(append(dst, `,"name":`...), c.Use.Name)
		input := c.Use.Input
		if input == nil {
			input = empty
		}
		dst = append(append(dst, `,"input":`...), input...)
	case KindToolResult:
		if c.Result == nil {
			return dst, fmt.Errorf("mcp: content of kind %q needs Result", c.Kind)
		}
		dst = jsonrpc.AppendString(append(dst, `,"toolUseId":`...), c.Result.ToolUseID)
		if dst, err = appendBlocks(append(dst, `,"content":`...), c.Result.Content); err != nil {
			return dst, err
		}
		if c.Result.Structured != nil {
			dst = append(append(dst, `,"structuredContent":`...), c.Result.Structured...)
		}
		if c.Result.IsError {
			dst = append(dst, `,"isError":true`...)
		}
	default:
		return dst, fmt.Errorf("mcp: content of unknown kind %q", c.Kind)
	}
	if err == nil && c.Annotations != nil {
		dst, err = appendValue(append(dst, `,"annotations":`...), c.Annotations)
	}
	if err == nil && c.Meta != nil {
		dst, err = appendValue(append(dst, `,"_meta":`...), c.Meta)
	}
	return append(dst, '}'), err
}

// appendBlocks appends an array of blocks.
func appendBlocks(dst []byte, blocks []Content) (_ []byte, err error) {
	dst = append(dst, '[')
	for i := range blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = blocks[i].AppendJSON(dst); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func appendBytes(dst, data []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// MarshalJSON encodes the block.
func (c Content) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes a block. For an unknown kind it sets only Kind, Annotations and Meta.
func (c *Content) UnmarshalJSON(text []byte) error {
	var in struct {
		Type        string            `json:"type"`
		Text        string            `json:"text"`
		Data        []byte            `json:"data"`
		MIMEType    string            `json:"mimeType"`
		Resource    *ResourceContents `json:"resource"`
		ID          string            `json:"id"`
		Name        string            `json:"name"`
		Input       jsonrpc.Raw       `json:"input"`
		ToolUseID   string            `json:"toolUseId"`
		Content     []Content         `json:"content"`
		Structured  jsonrpc.Raw       `json:"structuredContent"`
		IsError     bool              `json:"isError"`
		Annotations *Annotations      `json:"annotations"`
		Meta        Meta              `json:"_meta"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*c = Content{Kind: in.Type, Annotations: in.Annotations, Meta: in.Meta}
	switch in.Type {
	case KindText:
		c.Text = in.Text
	case KindImage, KindAudio:
		c.Data, c.MIMEType = in.Data, in.MIMEType
	case KindResource:
		if in.Resource == nil {
			return fmt.Errorf("mcp: content of kind %q needs resource", in.Type)
		}
		c.Resource = in.Resource
	case KindLink:
		c.Link = new(Resource)
		return jsonrpc.Raw(text).Decode(c.Link)
	case KindToolUse:
		c.Use = &ToolUse{ID: in.ID, Name: in.Name, Input: in.Input}
	case KindToolResult:
		c.Result = &ToolUseResult{ToolUseID: in.ToolUseID, Content: in.Content, Structured: in.Structured, IsError: in.IsError}
	case "":
		return fmt.Errorf("mcp: content needs a type")
	}
	return nil
}

// AppendJSON appends the JSON text of the contents to dst.
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

// UnmarshalJSON decodes the contents.
func (r *ResourceContents) UnmarshalJSON(text []byte) error {
	var in struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     string  `json:"text"`
		Blob     *string `json:"blob"`
		Meta     Meta    `json:"_meta"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*r = ResourceContents{URI: in.URI, MIMEType: in.MIMEType, Text: in.Text, Meta: in.Meta}
	if in.Blob != nil {
		blob, err := base64.StdEncoding.DecodeString(*in.Blob)
		if err != nil {
			return fmt.Errorf("mcp: blob of %s: %w", in.URI, err)
		}
		r.Blob = append([]byte{}, blob...) // not nil, even if empty
	}
	return nil
}

// forVersion returns blocks in a form that a peer of version v supports.
func forVersion(blocks []Content, v Version) []Content {
	if v.HasResourceLinks() {
		return blocks
	}
	var changed []Content
	for i, c := range blocks {
		switch {
		case c.Kind == KindLink && c.Link != nil:
			c = Content{Kind: KindText, Text: c.Link.Name + " <" + c.Link.URI + ">", Annotations: c.Annotations}
		case c.Kind == KindAudio && !v.HasAudio():
			c = Embed(ResourceContents{URI: "data:" + c.MIMEType, MIMEType: c.MIMEType, Blob: append([]byte{}, c.Data...)})
		default:
			continue
		}
		if changed == nil {
			changed = append([]Content{}, blocks...)
		}
		changed[i] = c
	}
	if changed == nil {
		return blocks
	}
	return changed
}
