package editor

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A ToolKind says what sort of thing a tool does, so that a client can choose a picture.
type ToolKind string

// The kinds of tools. Others may come.
const (
	ToolRead       ToolKind = "read"
	ToolEdit       ToolKind = "edit"
	ToolDelete     ToolKind = "delete"
	ToolMove       ToolKind = "move"
	ToolSearch     ToolKind = "search"
	ToolExecute    ToolKind = "execute"
	ToolThink      ToolKind = "think"
	ToolFetch      ToolKind = "fetch"
	ToolSwitchMode ToolKind = "switch_mode"
	ToolOther      ToolKind = "other"
)

// A ToolStatus says how far a tool call, or a step of a plan, is.
type ToolStatus string

// The statuses.
const (
	StatusPending    ToolStatus = "pending"
	StatusInProgress ToolStatus = "in_progress"
	StatusCompleted  ToolStatus = "completed"
	StatusFailed     ToolStatus = "failed"
)

// A ToolCall is something that the agent does, as it shows it to the client (Agent Client Protocol v1, Tool Calls). The same type is the news about
// one: then ID alone is required, what is zero stays as it was, and a Content or Locations that is empty but not nil takes the old ones away.
type ToolCall struct {
	ID        string         `json:"toolCallId"` // unique in its session
	Title     string         `json:"title,omitzero"`
	Name      string         `json:"name,omitzero"` // of the tool, for programs
	Kind      ToolKind       `json:"kind,omitzero"`
	Status    ToolStatus     `json:"status,omitzero"`
	Content   []ToolContent  `json:"content,omitzero"`
	Locations []ToolLocation `json:"locations,omitzero"`
	RawInput  jsonrpc.Raw    `json:"rawInput,omitzero"`
	RawOutput jsonrpc.Raw    `json:"rawOutput,omitzero"`
	Meta      Meta           `json:"_meta,omitzero"`
	Extra     Meta           `json:",embed"`
}

// A ToolLocation is a place in a file that a tool works at.
type ToolLocation struct {
	Path string `json:"path"`          // absolute
	Line *int   `json:"line,omitzero"` // from 1
	Meta Meta   `json:"_meta,omitzero"`
}

// Kinds of what a tool call shows.
const (
	ShowContent  = "content"  // Content
	ShowDiff     = "diff"     // Diff
	ShowTerminal = "terminal" // TerminalID
)

// ToolContent is something that a tool call shows. Kind decides which of the other members count.
type ToolContent struct {
	Kind       string
	Content    *Content
	Diff       *Diff
	TerminalID string
	Meta       Meta

	// Raw is the whole of it when its Kind is none of the above.
	Raw jsonrpc.Raw
}

// A Diff is a change of a file.
type Diff struct {
	Path    string  `json:"path"`             // absolute
	OldText *string `json:"oldText,omitzero"` // nil for a new file
	NewText string  `json:"newText"`
	Meta    Meta    `json:"_meta,omitzero"`
}

// Shown makes what a tool call shows of a block.
func Shown(c Content) ToolContent { return ToolContent{Kind: ShowContent, Content: &c} }

// Changed makes what a tool call shows of a file that it changes.
func Changed(d Diff) ToolContent { return ToolContent{Kind: ShowDiff, Diff: &d} }

// AppendJSON writes it.
func (t ToolContent) AppendJSON(dst []byte) ([]byte, error) {
	switch {
	case t.Raw != nil:
		return append(dst, t.Raw...), nil
	case t.Kind == ShowContent && t.Content != nil:
		return appendTagged(dst, "type", t.Kind, struct {
			Content *Content `json:"content"`
			Meta    Meta     `json:"_meta,omitzero"`
		}{t.Content, t.Meta})
	case t.Kind == ShowDiff && t.Diff != nil:
		return appendTagged(dst, "type", t.Kind, *t.Diff)
	case t.Kind == ShowTerminal:
		return appendTagged(dst, "type", t.Kind, struct {
			TerminalID string `json:"terminalId"`
			Meta       Meta   `json:"_meta,omitzero"`
		}{t.TerminalID, t.Meta})
	}
	return dst, fmt.Errorf("editor: tool content of kind %q without what belongs to it", t.Kind)
}

// MarshalJSON writes it.
func (t ToolContent) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON reads it. One of an unknown kind keeps its Kind and its text in Raw.
func (t *ToolContent) UnmarshalJSON(text []byte) error {
	var in struct {
		Type       string      `json:"type"`
		Content    jsonrpc.Raw `json:"content"`
		TerminalID string      `json:"terminalId"`
		Meta       Meta        `json:"_meta"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*t = ToolContent{Kind: in.Type, Meta: in.Meta}
	switch in.Type {
	case ShowContent:
		if in.Content == nil {
			return errors.New("editor: tool content without content")
		}
		t.Content = new(Content)
		return in.Content.Decode(t.Content)
	case ShowDiff:
		t.Diff = new(Diff)
		err := jsonrpc.Raw(text).Decode(t.Diff)
		return err
	case ShowTerminal:
		t.TerminalID = in.TerminalID
	default:
		t.Raw = jsonrpc.Raw(text).Clone()
	}
	return nil
}

// An OptionKind says what choosing a [PermissionOption] means.
type OptionKind string

// The kinds of options.
const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
)

// A PermissionOption is one of the answers that a user can choose.
type PermissionOption struct {
	ID   string     `json:"optionId"`
	Name string     `json:"name"` // what the user reads
	Kind OptionKind `json:"kind"`
	Meta Meta       `json:"_meta,omitzero"`
}

// PermissionParams ask the user whether a tool may run (Agent Client Protocol v1, Tool Calls, Requesting Permission).
type PermissionParams struct {
	SessionID string             `json:"sessionId"`
	ToolCall  ToolCall           `json:"toolCall"`
	Options   []PermissionOption `json:"options"`
	Meta      Meta               `json:"_meta,omitzero"`
}

// What a user did when asked.
const (
	OutcomeSelected  = "selected"
	OutcomeCancelled = "cancelled" // the turn was cancelled meanwhile
)

// A PermissionOutcome is what the user said.
type PermissionOutcome struct {
	Outcome  string `json:"outcome"`           // OutcomeSelected or OutcomeCancelled
	OptionID string `json:"optionId,omitzero"` // of OutcomeSelected
	Meta     Meta   `json:"_meta,omitzero"`
}

// A PermissionResult answers [PermissionParams].
type PermissionResult struct {
	Outcome PermissionOutcome `json:"outcome"`
	Meta    Meta              `json:"_meta,omitzero"`
}

// Select makes the answer of a user who chose an option.
func Select(optionID string) *PermissionResult {
	return &PermissionResult{Outcome: PermissionOutcome{Outcome: OutcomeSelected, OptionID: optionID}}
}

// Allowed reports whether the user chose an option that allows.
func (r *PermissionResult) Allowed(options []PermissionOption) bool {
	if r == nil || r.Outcome.Outcome != OutcomeSelected {
		return false
	}
	for _, o := range options {
		if o.ID == r.Outcome.OptionID {
			return o.Kind == AllowOnce || o.Kind == AllowAlways
		}
	}
	return false
}
