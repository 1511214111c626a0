package editor

import (
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of updates. The comments name the member of [Update] that each uses.
const (
	UserMessageChunk  = "user_message_chunk"        // Chunk
	AgentMessageChunk = "agent_message_chunk"       // Chunk
	AgentThoughtChunk = "agent_thought_chunk"       // Chunk
	ToolCallStarted   = "tool_call"                 // Tool
	ToolCallChanged   = "tool_call_update"          // Tool
	PlanChanged       = "plan"                      // Plan
	CommandsChanged   = "available_commands_update" // Commands
	ModeChanged       = "current_mode_update"       // Mode
	OptionsChanged    = "config_option_update"      // Options
	InfoChanged       = "session_info_update"       // Info
	UsageChanged      = "usage_update"              // Usage
	Noticed           = "notice"                    // Notice; for clients that support notices
	// Compaction; for clients that support compactions
	CompactionChanged = "compaction_update"
	CompactionChunk   = "compaction_summary_chunk" // CompactionText; likewise
)

// An Update is one update of an agent about a session (Agent Client Protocol v1, Prompt Turn). Kind
// determines which of the other members is used.
type Update struct {
	Kind           string
	Chunk          *Chunk
	Tool           *ToolCall
	Plan           *Plan
	Commands       *Commands
	Mode           *CurrentMode
	Options        *Options
	Info           *Info
	Usage          *Usage
	Notice         *Notice
	Compaction     *Compaction
	CompactionText *CompactionContent

	// Raw is the whole update if no other member holds it: its Kind is unknown, or it does not
	// conform to version 1. It is sent again unchanged.
	Raw jsonrpc.Raw
}

// A Chunk is a piece of a message.
type Chunk struct {
	Content   Content `json:"content"`
	MessageID string  `json:"messageId,omitzero"` // equal in all chunks of one message
	Meta      Meta    `json:"_meta,omitzero"`
	Extra     Meta    `json:",embed"`
}

// A Plan is the complete list of steps that the agent intends to do. Each update replaces it.
type Plan struct {
	Entries []PlanEntry `json:"entries"`
	Meta    Meta        `json:"_meta,omitzero"`
	Extra   Meta        `json:",embed"`
}

// A PlanEntry is one step of a plan.
type PlanEntry struct {
	Content  string     `json:"content"`
	Priority string     `json:"priority"` // "high", "medium" or "low"
	Status   ToolStatus `json:"status"`   // not StatusFailed
	Meta     Meta       `json:"_meta,omitzero"`
}

// Commands lists the commands that a user may begin a prompt with, after a slash.
type Commands struct {
	Available []Command `json:"availableCommands"`
	Meta      Meta      `json:"_meta,omitzero"`
	Extra     Meta      `json:",embed"`
}

// A Command is one command.
type Command struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *CommandInput `json:"input,omitzero"` // nil if it has no input
	Meta        Meta          `json:"_meta,omitzero"`
}

// A CommandInput describes the input after a command.
type CommandInput struct {
	Hint string `json:"hint"`
	Meta Meta   `json:"_meta,omitzero"`
}

// CurrentMode is the current mode of the session.
type CurrentMode struct {
	ModeID string `json:"currentModeId"`
	Meta   Meta   `json:"_meta,omitzero"`
	Extra  Meta   `json:",embed"`
}

// Options lists all options of a session with their values.
type Options struct {
	Options []ConfigOption `json:"configOptions"`
	Meta    Meta           `json:"_meta,omitzero"`
	Extra   Meta           `json:",embed"`
}

// Info is a change of the session's title or time. Nil fields are unchanged.
type Info struct {
	Title     jsonrpc.Raw `json:"title,omitzero"`     // a string, or null to clear it
	UpdatedAt jsonrpc.Raw `json:"updatedAt,omitzero"` // ISO 8601, or null to clear it
	Meta      Meta        `json:"_meta,omitzero"`
	Extra     Meta        `json:",embed"`
}

// Usage reports how full the model's context is, and the cost of the session.
type Usage struct {
	Used  int64 `json:"used"` // tokens
	Size  int64 `json:"size"` // tokens
	Cost  *Cost `json:"cost,omitzero"`
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Meta  `json:",embed"`
}

// Cost is the total so far.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"` // ISO 4217, or another unit
	Meta     Meta    `json:"_meta,omitzero"`
}

// A Notice is shown to the user once and is not part of the history.
type Notice struct {
	Severity    string `json:"severity"` // "info", "warning", "error" or another
	Title       string `json:"title"`    // plain, not empty
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
	Extra       Meta   `json:",embed"`
}

// A Compaction reports that the context is being shortened.
type Compaction struct {
	ID string `json:"compactionId"`
	// "in_progress", "completed", "failed", "cancelled" or another
	Status  string    `json:"status"`
	Summary []Content `json:"summary,omitzero"` // replaces the previous summary
	Error   string    `json:"error,omitzero"`
	Meta    Meta      `json:"_meta,omitzero"`
	Extra   Meta      `json:",embed"`
}

// CompactionContent is one more block of a summary.
type CompactionContent struct {
	ID      string  `json:"compactionId"`
	Content Content `json:"content"`
	Meta    Meta    `json:"_meta,omitzero"`
	Extra   Meta    `json:",embed"`
}

// Say returns an update with a piece of the agent's message.
func Say(text string) *Update { return Message(Text(text)) }

// Message returns an update with a block of the agent's message.
func Message(c Content) *Update { return &Update{Kind: AgentMessageChunk, Chunk: &Chunk{Content: c}} }

// Thought returns an update with a piece of the agent's thoughts.
func Thought(text string) *Update {
	return &Update{Kind: AgentThoughtChunk, Chunk: &Chunk{Content: Text(text)}}
}

// StartTool returns an update with a new tool call.
func StartTool(t ToolCall) *Update { return &Update{Kind: ToolCallStarted, Tool: &t} }

// ChangeTool returns an update with changes of a tool call.
func ChangeTool(t ToolCall) *Update { return &Update{Kind: ToolCallChanged, Tool: &t} }

// MakePlan returns an update with a plan.
func MakePlan(entries ...PlanEntry) *Update {
	return &Update{Kind: PlanChanged, Plan: &Plan{Entries: append([]PlanEntry{}, entries...)}}
}

// body returns the variant for a kind, created if necessary, and its Extra. It returns nil for an
// unknown kind.
func (u *Update) body() (variant any, extra *Meta) {
	switch u.Kind {
	case UserMessageChunk, AgentMessageChunk, AgentThoughtChunk:
		v := made(&u.Chunk)
		return v, &v.Extra
	case ToolCallStarted, ToolCallChanged:
		v := made(&u.Tool)
		return v, &v.Extra
	case PlanChanged:
		v := made(&u.Plan)
		return v, &v.Extra
	case CommandsChanged:
		v := made(&u.Commands)
		return v, &v.Extra
	case ModeChanged:
		v := made(&u.Mode)
		return v, &v.Extra
	case OptionsChanged:
		v := made(&u.Options)
		return v, &v.Extra
	case InfoChanged:
		v := made(&u.Info)
		return v, &v.Extra
	case UsageChanged:
		v := made(&u.Usage)
		return v, &v.Extra
	case Noticed:
		v := made(&u.Notice)
		return v, &v.Extra
	case CompactionChanged:
		v := made(&u.Compaction)
		return v, &v.Extra
	case CompactionChunk:
		v := made(&u.CompactionText)
		return v, &v.Extra
	}
	return nil, nil
}

// made returns what p points to, and allocates it if it is nil.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// Text returns the text of a chunk, and "" for everything else.
func (u *Update) Text() string {
	if u.Chunk == nil || u.Chunk.Content.Kind != KindText {
		return ""
	}
	return u.Chunk.Content.Text
}

// AppendJSON appends the update as JSON to dst.
func (u *Update) AppendJSON(dst []byte) ([]byte, error) {
	if u.Raw != nil {
		return append(dst, u.Raw...), nil
	}
	// The most frequent update.
	if c := u.Chunk; u.Kind == AgentMessageChunk && c != nil && c.MessageID == "" && c.Meta == nil && c.Extra == nil {
		dst, err := c.Content.AppendJSON(append(dst, `{"sessionUpdate":"agent_message_chunk","content":`...))
		return append(dst, '}'), err
	}
	copied := *u
	v, _ := copied.body()
	if v == nil {
		return dst, fmt.Errorf("editor: update of unknown kind %q", u.Kind)
	}
	if u.Kind == ToolCallStarted && copied.Tool.Title == "" { // it is required
		return appendTagged(dst, "sessionUpdate", u.Kind, struct {
			Title string `json:"title"`
			ToolCall
		}{"", *copied.Tool})
	}
	return appendTagged(dst, "sessionUpdate", u.Kind, v)
}

// MarshalJSON encodes the update.
func (u *Update) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil) }

// UnmarshalJSON decodes an update. If it does not conform to version 1, Kind and Raw are set.
func (u *Update) UnmarshalJSON(text []byte) error {
	var in struct {
		Kind string `json:"sessionUpdate"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*u = Update{Kind: in.Kind}
	v, extra := u.body()
	fits := v != nil && jsonrpc.Raw(text).Decode(v) == nil
	if u.Chunk != nil && u.Chunk.Content.isNone() || u.CompactionText != nil && u.CompactionText.Content.isNone() {
		fits = false
	}
	if fits {
		*extra = (*extra).without("sessionUpdate")
	} else {
		*u = Update{Kind: in.Kind, Raw: jsonrpc.Raw(text).Clone()}
	}
	return nil
}

// UpdateParams holds an update and the id of its session.
type UpdateParams struct {
	SessionID string  `json:"sessionId"`
	Update    *Update `json:"update"`
	Meta      Meta    `json:"_meta,omitzero"`
}
