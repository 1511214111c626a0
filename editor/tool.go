package editor

import (
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A ToolKind is the category of a tool, so that a client can select an icon.
type ToolKind string

// The kinds of tools. The protocol may add others.
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

// A ToolStatus is the status of a tool call, or of a step of a plan.
type ToolStatus string

// The statuses.
const (
	StatusPending    ToolStatus = "pending"
	StatusInProgress ToolStatus = "in_progress"
	StatusCompleted  ToolStatus = "completed"
	StatusFailed     ToolStatus = "failed"
)

// A ToolCall is an action of the agent, for display in the client (Agent Client Protocol v1, Tool
// Calls). The same type is used for changes of a tool call: then only ID is required, zero fields
// are unchanged, and a Content or Locations that is empty but not nil clears the old ones.
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

// A ToolLocation is a position in a file that a tool works on.
type ToolLocation struct {
	Path string `json:"path"`          // absolute
	Line *int   `json:"line,omitzero"` // from 1
	Meta Meta   `json:"_meta,omitzero"`
}

// Kinds of tool content. The comments name the member of [ToolContent] that each uses.
const (
	ShowContent  = "content"  // Content
	ShowDiff     = "diff"     // Diff
	ShowTerminal = "terminal" // TerminalID
)

// ToolContent is content that a tool call shows. Kind determines which of the other members is
// used.
type ToolContent struct {
	Kind       string
	Content    *Content
	Diff       *Diff
	TerminalID string
	Meta       Meta

	// Raw is the whole content if its Kind is unknown.
	Raw jsonrpc.Raw
}

// A Diff is a change of a file.
type Diff struct {
	Path    string  `json:"path"`             // absolute
	OldText *string `json:"oldText,omitzero"` // nil for a new file
	NewText string  `json:"newText"`
	Meta    Meta    `json:"_meta,omitzero"`
}

// Shown returns tool content with a block.
func Shown(c Content) ToolContent { return ToolContent{Kind: ShowContent, Content: &c} }

// Changed returns tool content with a change of a file.
func Changed(d Diff) ToolContent { return ToolContent{Kind: ShowDiff, Diff: &d} }

// AppendJSON appends the content as JSON to dst.
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
	return dst, fmt.Errorf("editor: tool content of kind %q without its members", t.Kind)
}

// MarshalJSON encodes the content.
func (t ToolContent) MarshalJSON() ([]byte, error) { return t.AppendJSON(nil) }

// UnmarshalJSON decodes the content. If its kind is unknown, Kind and Raw are set.
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

// An OptionKind is the effect of a [PermissionOption].
type OptionKind string

// The kinds of options.
const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
)

// A PermissionOption is one option that a user can select.
type PermissionOption struct {
	ID   string     `json:"optionId"`
	Name string     `json:"name"` // shown to the user
	Kind OptionKind `json:"kind"`
	Meta Meta       `json:"_meta,omitzero"`
}

// PermissionParams requests the user's permission to run a tool (Agent Client Protocol v1, Tool
// Calls, Requesting Permission).
type PermissionParams struct {
	SessionID string             `json:"sessionId"`
	ToolCall  ToolCall           `json:"toolCall"`
	Options   []PermissionOption `json:"options"`
	Meta      Meta               `json:"_meta,omitzero"`
}

// Outcomes of a permission request.
const (
	OutcomeSelected  = "selected"
	OutcomeCancelled = "cancelled" // the turn was cancelled meanwhile
)

// A PermissionOutcome is the user's decision.
type PermissionOutcome struct {
	Outcome  string `json:"outcome"`           // OutcomeSelected or OutcomeCancelled
	OptionID string `json:"optionId,omitzero"` // of OutcomeSelected
	Meta     Meta   `json:"_meta,omitzero"`
}

// A PermissionResult is the response to [PermissionParams].
type PermissionResult struct {
	Outcome PermissionOutcome `json:"outcome"`
	Meta    Meta              `json:"_meta,omitzero"`
}

// Select returns the result for a user who selected an option.
func Select(optionID string) *PermissionResult {
	return &PermissionResult{Outcome: PermissionOutcome{Outcome: OutcomeSelected, OptionID: optionID}}
}

// Allowed reports whether the user selected an option that allows the tool call.
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
