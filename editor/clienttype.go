package editor

import "github.com/da1ed7bb/parley/jsonrpc"

// ReadTextFileParams requests a file in its current state in the editor, including unsaved changes
// (Agent Client Protocol v1, File System).
type ReadTextFileParams struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"`           // absolute
	Line      int    `json:"line,omitzero"`  // the first line, from 1; zero means 1
	Limit     int    `json:"limit,omitzero"` // lines; zero means all
	Meta      Meta   `json:"_meta,omitzero"`
}

// A ReadTextFileResult holds the text.
type ReadTextFileResult struct {
	Content string `json:"content"`
	Meta    Meta   `json:"_meta,omitzero"`
}

// WriteTextFileParams writes a file, which is created if it does not exist.
type WriteTextFileParams struct {
	SessionID string `json:"sessionId"`
	Path      string `json:"path"` // absolute
	Content   string `json:"content"`
	Meta      Meta   `json:"_meta,omitzero"`
}

// CreateTerminalParams starts a command (Agent Client Protocol v1, Terminals).
type CreateTerminalParams struct {
	SessionID       string     `json:"sessionId"`
	Command         string     `json:"command"`
	Args            []string   `json:"args,omitzero"`
	Env             []Variable `json:"env,omitzero"`
	CWD             string     `json:"cwd,omitzero"`             // absolute
	OutputByteLimit *int64     `json:"outputByteLimit,omitzero"` // older output is dropped
	Meta            Meta       `json:"_meta,omitzero"`
}

// A CreateTerminalResult holds the id of the terminal.
type CreateTerminalResult struct {
	TerminalID string `json:"terminalId"`
	Meta       Meta   `json:"_meta,omitzero"`
}

// TerminalParams identifies a terminal: for output, wait_for_exit, kill and release.
type TerminalParams struct {
	SessionID  string `json:"sessionId"`
	TerminalID string `json:"terminalId"`
	Meta       Meta   `json:"_meta,omitzero"`
}

// A TerminalOutputResult holds the output of a command so far.
type TerminalOutputResult struct {
	Output     string      `json:"output"`
	Truncated  bool        `json:"truncated"`
	ExitStatus *ExitStatus `json:"exitStatus,omitzero"` // nil while it runs
	Meta       Meta        `json:"_meta,omitzero"`
}

// An ExitStatus is the exit status of a command.
type ExitStatus struct {
	ExitCode *int   `json:"exitCode,omitzero"` // nil if a signal ended it
	Signal   string `json:"signal,omitzero"`
	Meta     Meta   `json:"_meta,omitzero"`
}

// Modes of elicitation.
const (
	ElicitForm = "form" // RequestedSchema
	ElicitURL  = "url"  // ElicitationID, URL
)

// ElicitParams requests input from the user, other than a permission: in a session, or for one
// request outside of any session.
type ElicitParams struct {
	Mode            string     `json:"mode"`
	Message         string     `json:"message"`
	SessionID       string     `json:"sessionId,omitzero"`
	ToolCallID      string     `json:"toolCallId,omitzero"`
	RequestID       jsonrpc.ID `json:"requestId,omitzero"` // instead of SessionID
	RequestedSchema *Form      `json:"requestedSchema,omitzero"`
	ElicitationID   string     `json:"elicitationId,omitzero"`
	URL             string     `json:"url,omitzero"`
	Meta            Meta       `json:"_meta,omitzero"`
	Extra           Meta       `json:",embed"` // of modes that version 1 does not define
}

// A Form describes the input of the user: a JSON Schema of an object with flat members.
type Form struct {
	Type        string           `json:"type"` // "object"
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	Properties  map[string]Field `json:"properties"`
	Required    []string         `json:"required,omitzero"`
	Meta        Meta             `json:"_meta,omitzero"`
}

// A Field is one member of a [Form].
type Field struct {
	Type        string       `json:"type"` // "string", "number", "integer", "boolean" or "array"
	Title       string       `json:"title,omitzero"`
	Description string       `json:"description,omitzero"`
	MinLength   *int         `json:"minLength,omitzero"` // string
	MaxLength   *int         `json:"maxLength,omitzero"`
	Pattern     string       `json:"pattern,omitzero"`
	Format      string       `json:"format,omitzero"`  // "email", "uri", "date" or "date-time"
	Enum        []string     `json:"enum,omitzero"`    // one of these
	OneOf       []EnumOption `json:"oneOf,omitzero"`   // one of these, with titles
	Minimum     *float64     `json:"minimum,omitzero"` // number and integer
	Maximum     *float64     `json:"maximum,omitzero"`
	MinItems    *int         `json:"minItems,omitzero"` // array
	MaxItems    *int         `json:"maxItems,omitzero"`
	Items       *Items       `json:"items,omitzero"`
	Default     jsonrpc.Raw  `json:"default,omitzero"`
	Meta        Meta         `json:"_meta,omitzero"`
	Extra       Meta         `json:",embed"`
}

// Items describes the values of a multiple choice.
type Items struct {
	Type  string       `json:"type,omitzero"` // "string"
	Enum  []string     `json:"enum,omitzero"`
	AnyOf []EnumOption `json:"anyOf,omitzero"`
	Meta  Meta         `json:"_meta,omitzero"`
	Extra Meta         `json:",embed"`
}

// An EnumOption is a value with a title.
type EnumOption struct {
	Const       string `json:"const"`
	Title       string `json:"title"`
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
}

// Actions of a user in response to an elicitation.
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// An ElicitResult is the user's response to an elicitation.
type ElicitResult struct {
	Action string `json:"action"`
	// of ActionAccept: strings, numbers, booleans, arrays of strings
	Content map[string]jsonrpc.Raw `json:"content,omitzero"`
	Meta    Meta                   `json:"_meta,omitzero"`
	Extra   Meta                   `json:",embed"`
}

// ElicitDoneParams reports that the user has completed what the URL was for.
type ElicitDoneParams struct {
	ElicitationID string `json:"elicitationId"`
	Meta          Meta   `json:"_meta,omitzero"`
}
