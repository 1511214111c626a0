package agent

import (
	"maps"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Metadata holds protocol data that this package has no field for: members with their JSON text.
// Keys are "acp/…", "a2a/…", "editor/…" and "mcp/…" for data from these protocols, "parley/…" for
// data that this package adds to a protocol, and any other key for the application.
type Metadata map[string]jsonrpc.Raw

// With returns a copy in which key is the JSON text of v. It panics if v does not encode as JSON.
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

// Merge returns a copy with the members of more added, which take precedence. If more is empty, it
// returns m itself.
func (m Metadata) Merge(more Metadata) Metadata {
	if len(more) == 0 {
		return m
	}
	c := make(Metadata, len(m)+len(more))
	maps.Copy(c, m)
	maps.Copy(c, more)
	return c
}

// Get decodes the member into v and reports whether the member exists and fits.
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

// A Part is one piece of content: text, bytes, an address or a JSON value. Data, JSON and URL
// determine the kind, in this order, if set; otherwise it is Text.
type Part struct {
	Text string      `json:"text,omitzero"`
	Data []byte      `json:"data,omitzero"`
	URL  string      `json:"url,omitzero"`
	JSON jsonrpc.Raw `json:"json,omitzero"`

	// Name makes the part a piece of a named result, an artifact. Parts with the same name belong
	// together.
	Name string `json:"name,omitzero"`

	MediaType string   `json:"mediaType,omitzero"` // if empty, see Type
	Filename  string   `json:"filename,omitzero"`
	Metadata  Metadata `json:"metadata,omitzero"`
}

// Text returns a text part.
func Text(text string) Part { return Part{Text: text} }

// Bytes returns a part with bytes of a media type such as "image/png".
func Bytes(mediaType string, data []byte) Part {
	return Part{MediaType: mediaType, Data: append([]byte{}, data...)}
}

// LinkTo returns a part that refers to content at a URL.
func LinkTo(mediaType, url string) Part { return Part{MediaType: mediaType, URL: url} }

// Value returns a part with the JSON text of v. It panics if v does not encode as JSON.
func Value(v any) Part {
	text, err := encode(v)
	if err != nil {
		panic("agent: " + err.Error())
	}
	return Part{JSON: text}
}

// Named returns a copy of the part that belongs to the artifact with this name.
func (p Part) Named(name string) Part {
	p.Name = name
	return p
}

// IsText reports whether the part is text.
func (p *Part) IsText() bool { return p.Data == nil && p.JSON == nil && p.URL == "" }

// Type returns the media type, or the default for the kind of part if it is empty.
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

// String returns the text of a part: its Text, its JSON or its URL. For bytes it returns "".
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

// Join appends more to parts and merges adjacent text that belongs together. Each call copies the
// text that it continues; for output that arrives in many parts, use an [Output].
func Join(parts []Part, more ...Part) []Part {
	o := Output{parts: parts}
	o.join(more)
	return o.Parts()
}

// continues reports whether p continues the text of q.
func (p *Part) continues(q *Part) bool {
	return p.IsText() && q.IsText() && p.Name == q.Name && p.MediaType == q.MediaType && p.Filename == q.Filename && p.Metadata == nil && q.Metadata == nil
}

// The roles of messages.
const (
	RoleUser  = "user"
	RoleAgent = "agent"
)

// A Message is one message of the user or of an agent.
type Message struct {
	// Role is RoleUser, or RoleAgent, optionally followed by a slash and the agent's name.
	Role     string   `json:"role"`
	Parts    []Part   `json:"parts"`
	Metadata Metadata `json:"metadata,omitzero"`
}

// User returns an input with one user message of these parts.
func User(parts ...Part) []Message { return []Message{{Role: RoleUser, Parts: parts}} }

// Prompt returns an input with this text.
func Prompt(text string) []Message { return User(Text(text)) }

// LastTurn returns the last messages of the user: those after the last message of an agent, or all
// of the input if no such messages exist.
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
