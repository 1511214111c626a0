package acp

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Extra holds members that this package does not define, so that a forwarded object stays complete.
// It may be nil.
type Extra = map[string]jsonrpc.Raw

// Roles of a message. An agent with a name has the role "agent/NAME", see [AgentRole].
const (
	RoleUser  = "user"
	RoleAgent = "agent"
)

// AgentRole returns the role of the agent with this name.
func AgentRole(name string) string { return RoleAgent + "/" + name }

// A Message is a message of a user or an agent: one or more parts, in order (ACP 0.2.0,
// components/schemas/Message).
type Message struct {
	Role      string        `json:"role"`
	Parts     []MessagePart `json:"parts"`
	CreatedAt time.Time     `json:"created_at,omitzero"`
	// zero while the message is being written
	CompletedAt time.Time `json:"completed_at,omitzero"`

	Extra Extra `json:",embed"`
}

// UserMessage returns a user's message with the given parts.
func UserMessage(parts ...MessagePart) Message { return Message{Role: RoleUser, Parts: parts} }

// Text returns the text of all text parts that are not artifacts.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Name == "" && p.isText() {
			b.WriteString(p.Content)
		}
	}
	return b.String()
}

// textOf returns the text of all messages. A peer chooses how many there are.
func textOf(messages []Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Text())
	}
	return b.String()
}

// Ask returns the input of a run with one text.
func Ask(text string) []Message { return []Message{UserMessage(Text(text))} }

// Encodings of a part's content.
const (
	EncodingPlain  = "plain"
	EncodingBase64 = "base64"
)

// A MessagePart is a piece of a message: content, a URL of content, or neither. A part with a name
// is an artifact (ACP 0.2.0, components/schemas/MessagePart).
type MessagePart struct {
	Name string `json:"name,omitzero"`
	// a MIME type; "text/plain" if empty or missing
	ContentType     string        `json:"content_type"`
	Content         string        `json:"content,omitzero"`
	ContentEncoding string        `json:"content_encoding,omitzero"` // empty means [EncodingPlain]
	ContentURL      string        `json:"content_url,omitzero"`      // never together with Content
	Metadata        *PartMetadata `json:"metadata,omitzero"`

	Extra Extra `json:",embed"`
}

// typeText is the content type of plain text, which is the default.
const typeText = "text/plain"

// Text returns a part of plain text.
func Text(s string) MessagePart { return MessagePart{ContentType: typeText, Content: s} }

// Bytes returns a part with any content, encoded as base64.
func Bytes(contentType string, data []byte) MessagePart {
	return MessagePart{ContentType: contentType, Content: base64.StdEncoding.EncodeToString(data), ContentEncoding: EncodingBase64}
}

// Data returns the decoded content.
func (p MessagePart) Data() ([]byte, error) {
	if p.ContentEncoding == EncodingBase64 {
		return base64.StdEncoding.DecodeString(p.Content)
	}
	return []byte(p.Content), nil
}

func (p MessagePart) isText() bool {
	return p.ContentEncoding != EncodingBase64 && (p.ContentType == "" || strings.HasPrefix(p.ContentType, "text/"))
}

// Kinds of metadata of a part.
const (
	KindCitation   = "citation"
	KindTrajectory = "trajectory"
)

// PartMetadata describes the origin of a part: a citation, or a step of the agent (ACP 0.2.0,
// components/schemas/CitationMetadata and TrajectoryMetadata). Members of other kinds are in Extra.
type PartMetadata struct {
	Kind string `json:"kind"`

	// Members of a citation. The indexes count the characters of all text in the message.
	StartIndex  *int   `json:"start_index,omitzero"`
	EndIndex    *int   `json:"end_index,omitzero"`
	URL         string `json:"url,omitzero"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`

	// Members of a trajectory. Input and output of the tool are objects.
	Message    string      `json:"message,omitzero"`
	ToolName   string      `json:"tool_name,omitzero"`
	ToolInput  jsonrpc.Raw `json:"tool_input,omitzero"`
	ToolOutput jsonrpc.Raw `json:"tool_output,omitzero"`

	Extra Extra `json:",embed"`
}
