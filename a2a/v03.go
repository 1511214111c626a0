package a2a

import (
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The types of v0.3, and their conversion to and from v1.0 (A2A 0.3.0, sections 6 and 7). Stored
// values and values passed to an agent are v1.0.

// role03 returns the v0.3 name of a role. Names of roles and states in v0.3 are those of v1.0 in
// lower case, with dashes, without the prefix of their enumeration.

func role03(r Role) string {
	return strings.ToLower(strings.TrimPrefix(string(r), "ROLE_"))
}

func roleOf03(name string) Role { return Role("ROLE_" + strings.ToUpper(name)) }

func state03(s TaskState) string {
	if s == StateUnspecified || s == "" {
		return "unknown"
	}
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_")), "_", "-")
}

func stateOf03(name string) TaskState {
	if name == "unknown" {
		return StateUnspecified
	}
	return TaskState("TASK_STATE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

type part03 struct {
	Kind     string      `json:"kind"`
	Text     *string     `json:"text,omitzero"`
	File     *file03     `json:"file,omitzero"`
	Data     jsonrpc.Raw `json:"data,omitzero"`
	Metadata Metadata    `json:"metadata,omitempty"`
}

type file03 struct {
	Bytes    *string `json:"bytes,omitzero"`
	URI      *string `json:"uri,omitzero"`
	Name     string  `json:"name,omitzero"`
	MIMEType string  `json:"mimeType,omitzero"`
}

func partTo03(p Part) part03 {
	out := part03{Metadata: p.Metadata}
	switch p.Kind {
	case KindText:
		out.Kind, out.Text = "text", &p.Text
	case KindRaw:
		bytes := mustEncode(p.Raw) // base64 in quotes
		out.Kind, out.File = "file", &file03{Bytes: new(string(bytes[1 : len(bytes)-1])), Name: p.Filename, MIMEType: p.MediaType}
	case KindURL:
		out.Kind, out.File = "file", &file03{URI: &p.URL, Name: p.Filename, MIMEType: p.MediaType}
	case KindData:
		out.Kind, out.Data = "data", p.Data
		if len(p.Data) == 0 || p.Data[0] != '{' { // only objects are allowed
			out.Data = mustEncode(map[string]jsonrpc.Raw{"value": orNull(p.Data)})
		}
	}
	return out
}

func orNull(v jsonrpc.Raw) jsonrpc.Raw {
	if len(v) == 0 {
		return jsonrpc.Raw("null")
	}
	return v
}

func (p part03) part() (Part, error) {
	out := Part{Metadata: p.Metadata}
	switch {
	case p.Kind == "text" && p.Text != nil:
		out.Text = *p.Text
	case p.Kind == "file" && p.File != nil && (p.File.Bytes != nil) != (p.File.URI != nil):
		out.Filename, out.MediaType = p.File.Name, p.File.MIMEType
		if p.File.URI != nil {
			out.Kind, out.URL = KindURL, *p.File.URI
			break
		}
		raw, err := decodeBase64(*p.File.Bytes)
		if err != nil {
			return out, &valueError{"bytes is not base64"}
		}
		out.Kind, out.Raw = KindRaw, raw
	case p.Kind == "data" && p.Data != nil:
		out.Kind, out.Data = KindData, p.Data
	default:
		return out, &valueError{`a part must have the kind "text", "file" or "data", and the members of that kind`}
	}
	return out, nil
}

func partsTo03(parts []Part) []part03 {
	out := make([]part03, len(parts))
	for i := range parts {
		out[i] = partTo03(parts[i])
	}
	return out
}

// UnmarshalJSON decodes and checks the part, so that an error includes its path.
func (p *part03) UnmarshalJSON(text []byte) error {
	type plain part03
	if err := jsonrpc.Raw(text).Decode((*plain)(p)); err != nil {
		return err
	}
	_, err := p.part()
	return err
}

func partsOf03(parts []part03) []Part {
	out := make([]Part, len(parts))
	for i := range parts {
		out[i], _ = parts[i].part() // checked when it was decoded
	}
	return out
}

type message03 struct {
	Kind             string   `json:"kind"`
	MessageID        string   `json:"messageId"`
	ContextID        string   `json:"contextId,omitzero"`
	TaskID           string   `json:"taskId,omitzero"`
	Role             string   `json:"role"`
	Parts            []part03 `json:"parts"`
	Metadata         Metadata `json:"metadata,omitempty"`
	Extensions       []string `json:"extensions,omitempty"`
	ReferenceTaskIDs []string `json:"referenceTaskIds,omitempty"`
}

func messageTo03(m *Message) *message03 {
	if m == nil {
		return nil
	}
	return &message03{Kind: "message", MessageID: m.MessageID, ContextID: m.ContextID, TaskID: m.TaskID, Role: role03(m.Role),
		Parts: partsTo03(m.Parts), Metadata: m.Metadata, Extensions: m.Extensions, ReferenceTaskIDs: m.ReferenceTaskIDs}
}

func (m *message03) message() *Message {
	if m == nil {
		return nil
	}
	out := &Message{MessageID: m.MessageID, ContextID: m.ContextID, TaskID: m.TaskID,
		Parts: partsOf03(m.Parts), Metadata: m.Metadata, Extensions: m.Extensions, ReferenceTaskIDs: m.ReferenceTaskIDs}
	if m.Role != "" {
		out.Role = roleOf03(m.Role)
	}
	return out
}

type status03 struct {
	State     string     `json:"state"`
	Message   *message03 `json:"message,omitzero"`
	Timestamp Timestamp  `json:"timestamp,omitzero"`
}

func statusTo03(s TaskStatus) status03 {
	return status03{state03(s.State), messageTo03(s.Message), s.Timestamp}
}

func (s status03) status() TaskStatus {
	return TaskStatus{State: stateOf03(s.State), Message: s.Message.message(), Timestamp: s.Timestamp}
}

type artifact03 struct {
	ArtifactID  string   `json:"artifactId"`
	Name        string   `json:"name,omitzero"`
	Description string   `json:"description,omitzero"`
	Parts       []part03 `json:"parts"`
	Metadata    Metadata `json:"metadata,omitempty"`
	Extensions  []string `json:"extensions,omitempty"`
}

func artifactTo03(a Artifact) artifact03 {
	return artifact03{a.ArtifactID, a.Name, a.Description, partsTo03(a.Parts), a.Metadata, a.Extensions}
}

func (a artifact03) artifact() Artifact {
	return Artifact{a.ArtifactID, a.Name, a.Description, partsOf03(a.Parts), a.Metadata, a.Extensions}
}

type task03 struct {
	Kind      string       `json:"kind"`
	ID        string       `json:"id"`
	ContextID string       `json:"contextId"`
	Status    status03     `json:"status"`
	Artifacts []artifact03 `json:"artifacts,omitempty"`
	History   []message03  `json:"history,omitempty"`
	Metadata  Metadata     `json:"metadata,omitempty"`
}

func taskTo03(t *Task) *task03 {
	out := &task03{Kind: "task", ID: t.ID, ContextID: t.ContextID, Status: statusTo03(t.Status), Metadata: t.Metadata}
	for _, a := range t.Artifacts {
		out.Artifacts = append(out.Artifacts, artifactTo03(a))
	}
	for i := range t.History {
		out.History = append(out.History, *messageTo03(&t.History[i]))
	}
	return out
}

func (t *task03) task() *Task {
	out := &Task{ID: t.ID, ContextID: t.ContextID, Status: t.Status.status(), Metadata: t.Metadata}
	for _, a := range t.Artifacts {
		out.Artifacts = append(out.Artifacts, a.artifact())
	}
	for i := range t.History {
		out.History = append(out.History, *t.History[i].message())
	}
	return out
}

type statusUpdate03 struct {
	Kind      string   `json:"kind"`
	TaskID    string   `json:"taskId"`
	ContextID string   `json:"contextId"`
	Status    status03 `json:"status"`
	Final     bool     `json:"final"`
	Metadata  Metadata `json:"metadata,omitempty"`
}

type artifactUpdate03 struct {
	Kind      string     `json:"kind"`
	TaskID    string     `json:"taskId"`
	ContextID string     `json:"contextId"`
	Artifact  artifact03 `json:"artifact"`
	Append    bool       `json:"append,omitzero"`
	LastChunk bool       `json:"lastChunk,omitzero"`
	Metadata  Metadata   `json:"metadata,omitempty"`
}

// eventTo03 returns the v0.3 object of an event.
func eventTo03(e Event) any {
	switch {
	case e.Task != nil:
		return taskTo03(e.Task)
	case e.Message != nil:
		return messageTo03(e.Message)
	case e.Status != nil:
		u := e.Status
		return statusUpdate03{"status-update", u.TaskID, u.ContextID, statusTo03(u.Status), u.Status.State.Rests(), u.Metadata}
	case e.Artifact != nil:
		u := e.Artifact
		return artifactUpdate03{"artifact-update", u.TaskID, u.ContextID, artifactTo03(u.Artifact), u.Append, u.LastChunk, u.Metadata}
	}
	return nil
}

// eventOf03 decodes a v0.3 object according to its kind.
func eventOf03(raw jsonrpc.Raw) (Event, error) {
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := raw.Decode(&kind); err != nil {
		return Event{}, err
	}
	switch kind.Kind {
	case "task":
		var in task03
		err := raw.Decode(&in)
		return Event{Task: in.task()}, err
	case "message":
		var in message03
		err := raw.Decode(&in)
		return Event{Message: in.message()}, err
	case "status-update":
		var in statusUpdate03
		err := raw.Decode(&in)
		return Event{Status: &StatusUpdate{in.TaskID, in.ContextID, in.Status.status(), in.Metadata}}, err
	case "artifact-update":
		var in artifactUpdate03
		err := raw.Decode(&in)
		return Event{Artifact: &ArtifactUpdate{in.TaskID, in.ContextID, in.Artifact.artifact(), in.Append, in.LastChunk, in.Metadata}}, err
	}
	return Event{}, &valueError{"an event of unknown kind"}
}
