package mcp

import (
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Tool is a function that a model may call. Name may contain A-Z a-z 0-9 _ - . / and has at most
// 128 characters.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"` // since 2025-06-18
	Description string `json:"description,omitzero"`

	// InputSchema and OutputSchema are JSON Schemas (2020-12 unless they declare draft-07), sent
	// unchanged. If one is nil, [AddTool] derives it from the Go type. An input schema has type
	// object, and may contain x-mcp-header; see header.go.
	InputSchema jsonrpc.Raw `json:"inputSchema"`
	// since 2025-06-18; before 2026-07-28 only schemas of type object are sent
	OutputSchema jsonrpc.Raw `json:"outputSchema,omitzero"`

	Annotations *ToolAnnotations `json:"annotations,omitzero"` // since 2025-03-26
	Icons       []Icon           `json:"icons,omitzero"`       // since 2025-11-25
	// 2025-11-25 only; set by the server according to Task
	Execution *ToolExecution `json:"execution,omitzero"`
	Meta      Meta           `json:"_meta,omitzero"`

	// Task controls whether a call may become a task: from the start, or with TaskLate when the
	// handler calls [Request.StartTask]. Neither is on the wire.
	Task     TaskSupport `json:"-"`
	TaskLate bool        `json:"-"`
}

// ToolAnnotations are hints about a tool and must not be trusted. If a hint is missing, the tool is
// assumed to be destructive, not idempotent and open-world.
type ToolAnnotations struct {
	Title           string `json:"title,omitzero"`
	ReadOnlyHint    bool   `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool  `json:"destructiveHint,omitzero"`
	IdempotentHint  bool   `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool  `json:"openWorldHint,omitzero"`
}

// ToolExecution declares in 2025-11-25 whether a tool may run as a task.
type ToolExecution struct {
	TaskSupport string `json:"taskSupport,omitzero"` // "forbidden", "optional" or "required"
}

// A ToolResult is the result of a tool call.
type ToolResult struct {
	Content []Content

	// Structured is the result as JSON, since 2025-06-18. Before 2026-07-28 only objects are sent;
	// another value is sent as {"result": …} if its schema can be wrapped. If Content is nil, the
	// text of Structured is also sent as content.
	Structured jsonrpc.Raw

	IsError bool // the tool failed, and Content describes the failure
	Meta    Meta
}

// TextResult returns a result with one text block.
func TextResult(text string) *ToolResult { return &ToolResult{Content: []Content{Text(text)}} }

// AppendJSON appends the JSON text of the result to dst.
func (r *ToolResult) AppendJSON(dst []byte) (_ []byte, err error) {
	dst = append(dst, `{"content":`...)
	if r.Content == nil && r.Structured != nil {
		dst = jsonrpc.AppendString(append(dst, `[{"type":"text","text":`...), string(r.Structured))
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

// MarshalJSON encodes the result.
func (r *ToolResult) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes a result.
func (r *ToolResult) UnmarshalJSON(text []byte) error { return r.ParseJSON(text) }

// Text returns the text of all text blocks, separated by newlines.
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
	NextCursor *string `json:"nextCursor,omitzero"` // nil on the last page; "" is a valid cursor
	Caching
	Meta Meta `json:"_meta,omitzero"`
}

// ListParams are the params of the list methods.
type ListParams struct {
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`

	fetched *int // if not nil, list adds the bytes of the result to it
}
