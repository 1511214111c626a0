package editor

import "github.com/da1ed7bb/parley/jsonrpc"

type sessionRef struct {
	SessionID string `json:"sessionId"`
}

// NewSessionParams begin a conversation (Agent Client Protocol v1, Session Setup).
type NewSessionParams struct {
	CWD                   string      `json:"cwd"` // absolute
	AdditionalDirectories []string    `json:"additionalDirectories,omitzero"`
	MCPServers            []MCPServer `json:"mcpServers"`
	Meta                  Meta        `json:"_meta,omitzero"`
}

// A NewSessionResult names it.
type NewSessionResult struct {
	SessionID     string         `json:"sessionId"`
	Modes         *Modes         `json:"modes,omitzero"`
	ConfigOptions []ConfigOption `json:"configOptions,omitzero"`
	Meta          Meta           `json:"_meta,omitzero"`
}

// LoadSessionParams go on with a conversation; session/load has what was said in it told again, session/resume has not.
type LoadSessionParams struct {
	SessionID             string      `json:"sessionId"`
	CWD                   string      `json:"cwd"`
	AdditionalDirectories []string    `json:"additionalDirectories,omitzero"`
	MCPServers            []MCPServer `json:"mcpServers"`
	Meta                  Meta        `json:"_meta,omitzero"`
}

// A LoadSessionResult answers them.
type LoadSessionResult struct {
	Modes         *Modes         `json:"modes,omitzero"`
	ConfigOptions []ConfigOption `json:"configOptions,omitzero"`
	Meta          Meta           `json:"_meta,omitzero"`
}

// SessionParams name a session: for session/close, session/delete and session/cancel.
type SessionParams struct {
	SessionID string `json:"sessionId"`
	Meta      Meta   `json:"_meta,omitzero"`
}

// ListSessionsParams ask for one page.
type ListSessionsParams struct {
	CWD    string `json:"cwd,omitzero"` // only those that work there
	Cursor string `json:"cursor,omitzero"`
	Meta   Meta   `json:"_meta,omitzero"`
}

// A ListSessionsResult is one page.
type ListSessionsResult struct {
	Sessions   []SessionInfo `json:"sessions"`
	NextCursor string        `json:"nextCursor,omitzero"` // empty on the last page
	Meta       Meta          `json:"_meta,omitzero"`
}

// SessionInfo describes a session that can be loaded.
type SessionInfo struct {
	SessionID             string   `json:"sessionId"`
	CWD                   string   `json:"cwd"`
	AdditionalDirectories []string `json:"additionalDirectories,omitzero"`
	Title                 string   `json:"title,omitzero"`
	UpdatedAt             string   `json:"updatedAt,omitzero"` // ISO 8601
	Meta                  Meta     `json:"_meta,omitzero"`
}

// Modes are the ways in which an agent can work, and the one that it does.
type Modes struct {
	CurrentModeID  string `json:"currentModeId"`
	AvailableModes []Mode `json:"availableModes"`
	Meta           Meta   `json:"_meta,omitzero"`
}

// A Mode is one of them.
type Mode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
}

// SetModeParams choose a mode.
type SetModeParams struct {
	SessionID string `json:"sessionId"`
	ModeID    string `json:"modeId"`
	Meta      Meta   `json:"_meta,omitzero"`
}

// Types of options.
const (
	OptionSelect  = "select"  // CurrentValue is a string, Options say which
	OptionBoolean = "boolean" // CurrentValue is true or false; for clients that take such options
)

// A ConfigOption is something that the user may choose for a session.
type ConfigOption struct {
	Type         string      `json:"type"`
	ID           string      `json:"id"`
	Name         string      `json:"name"`
	Description  string      `json:"description,omitzero"`
	Category     string      `json:"category,omitzero"` // "mode", "model", "model_config", "thought_level" or another
	CurrentValue jsonrpc.Raw `json:"currentValue"`
	Options      jsonrpc.Raw `json:"options,omitzero"` // of OptionSelect: an array of ConfigValue, or of ConfigGroup
	Meta         Meta        `json:"_meta,omitzero"`
	Extra        Meta        `json:",embed"`
}

// A ConfigValue is one value of an option.
type ConfigValue struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	Meta        Meta   `json:"_meta,omitzero"`
}

// A ConfigGroup is several values under one heading.
type ConfigGroup struct {
	Group   string        `json:"group"`
	Name    string        `json:"name"`
	Options []ConfigValue `json:"options"`
	Meta    Meta          `json:"_meta,omitzero"`
}

// Choice makes an option of type [OptionSelect].
func Choice(id, name, current string, values ...ConfigValue) ConfigOption {
	text, err := appendValue(nil, append([]ConfigValue{}, values...))
	if err != nil {
		panic("editor: " + err.Error()) // only a Meta that is no JSON
	}
	return ConfigOption{Type: OptionSelect, ID: id, Name: name, CurrentValue: appendString(nil, current), Options: text}
}

// Switch makes an option of type [OptionBoolean].
func Switch(id, name string, on bool) ConfigOption {
	value := jsonrpc.Raw("false")
	if on {
		value = jsonrpc.Raw("true")
	}
	return ConfigOption{Type: OptionBoolean, ID: id, Name: name, CurrentValue: value}
}

// Values returns the values of an option in a row, those of groups too.
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

// SetConfigOptionParams choose a value: a string, or true or false with Type [OptionBoolean].
type SetConfigOptionParams struct {
	SessionID string      `json:"sessionId"`
	ConfigID  string      `json:"configId"`
	Type      string      `json:"type,omitzero"`
	Value     jsonrpc.Raw `json:"value"`
	Meta      Meta        `json:"_meta,omitzero"`
}

// A SetConfigOptionResult tells all options, since one may change others.
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

// An MCPServer is one that the agent is to use in a session.
type MCPServer struct {
	Type    string // MCPStdio, or MCPHTTP and MCPSSE with URL and Headers
	Name    string
	Command string // absolute
	Args    []string
	Env     []Variable
	URL     string
	Headers []Variable
	Meta    Meta

	// Raw is the whole entry when its Type is none of the above.
	Raw jsonrpc.Raw
}

// A Variable is a name with a value: of an environment, or a header of HTTP.
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

// AppendJSON writes the entry.
func (m MCPServer) AppendJSON(dst []byte) ([]byte, error) {
	switch {
	case m.Raw != nil:
		return append(dst, m.Raw...), nil
	case m.Type == MCPStdio:
		return appendValue(dst, mcpStdio{m.Name, m.Command, m.Args, m.Env, m.Meta})
	}
	return appendTagged(dst, "type", m.Type, mcpRemote{m.Name, m.URL, m.Headers, m.Meta})
}

// MarshalJSON writes the entry.
func (m MCPServer) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil) }

// UnmarshalJSON reads an entry. One of an unknown type keeps its text in Raw.
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

// A StopReason says why a turn ended.
type StopReason string

// The reasons.
const (
	EndTurn         StopReason = "end_turn"
	MaxTokens       StopReason = "max_tokens"
	MaxTurnRequests StopReason = "max_turn_requests"
	Refusal         StopReason = "refusal"
	Cancelled       StopReason = "cancelled"
)

// PromptParams are one turn of the user (Agent Client Protocol v1, Prompt Turn).
type PromptParams struct {
	SessionID string    `json:"sessionId"`
	Prompt    []Content `json:"prompt"`
	Meta      Meta      `json:"_meta,omitzero"`
	Extra     Meta      `json:",embed"`
}

// A PromptResult ends the turn.
type PromptResult struct {
	StopReason StopReason `json:"stopReason"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Meta       `json:",embed"`
}
