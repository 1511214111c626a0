package agent

import (
	"maps"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Metadata is what a protocol says that this package has no field for: members with their JSON text. Keys are "acp/…", "a2a/…", "editor/…" and
// "mcp/…" for what came from there, "parley/…" for what this package puts into a protocol, and whatever others use.
type Metadata map[string]jsonrpc.Raw

// With returns a copy in which key has the JSON text of v. It panics if v has none.
func (m Metadata) With(key string, v any) Metadata {
	text, err := encode(v)
	if err != nil {
		panic("agent: " + err.Error())
	}
	c := make(Metadata, len(m)+1)
	maps.Copy(c, m)
	c[key] = text
	return c
}

// Merge returns a copy with the members of more in it, which win. It is m itself when there are none.
func (m Metadata) Merge(more Metadata) Metadata {
	if len(more) == 0 {
		return m
	}
	c := make(Metadata, len(m)+len(more))
	maps.Copy(c, m)
	maps.Copy(c, more)
	return c
}

// Get decodes the member into v and reports whether there is one that fits.
func (m Metadata) Get(key string, v any) bool {
	raw, ok := m[key]
	return ok && raw.Decode(v) == nil
}

// encode returns the JSON text of v; equal values give equal bytes.
func encode(v any) (jsonrpc.Raw, error) {
	switch v := v.(type) {
	case jsonrpc.Raw:
		return v, nil
	case jsonrpc.Appender:
		return v.AppendJSON(nil)
	}
	return json.Marshal(v, json.Deterministic(true))
}

// A Part is one piece of content: text, bytes, an address or a JSON value. Data, JSON and URL decide, in this order, when they are there; else it is Text.
type Part struct {
	Text string      `json:"text,omitzero"`
	Data []byte      `json:"data,omitzero"`
	URL  string      `json:"url,omitzero"`
	JSON jsonrpc.Raw `json:"json,omitzero"`

	// Name makes the part a piece of a result that has a name, an artifact. Parts with one name belong together.
	Name string `json:"name,omitzero"`

	MediaType string   `json:"mediaType,omitzero"` // "" means what Type says
	Filename  string   `json:"filename,omitzero"`
	Metadata  Metadata `json:"metadata,omitzero"`
}

// Text makes a part of text.
func Text(text string) Part { return Part{Text: text} }

// Bytes makes a part of bytes, such as of "image/png".
func Bytes(mediaType string, data []byte) Part {
	return Part{MediaType: mediaType, Data: append([]byte{}, data...)}
}

// LinkTo makes a part that says where the content is.
func LinkTo(mediaType, url string) Part { return Part{MediaType: mediaType, URL: url} }

// Value makes a part of the JSON text of v. It panics if v has none.
func Value(v any) Part {
	text, err := encode(v)
	if err != nil {
		panic("agent: " + err.Error())
	}
	return Part{JSON: text}
}

// Named returns the part as a piece of the artifact with this name.
func (p Part) Named(name string) Part {
	p.Name = name
	return p
}

// IsText reports whether the part is text.
func (p *Part) IsText() bool { return p.Data == nil && p.JSON == nil && p.URL == "" }

// Type returns the media type, and what stands for a missing one.
func (p *Part) Type() string {
	switch {
	case p.MediaType != "":
		return p.MediaType
	case p.Data != nil:
		return "application/octet-stream"
	case p.JSON != nil:
		return "application/json"
	case p.URL != "":
		return "application/octet-stream"
	}
	return "text/plain"
}

// String returns the text of a part: its Text, its JSON or its URL. Bytes have none.
func (p *Part) String() string {
	switch {
	case p.Data != nil:
		return ""
	case p.JSON != nil:
		return string(p.JSON)
	case p.URL != "":
		return p.URL
	}
	return p.Text
}

// TextOf joins the text of all parts.
func TextOf(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].String()
	}
	var b strings.Builder
	for i := range parts {
		b.WriteString(parts[i].String())
	}
	return b.String()
}

// Join adds more to parts, and makes one of text that follows on text.
func Join(parts []Part, more ...Part) []Part {
	for _, p := range more {
		if n := len(parts); n > 0 && p.continues(&parts[n-1]) {
			parts[n-1].Text += p.Text
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// continues reports whether p goes on with the text of q.
func (p *Part) continues(q *Part) bool {
	return p.IsText() && q.IsText() && p.Name == q.Name && p.MediaType == q.MediaType && p.Filename == q.Filename && p.Metadata == nil && q.Metadata == nil
}

// The roles of messages.
const (
	RoleUser  = "user"
	RoleAgent = "agent"
)

// A Message is what one side said.
type Message struct {
	Role     string   `json:"role"` // RoleUser, or RoleAgent with perhaps a slash and its name behind it
	Parts    []Part   `json:"parts"`
	Metadata Metadata `json:"metadata,omitzero"`
}

// User makes the input that holds these parts.
func User(parts ...Part) []Message { return []Message{{Role: RoleUser, Parts: parts}} }

// Prompt makes the input that is this text.
func Prompt(text string) []Message { return User(Text(text)) }

// LastTurn returns what the user said last: the messages of the user behind the last one of an agent, and all of the input if there are none.
func LastTurn(input []Message) []Message {
	from := len(input)
	for from > 0 && input[from-1].Role == RoleUser {
		from--
	}
	if from == len(input) {
		return input
	}
	return input[from:]
}
