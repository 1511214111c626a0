package editor

import "github.com/da1ed7bb/parley/jsonrpc"

type sessionRef struct {
	SessionID string `json:"sessionId"`
}

// NewSessionParams creates a session (Agent Client Protocol v1, Session Setup).
type NewSessionParams struct {
	CWD                   string      `json:"cwd"` // absolute
	AdditionalDirectories []string    `json:"additionalDirectories,omitzero"`
	MCPServers            []MCPServer `json:"mcpServers"`
	Meta                  Meta        `json:"_meta,omitzero"`
}

// A NewSessionResult holds the id of the session.
type NewSessionResult struct {
	SessionID     string         `json:"sessionId"`
	Modes         *Modes         `json:"modes,omitzero"`
	ConfigOptions []ConfigOption `json:"configOptions,omitzero"`
	Meta          Meta           `json:"_meta,omitzero"`
}

// LoadSessionParams continues a session. session/load sends its past messages again; session/resume
// does not.
type LoadSessionParams struct {
	SessionID             string      `json:"sessionId"`
	CWD                   string      `json:"cwd"`
	AdditionalDirectories []string    `json:"additionalDirectories,omitzero"`
	MCPServers            []MCPServer `json:"mcpServers"`
	Meta                  Meta        `json:"_meta,omitzero"`
}

// A LoadSessionResult is the response to [LoadSessionParams].
type LoadSessionResult struct {
	Modes         *Modes         `json:"modes,omitzero"`
	ConfigOptions []ConfigOption `json:"configOptions,omitzero"`
	Meta          Meta           `json:"_meta,omitzero"`
}

// SessionParams identifies a session: for session/close, session/delete and session/cancel.
type SessionParams struct {
	SessionID string `json:"sessionId"`
	Meta      Meta   `json:"_meta,omitzero"`
}

// ListSessionsParams requests one page.
type ListSessionsParams struct {
	CWD    string `json:"cwd,omitzero"` // only sessions with this directory
	Cursor string `json:"cursor,omitzero"`
	Meta   Meta   `json:"_meta,omitzero"`
}

// A ListSessionsResult is one page.
type ListSessionsResult struct {
	Sessions   []SessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitzero"` // empty on the last page
	Meta       Meta          `json:"_meta,omitzero"`
}

// SessionInfo describes a stored session.
type SessionInfo struct {
	SessionID             string   `json:"sessionId"`
	CWD                   string   `json:"cwd"`
	AdditionalDirectories []string `json:"additionalDirectories,omitzero"`
	Title                 string   `json:"title,omitzero"`
	UpdatedAt             string   `json:"updatedAt,omitzero"` // ISO 8601
	Meta                  Meta     `json:"_meta,omitzero"`
}

// Modes lists the modes of an agent, and the current one.
type Modes struct {
	CurrentModeID  string `json:"currentModeId"`
	AvailableModes []Mode `json:"availableModes"`
	Meta           Meta   `json:"_meta,omitzero"`
}

// A Mode is one mode of an agent.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
}

// SetModeParams selects a mode.
type SetModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
	Meta      Meta   `json:"_meta,omitzero"`
}

// Types of options.
const (
	OptionSelect  = "select"  // CurrentValue is a string from Options
	OptionBoolean = "boolean" // CurrentValue is true or false; for clients that support it
)

// A ConfigOption is an option that the user may set for a session.
type ConfigOption struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// "mode", "model", "model_config", "thought_level" or another
	Category     string      `json:"category,omitzero"`
	CurrentValue jsonrpc.Raw `json:"currentValue"`
	// of OptionSelect: an array of ConfigValue, or of ConfigGroup
	Options jsonrpc.Raw `json:"options,omitzero"`
	Meta    Meta        `json:"_meta,omitzero"`
	Extra   Meta        `json:",embed"`
}

// A ConfigValue is one value of an option.
type ConfigValue struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
}

// A ConfigGroup is a group of values under one heading.
type ConfigGroup struct {
	Group   string        `json:"group"`
	Name    string        `json:"name"`
	Options []ConfigValue `json:"options"`
	Meta    Meta          `json:"_meta,omitzero"`
}

// Choice returns an option of type [OptionSelect].
func Choice(id, name, current string, values ...ConfigValue) ConfigOption {
	text, err := appendValue(nil, append([]ConfigValue{}, values...))
	if err != nil {
		panic("editor: " + err.Error()) // a Meta that is not valid JSON
	}
	return ConfigOption{Type: OptionSelect, ID: id, Name: name, CurrentValue: jsonrpc.AppendString(nil, current), Options: text}
}

// Switch returns an option of type [OptionBoolean].
func Switch(id, name string, on bool) ConfigOption {
	value := jsonrpc.Raw("false")
	if on {
		value = jsonrpc.Raw("true")
	}
	return ConfigOption{Type: OptionBoolean, ID: id, Name: name, CurrentValue: value}
}

// Values returns all values of an option as one list, including those in groups.
func (o *ConfigOption) Values() []ConfigValue {
	var mixed []struct {
		ConfigValue
		Options []ConfigValue `json:"options"`
	}
	if o.Options.Decode(&mixed) != nil {
		return nil
	}
	var out []ConfigValue
	for _, m := range mixed {
		if m.Options != nil {
			out = append(out, m.Options...)
		} else {
			out = append(out, m.ConfigValue)
		}
	}
	return out
}

// SetConfigOptionParams sets an option: to a string, or to true or false with Type [OptionBoolean].
type SetConfigOptionParams struct {
	SessionID string      `json:"sessionId"`
	ConfigID  string      `json:"configId"`
	Type      string      `json:"type,omitzero"`
	Value     jsonrpc.Raw `json:"value"`
	Meta      Meta        `json:"_meta,omitzero"`
}

// A SetConfigOptionResult returns all options, because one may change others.
type SetConfigOptionResult struct {
	ConfigOptions []ConfigOption `json:"configOptions"`
	Meta          Meta           `json:"_meta,omitzero"`
}

// Types of MCP servers.
const (
	MCPStdio = "" // Command, Args, Env
	MCPHTTP  = "http"
	MCPSSE   = "sse"
)

// An MCPServer is an MCP server for the agent to use in a session.
type MCPServer struct {
	Type    string // MCPStdio, or MCPHTTP and MCPSSE with URL and Headers
	Name    string
	Command string // absolute
	Args    []string
	Env     []Variable
	URL     string
	Headers []Variable
	Meta    Meta

	// Raw is the whole entry if its Type is unknown.
	Raw jsonrpc.Raw
}

// A Variable is a name with a value: an environment variable, or an HTTP header.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Meta  Meta   `json:"_meta,omitzero"`
}

type mcpStdio struct {
	Name    string     `json:"name"`
	Command string     `json:"command"`
	Args    []string   `json:"args"`
	Env     []Variable `json:"env"`
	Meta    Meta       `json:"_meta,omitzero"`
}

type mcpRemote struct {
	Name    string     `json:"name"`
	URL     string     `json:"url"`
	Headers []Variable `json:"headers"`
	Meta    Meta       `json:"_meta,omitzero"`
}

// AppendJSON appends the entry as JSON to dst.
func (m MCPServer) AppendJSON(dst []byte) ([]byte, error) {
	switch {
	case m.Raw != nil:
		return append(dst, m.Raw...), nil
	case m.Type == MCPStdio:
		return appendValue(dst, mcpStdio{m.Name, m.Command, m.Args, m.Env, m.Meta})
	}
	return appendTagged(dst, "type", m.Type, mcpRemote{m.Name, m.URL, m.Headers, m.Meta})
}

// MarshalJSON encodes the entry.
func (m MCPServer) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil) }

// UnmarshalJSON decodes an entry. If its type is unknown, Raw is set.
func (m *MCPServer) UnmarshalJSON(text []byte) error {
	var in struct {
		Type    string     `json:"type"`
		Name    string     `json:"name"`
		Command string     `json:"command"`
		Args    []string   `json:"args"`
		Env     []Variable `json:"env"`
		URL     string     `json:"url"`
		Headers []Variable `json:"headers"`
		Meta    Meta       `json:"_meta"`
	}
	if err := jsonrpc.Raw(text).Decode(&in); err != nil {
		return err
	}
	*m = MCPServer{Type: in.Type, Name: in.Name, Command: in.Command, Args: in.Args, Env: in.Env, URL: in.URL, Headers: in.Headers, Meta: in.Meta}
	if m.Type != MCPStdio && m.Type != MCPHTTP && m.Type != MCPSSE {
		m.Raw = jsonrpc.Raw(text).Clone()
	}
	return nil
}

// A StopReason is the reason why a turn ended.
type StopReason string

// The reasons.
const (
	EndTurn         StopReason = "end_turn"
	MaxTokens       StopReason = "max_tokens"
	MaxTurnRequests StopReason = "max_turn_requests"
	Refusal         StopReason = "refusal"
	Cancelled       StopReason = "cancelled"
)

// PromptParams starts one turn of the user (Agent Client Protocol v1, Prompt Turn).
type PromptParams struct {
	SessionID string    `json:"sessionId"`
	Prompt    []Content `json:"prompt"`
	Meta      Meta      `json:"_meta,omitzero"`
	Extra     Meta      `json:",embed"`
}

// A PromptResult is the end of a turn.
type PromptResult struct {
	StopReason StopReason `json:"stopReason"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Meta       `json:",embed"`
}
