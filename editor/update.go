package editor

import (
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Kinds of updates. The comment says which member of [Update] belongs to each.
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
	Noticed           = "notice"                    // Notice; for clients that take notices
	CompactionChanged = "compaction_update"         // Compaction; for clients that take compactions
	CompactionChunk   = "compaction_summary_chunk"  // CompactionText; likewise
)

// An Update is what an agent tells about a session (Agent Client Protocol v1, Prompt Turn). Kind decides which of the other members counts.
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

	// Raw is the whole update when nothing else here holds it: its Kind is unknown, or it is not as version 1 says. It goes out
	// again as it came.
	Raw jsonrpc.Raw
}

// A Chunk is a piece of a message.
type Chunk struct {
	Content   Content `json:"content"`
	MessageID string  `json:"messageId,omitzero"` // equal in all chunks of one message
	Meta      Meta    `json:"_meta,omitzero"`
	Extra     Meta    `json:",embed"`
}

// A Plan is all that the agent means to do, each time whole.
type Plan struct {
	Entries []PlanEntry `json:"entries"`
	Meta    Meta        `json:"_meta,omitzero"`
	Extra   Meta        `json:",embed"`
}

// A PlanEntry is one step.
type PlanEntry struct {
	Content  string     `json:"content"`
	Priority string     `json:"priority"` // "high", "medium" or "low"
	Status   ToolStatus `json:"status"`   // not StatusFailed
	Meta     Meta       `json:"_meta,omitzero"`
}

// Commands are what a user may begin a prompt with, after a slash.
type Commands struct {
	Available []Command `json:"availableCommands"`
	Meta      Meta      `json:"_meta,omitzero"`
	Extra     Meta      `json:",embed"`
}

// A Command is one of them.
type Command struct {
	Name        string        `json:"name"`
	Description string        `json:"description"`
	Input       *CommandInput `json:"input,omitzero"` // nil: it takes none
	Meta        Meta          `json:"_meta,omitzero"`
}

// A CommandInput is what stands behind a command.
type CommandInput struct {
	Hint string `json:"hint"`
	Meta Meta   `json:"_meta,omitzero"`
}

// CurrentMode names the mode that the session is in now.
type CurrentMode struct {
	ModeID string `json:"currentModeId"`
	Meta   Meta   `json:"_meta,omitzero"`
	Extra  Meta   `json:",embed"`
}

// Options are all options of a session with their values.
type Options struct {
	Options []ConfigOption `json:"configOptions"`
	Meta    Meta           `json:"_meta,omitzero"`
	Extra   Meta           `json:",embed"`
}

// Info is news about the session itself. What is nil stays as it was.
type Info struct {
	Title     jsonrpc.Raw `json:"title,omitzero"`     // a string, or null to clear it
	UpdatedAt jsonrpc.Raw `json:"updatedAt,omitzero"` // ISO 8601, or null to clear it
	Meta      Meta        `json:"_meta,omitzero"`
	Extra     Meta        `json:",embed"`
}

// Usage tells how full the model's context is, and what the session has cost.
type Usage struct {
	Used  int64 `json:"used"` // tokens
	Size  int64 `json:"size"` // tokens
	Cost  *Cost `json:"cost,omitzero"`
	Meta  Meta  `json:"_meta,omitzero"`
	Extra Meta  `json:",embed"`
}

// Cost is the sum so far.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency"` // ISO 4217, or another unit
	Meta     Meta    `json:"_meta,omitzero"`
}

// A Notice is shown to the user once and belongs to no history.
type Notice struct {
	Severity    string `json:"severity"` // "info", "warning", "error" or another
	Title       string `json:"title"`    // plain, not empty
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
	Extra       Meta   `json:",embed"`
}

// A Compaction is news about the context being made shorter.
type Compaction struct {
	ID      string    `json:"compactionId"`
	Status  string    `json:"status"`           // "in_progress", "completed", "failed", "cancelled" or another
	Summary []Content `json:"summary,omitzero"` // replaces what there was
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

// Say makes the update that carries a piece of the agent's answer.
func Say(text string) *Update { return Message(Text(text)) }

// Message makes the update that carries a block of the agent's answer.
func Message(c Content) *Update { return &Update{Kind: AgentMessageChunk, Chunk: &Chunk{Content: c}} }

// Thought makes the update that carries a piece of what the agent thinks.
func Thought(text string) *Update {
	return &Update{Kind: AgentThoughtChunk, Chunk: &Chunk{Content: Text(text)}}
}

// StartTool makes the update that shows a new tool call.
func StartTool(t ToolCall) *Update { return &Update{Kind: ToolCallStarted, Tool: &t} }

// ChangeTool makes the update with news about a tool call.
func ChangeTool(t ToolCall) *Update { return &Update{Kind: ToolCallChanged, Tool: &t} }

// MakePlan makes the update that shows a plan.
func MakePlan(entries ...PlanEntry) *Update {
	return &Update{Kind: PlanChanged, Plan: &Plan{Entries: append([]PlanEntry{}, entries...)}}
}

// body returns where the variant for a kind is kept, made when it is not there, and its Extra. It is nil for an unknown kind.
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

// made returns what p points to, and makes it first if there is nothing.
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

// AppendJSON writes the update.
func (u *Update) AppendJSON(dst []byte) ([]byte, error) {
	if u.Raw != nil {
		return append(dst, u.Raw...), nil
	}
	if c := u.Chunk; u.Kind == AgentMessageChunk && c != nil && c.MessageID == "" && c.Meta == nil && c.Extra == nil { // the most of all
		dst, err := c.Content.AppendJSON(append(dst, `{"sessionUpdate":"agent_message_chunk","content":`...))
		return append(dst, '}'), err
	}
	copied := *u
	v, _ := copied.body()
	if v == nil {
		return dst, fmt.Errorf("editor: update of unknown kind %q", u.Kind)
	}
	if u.Kind == ToolCallStarted && copied.Tool.Title == "" { // which is required
		return appendTagged(dst, "sessionUpdate", u.Kind, struct {
			Title string `json:"title"`
			ToolCall
		}{"", *copied.Tool})
	}
	return appendTagged(dst, "sessionUpdate", u.Kind, v)
}

// MarshalJSON writes the update.
func (u *Update) MarshalJSON() ([]byte, error) { return u.AppendJSON(nil) }

// UnmarshalJSON reads an update. One that is not as version 1 says keeps its Kind, and its text in Raw.
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

// UpdateParams carry an update.
type UpdateParams struct {
	SessionID string  `json:"sessionId"`
	Update    *Update `json:"update"`
	Meta      Meta    `json:"_meta,omitzero"`
}
