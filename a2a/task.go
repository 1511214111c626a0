package a2a

import (
	"maps"
	"slices"
	"strings"
)

// A TaskState is the state of a task (A2A 1.0.1, section 4.1.3).
type TaskState string

// Task states.
const (
	StateUnspecified   TaskState = "TASK_STATE_UNSPECIFIED"
	StateSubmitted     TaskState = "TASK_STATE_SUBMITTED"
	StateWorking       TaskState = "TASK_STATE_WORKING"
	StateInputRequired TaskState = "TASK_STATE_INPUT_REQUIRED"
	StateAuthRequired  TaskState = "TASK_STATE_AUTH_REQUIRED"
	StateCompleted     TaskState = "TASK_STATE_COMPLETED"
	StateFailed        TaskState = "TASK_STATE_FAILED"
	StateCanceled      TaskState = "TASK_STATE_CANCELED"
	StateRejected      TaskState = "TASK_STATE_REJECTED"
)

// Terminal reports whether the task is over.
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	}
	return false
}

// Interrupted reports whether the task waits for its caller.
func (s TaskState) Interrupted() bool { return s == StateInputRequired || s == StateAuthRequired }

// Rests reports whether a call that waits for the task returns: the task is over, or waits for its
// caller.
func (s TaskState) Rests() bool { return s.Terminal() || s.Interrupted() }

// A Task is one piece of work (A2A 1.0.1, section 4.1.1).
type Task struct {
	ID        string     `json:"id"`
	ContextID string     `json:"contextId,omitzero"`
	Status    TaskStatus `json:"status"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	History   []Message  `json:"history,omitempty"`
	Metadata  Metadata   `json:"metadata,omitempty"`
}

// Text returns the concatenated text of all artifacts.
func (t *Task) Text() string {
	var out strings.Builder
	for i := range t.Artifacts {
		out.WriteString(TextOf(t.Artifacts[i].Parts))
	}
	return out.String()
}

// A TaskStatus is the state of a task, and the time of its last change.
type TaskStatus struct {
	State     TaskState `json:"state"`
	Message   *Message  `json:"message,omitzero"` // the agent's message about it
	Timestamp Timestamp `json:"timestamp,omitzero"`
}

// An Artifact is a result of a task (A2A 1.0.1, section 4.1.7).
type Artifact struct {
	ArtifactID  string   `json:"artifactId"`
	Name        string   `json:"name,omitzero"`
	Description string   `json:"description,omitzero"`
	Parts       []Part   `json:"parts"`
	Metadata    Metadata `json:"metadata,omitempty"`
	Extensions  []string `json:"extensions,omitempty"`
}

// A StatusUpdate reports a new status of a task.
type StatusUpdate struct {
	TaskID    string     `json:"taskId"`
	ContextID string     `json:"contextId"`
	Status    TaskStatus `json:"status"`
	Metadata  Metadata   `json:"metadata,omitempty"`
}

// An ArtifactUpdate carries an artifact, or with Append more parts of one.
type ArtifactUpdate struct {
	TaskID    string   `json:"taskId"`
	ContextID string   `json:"contextId"`
	Artifact  Artifact `json:"artifact"`
	Append    bool     `json:"append,omitzero"`
	LastChunk bool     `json:"lastChunk,omitzero"`
	Metadata  Metadata `json:"metadata,omitempty"`
}

// An Event is an event of a stream or a webhook, or the result of sending a message. Exactly one of
// its first four members is set. The result of sending is a Task or a Message (A2A 1.0.1, section
// 3.2.3).
type Event struct {
	Task     *Task           `json:"task,omitzero"`
	Message  *Message        `json:"message,omitzero"`
	Status   *StatusUpdate   `json:"statusUpdate,omitzero"`
	Artifact *ArtifactUpdate `json:"artifactUpdate,omitzero"`

	// Seq is the number of the event within its task, counted from 1. It is 0 if the server does
	// not number events. For a Task it is the number of the last event that the Task includes.
	Seq int64 `json:"-"`
}

// State returns the state in the event, or "".
func (e Event) State() TaskState {
	switch {
	case e.Task != nil:
		return e.Task.Status.State
	case e.Status != nil:
		return e.Status.Status.State
	}
	return ""
}

// TaskID returns the id of the task that the event belongs to, or "".
func (e Event) TaskID() string {
	switch {
	case e.Task != nil:
		return e.Task.ID
	case e.Status != nil:
		return e.Status.TaskID
	case e.Artifact != nil:
		return e.Artifact.TaskID
	case e.Message != nil:
		return e.Message.TaskID
	}
	return ""
}

// count returns how many of the four members are set.
func (e Event) count() int {
	n := 0
	for _, set := range [...]bool{e.Task != nil, e.Message != nil, e.Status != nil, e.Artifact != nil} {
		if set {
			n++
		}
	}
	return n
}

// Apply updates a task with an event, as a client that follows a stream does. It does not modify
// the event. If a task was copied by assignment, call Apply on only one of the copies. Each call
// that changes an artifact copies the list of artifacts, because another copy of the task may be
// read at the same time.
func (t *Task) Apply(e Event) {
	if e.Artifact == nil {
		if e.Status != nil && len(e.Status.Metadata) > 0 {
			t.Metadata = maps.Clone(t.Metadata)
		}
		t.apply(e)
		return
	}
	at := slices.IndexFunc(t.Artifacts, func(a Artifact) bool { return a.ArtifactID == e.Artifact.Artifact.ArtifactID })
	if at >= 0 {
		t.Artifacts = slices.Clone(t.Artifacts)
		if e.Artifact.Append {
			t.Artifacts[at].Metadata = maps.Clone(t.Artifacts[at].Metadata)
		}
	}
	t.applyArtifact(at, e.Artifact)
}

// apply is Apply for a task whose metadata no copy shares, and for events without an artifact.
func (t *Task) apply(e Event) {
	switch {
	case e.Task != nil:
		*t = e.Task.own()
	case e.Status != nil:
		if old := t.Status.Message; old != nil {
			t.History = append(t.History, *old)
		}
		t.Status = e.Status.Status
		t.Metadata = t.Metadata.add(e.Status.Metadata)
	case e.Message != nil:
		t.History = append(t.History, *e.Message)
	}
}

// applyArtifact applies an update to the artifact with the same ID, which is at the index at, or
// adds it if at is negative. It changes the artifact in place.
func (t *Task) applyArtifact(at int, u *ArtifactUpdate) {
	fresh := u.Artifact
	fresh.Parts = slices.Clip(fresh.Parts)
	fresh.Metadata = maps.Clone(fresh.Metadata)
	switch {
	case at < 0 && u.Ends() && len(fresh.Parts) == 0:
	case at < 0:
		t.Artifacts = append(t.Artifacts, fresh)
	case !u.Append:
		t.Artifacts[at] = fresh
	default:
		old := &t.Artifacts[at]
		if !u.Ends() {
			old.Parts = append(old.Parts, fresh.Parts...)
		}
		old.Metadata = old.Metadata.add(fresh.Metadata)
	}
}

// own returns a copy that does not change when the original grows, and the reverse.
func (t *Task) own() Task {
	c := *t
	c.History = slices.Clip(c.History)
	c.Metadata = maps.Clone(c.Metadata)
	c.Artifacts = slices.Clone(c.Artifacts)
	for i := range c.Artifacts {
		a := &c.Artifacts[i]
		a.Parts = slices.Clip(a.Parts)
		a.Metadata = maps.Clone(a.Metadata)
	}
	return c
}

// Ends reports whether the update only marks the end of an artifact: a last chunk to append whose
// parts are empty texts, since an artifact has at least one part. A Task does not contain them,
// only the metadata of the update's artifact.
func (u *ArtifactUpdate) Ends() bool {
	return u.Append && u.LastChunk && !slices.ContainsFunc(u.Artifact.Parts, func(p Part) bool {
		return p.Kind != KindText || p.Text != "" || p.Metadata != nil || p.Filename != "" || p.MediaType != ""
	})
}
