package mcp

import (
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Level is the severity of a log message (RFC 5424).
type Level uint8

// Log levels. The zero Level means that no messages were requested.
const (
	LevelNone Level = iota
	LevelDebug
	LevelInfo
	LevelNotice
	LevelWarning
	LevelError
	LevelCritical
	LevelAlert
	LevelEmergency
)

var levelNames = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// ParseLevel returns the level with the given name on the wire, or LevelNone for any other text.
func ParseLevel(name string) Level {
	for l := LevelDebug; l <= LevelEmergency; l++ {
		if levelNames[l] == name {
			return l
		}
	}
	return LevelNone
}

// String returns the name on the wire.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return ""
}

// MarshalText encodes the name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText decodes a name. An unknown name becomes LevelNone.
func (l *Level) UnmarshalText(text []byte) error {
	*l = ParseLevel(string(text))
	return nil
}

// LogParams are the params of notifications/message.
type LogParams struct {
	Level  Level       `json:"level"`
	Logger string      `json:"logger,omitzero"`
	Data   jsonrpc.Raw `json:"data"`
	Meta   Meta        `json:"_meta,omitzero"`
}

// SetLevelParams are the params of logging/setLevel.
type SetLevelParams struct {
	Level Level `json:"level"`
	Meta  Meta  `json:"_meta,omitzero"`
}

// Progress is the progress of a request: the params of notifications/progress.
type Progress struct {
	Token    jsonrpc.ID `json:"progressToken"`
	Progress float64    `json:"progress"`
	Total    float64    `json:"total,omitzero"`
	Message  string     `json:"message,omitzero"` // since 2025-03-26
	Meta     Meta       `json:"_meta,omitzero"`
}

// A Filter selects the notifications that a client receives through subscriptions/listen.
type Filter struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitzero"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitzero"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitzero"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitzero"` // URIs
	TaskIDs               []string `json:"taskIds,omitzero"`               // of the tasks extension
}

// wants reports whether the filter selects a notification. uri and task identify what it is about.
func (f *Filter) wants(method, uri string, task *Task) bool {
	switch method {
	case NotifyToolsChanged:
		return f.ToolsListChanged
	case NotifyPromptsChanged:
		return f.PromptsListChanged
	case NotifyResourcesChanged:
		return f.ResourcesListChanged
	case NotifyResourceUpdated:
		return slices.Contains(f.ResourceSubscriptions, uri)
	case NotifyTask, NotifyTaskStatus:
		return task != nil && slices.Contains(f.TaskIDs, task.ID)
	}
	return false
}
