package mcp

import (
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Tool is something that a model may call. Name may hold any of A-Z a-z 0-9 _ - . / up to 128 characters.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"` // from 2025-06-18
	Description string `json:"description,omitzero"`

	// InputSchema and OutputSchema are JSON Schemas (2020-12 unless they say draft-07), sent as they are. [AddTool] makes those that
	// are nil of its Go types. An input schema has type object, and may carry x-mcp-header; see header.go.
	InputSchema  jsonrpc.Raw `json:"inputSchema"`
	OutputSchema jsonrpc.Raw `json:"outputSchema,omitzero"` // from 2025-06-18; before 2026-07-28 only one of type object is sent

	Annotations *ToolAnnotations `json:"annotations,omitzero"` // from 2025-03-26
	Icons       []Icon           `json:"icons,omitzero"`       // from 2025-11-25
	Execution   *ToolExecution   `json:"execution,omitzero"`   // 2025-11-25; the server writes it, by Task
	Meta        Meta             `json:"_meta,omitzero"`

	// Task says whether a call may go on as a task: from the start, or with TaskLate from where the handler calls [Request.StartTask].
	// Neither is on the wire.
	Task     TaskSupport `json:"-"`
	TaskLate bool        `json:"-"`
}

// ToolAnnotations are hints about a tool, not to be trusted. A nil hint says nothing: then the tool counts as one that may
// destroy, is not idempotent and reaches the open world.
type ToolAnnotations struct {
	Title           string `json:"title,omitzero"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool  `json:"destructiveHint,omitzero"`
	IdempotentHint  bool   `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitzero"`
}

// ToolExecution says in 2025-11-25 whether a tool may run as a task.
type ToolExecution struct {
	TaskSupport string `json:"taskSupport,omitzero"` // "forbidden", "optional" or "required"
}

// A ToolResult is what a call of a tool gives.
type ToolResult struct {
	Content []Content

	// Structured is the result as JSON, from 2025-06-18; before 2026-07-28 only an object is sent. When Content is nil, its text
	// stands there too.
	Structured jsonrpc.Raw

	IsError bool // the tool failed, and Content says why
	Meta    Meta
}

// TextResult makes a result of one text.
func TextResult(text string) *ToolResult { return &ToolResult{Content: []Content{Text(text)}} }

// AppendJSON writes the result.
func (r *ToolResult) AppendJSON(dst []byte) (_ []byte, err error) {
	dst = append(dst, `{"content":`...)
	if r.Content == nil && r.Structured != nil {
		dst = appendString(append(dst, `[{"type":"text","text":`...), string(r.Structured))
		dst = append(dst, `}]`...)
	} else if dst, err = appendBlocks(dst, r.Content); err != nil {
		return dst, err
	}
	if r.Structured != nil {
		dst = append(append(dst, `,"structuredContent":`...), r.Structured...)
	}
	if r.IsError {
		dst = append(dst, `,"isError":true`...)
	}
	if r.Meta != nil {
		dst, err = appendValue(append(dst, `,"_meta":`...), r.Meta)
	}
	return append(dst, '}'), err
}

// MarshalJSON writes the result.
func (r *ToolResult) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON reads a result.
func (r *ToolResult) UnmarshalJSON(text []byte) error { return r.ParseJSON(text) }

// Text returns all text of the result, a newline between blocks.
func (r *ToolResult) Text() string {
	var out []byte
	for _, c := range r.Content {
		if c.Kind == KindText {
			if out != nil {
				out = append(out, '\n')
			}
			out = append(out, c.Text...)
		}
	}
	return string(out)
}

// ListToolsResult is one page of tools.
type ListToolsResult struct {
	Tools      []Tool  `json:"tools"`
	NextCursor *string `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// ListParams are the params of the methods that list.
type ListParams struct {
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
}
