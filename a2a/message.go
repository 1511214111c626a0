package a2a

import (
	"encoding/base64"
	"maps"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Role is the role of a message's sender.
type Role string

// Roles (A2A 1.0.1, section 4.1.5).
const (
	RoleUser  Role = "ROLE_USER"
	RoleAgent Role = "ROLE_AGENT"
)

// Metadata holds additional members that any party may add, each as its JSON text.
type Metadata map[string]jsonrpc.Raw

// With returns a copy in which key is set to the JSON text of v. It panics if v cannot be encoded.
func (m Metadata) With(key string, v any) Metadata {
	c := make(Metadata, len(m)+1)
	maps.Copy(c, m)
	c[key] = mustEncode(v)
	return c
}

// Merge returns a copy with the members of more added, which take precedence. If more is empty, it
// returns m itself. For several members it costs less than With, which copies m each time.
func (m Metadata) Merge(more Metadata) Metadata {
	if len(more) == 0 {
		return m
	}
	c := make(Metadata, len(m)+len(more))
	maps.Copy(c, m)
	return c.add(more)
}

// add adds the members of more to m, which it creates if necessary.
func (m Metadata) add(more Metadata) Metadata {
	if m == nil && len(more) > 0 {
		m = make(Metadata, len(more))
	}
	maps.Copy(m, more)
	return m
}

// Get decodes the member key into v and reports whether it exists and could be decoded.
func (m Metadata) Get(key string, v any) bool {
	raw, ok := m[key]
	return ok && raw.Decode(v) == nil
}

// A Message is one message between a user and an agent (A2A 1.0.1, section 4.1.4).
type Message struct {
	MessageID        string   `json:"messageId"`
	ContextID        string   `json:"contextId,omitzero"`
	TaskID           string   `json:"taskId,omitzero"`
	Role             Role     `json:"role"`
	Parts            []Part   `json:"parts"`
	Metadata         Metadata `json:"metadata,omitempty"`
	Extensions       []string `json:"extensions,omitempty"`
	ReferenceTaskIDs []string `json:"referenceTaskIds,omitempty"`
}

// UserMessage returns a message of a user with a new random id.
func UserMessage(parts ...Part) *Message {
	return &Message{MessageID: newID(), Role: RoleUser, Parts: parts}
}

// Text returns the concatenated text of all text parts.
func (m *Message) Text() string {
	if m == nil {
		return ""
	}
	return TextOf(m.Parts)
}

// TextOf returns the concatenated text of all text parts.
func TextOf(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var out strings.Builder
	for i := range parts {
		out.WriteString(parts[i].Text)
	}
	return out.String()
}

// A Kind is the kind of content of a [Part].
type Kind uint8

// Kinds of parts. The comments name the field of Part that holds the content.
const (
	KindText Kind = iota // Text
	KindRaw              // Raw
	KindURL              // URL
	KindData             // Data
)

var kindNames = [...]string{"text", "raw", "url", "data"}

// String returns the name of the member that holds the content on the wire.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return ""
}

// A Part is one piece of content (A2A 1.0.1, section 4.1.6). Kind determines which of Text, Raw,
// URL and Data is used.
type Part struct {
	Kind Kind
	Text string
	Raw  []byte // base64 on the wire
	URL  string
	Data jsonrpc.Raw // any JSON value

	MediaType string // such as "text/plain"; empty if unknown
	Filename  string
	Metadata  Metadata
}

// Text returns a text part.
func Text(text string) Part { return Part{Text: text} }

// File returns a part with the bytes of a file. mediaType and filename may be empty.
func File(filename, mediaType string, raw []byte) Part {
	return Part{Kind: KindRaw, Raw: raw, MediaType: mediaType, Filename: filename}
}

// URL returns a part that refers to content by its URL.
func URL(url, mediaType string) Part { return Part{Kind: KindURL, URL: url, MediaType: mediaType} }

// Data returns a part with a JSON value. It panics if v cannot be encoded.
func Data(v any) Part { return Part{Kind: KindData, Data: mustEncode(v)} }

// MarshalJSON encodes the part.
func (p Part) MarshalJSON() ([]byte, error) {
	dst := append(append([]byte(`{"`), p.Kind.String()...), `":`...)
	switch p.Kind {
	case KindText:
		dst = jsonrpc.AppendString(dst, p.Text)
	case KindRaw:
		dst = append(base64.StdEncoding.AppendEncode(append(dst, '"'), p.Raw), '"')
	case KindURL:
		dst = jsonrpc.AppendString(dst, p.URL)
	case KindData:
		if p.Data == nil {
			dst = append(dst, "null"...)
		}
		dst = append(dst, p.Data...)
	default:
		return nil, &valueError{"a part of unknown kind"}
	}
	if p.MediaType != "" {
		dst = jsonrpc.AppendString(append(dst, `,"mediaType":`...), p.MediaType)
	}
	if p.Filename != "" {
		dst = jsonrpc.AppendString(append(dst, `,"filename":`...), p.Filename)
	}
	if len(p.Metadata) > 0 {
		more, err := encode(p.Metadata)
		if err != nil {
			return nil, err
		}
		dst = append(append(dst, `,"metadata":`...), more...)
	}
	return append(dst, '}'), nil
}

// UnmarshalJSON decodes a part, which must have exactly one content.
func (p *Part) UnmarshalJSON(text []byte) error {
	var in struct {
		Text      *string     `json:"text"`
		Raw       *string     `json:"raw"`
		URL       *string     `json:"url"`
		Data      jsonrpc.Raw `json:"data"`
		MediaType string      `json:"mediaType"`
		Filename  string      `json:"filename"`
		Metadata  Metadata    `json:"metadata"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	out := Part{MediaType: in.MediaType, Filename: in.Filename, Metadata: in.Metadata}
	contents := 0
	if in.Text != nil {
		contents++
		out.Text = *in.Text
	}
	if in.Raw != nil {
		contents++
		raw, err := decodeBase64(*in.Raw)
		if err != nil {
			return &valueError{"raw is not base64"}
		}
		out.Kind, out.Raw = KindRaw, raw
	}
	if in.URL != nil {
		contents++
		out.Kind, out.URL = KindURL, *in.URL
	}
	// A null beside other content counts as absent.
	if in.Data != nil && (contents == 0 || string(in.Data) != "null") {
		contents++
		out.Kind, out.Data = KindData, in.Data
	}
	if contents != 1 {
		return &valueError{"a part must have exactly one of text, raw, url and data"}
	}
	*p = out
	return nil
}

// decodeBase64 accepts both alphabets, with and without padding, as ProtoJSON does.
func decodeBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	return base64.RawStdEncoding.DecodeString(text)
}

// A Timestamp is a point in time, encoded in UTC with milliseconds (A2A 1.0.1, section 5.6.1). Any
// RFC 3339 text is accepted.
type Timestamp struct{ time.Time }

// MarshalJSON encodes the time.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000Z"`), nil
}

// UnmarshalJSON decodes the time. The empty string is the zero time.
func (t *Timestamp) UnmarshalJSON(text []byte) error {
	var s string
	if err := jsonrpc.Raw(text).Decode(&s); err != nil {
		return &valueError{"want a time"}
	}
	if s == "" {
		*t = Timestamp{}
		return nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return &valueError{"want a time such as 2026-01-02T15:04:05.000Z"}
	}
	t.Time = at
	return nil
}
