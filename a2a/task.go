package a2a

import "slices"

// A TaskState is where a task stands (A2A 1.0.1, section 4.1.3).
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

// Terminal reports whether nothing more happens.
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	}
	return false
}

// Interrupted reports whether the task waits for its caller.
func (s TaskState) Interrupted() bool { return s == StateInputRequired || s == StateAuthRequired }

// Rests reports whether a call that waits for the task is answered: it is over, or waits itself.
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

// Text returns the text of all artifacts.
func (t *Task) Text() string {
	out := ""
	for i := range t.Artifacts {
		out += TextOf(t.Artifacts[i].Parts)
	}
	return out
}

// A TaskStatus is the state of a task, and since when.
type TaskStatus struct {
	State     TaskState `json:"state"`
	Message   *Message  `json:"message,omitzero"` // what the agent says about it
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

// A StatusUpdate says that a task has another status now.
type StatusUpdate struct {
	TaskID    string     `json:"taskId"`
	ContextID string     `json:"contextId"`
	Status    TaskStatus `json:"status"`
	Metadata  Metadata   `json:"metadata,omitempty"`
}

// An ArtifactUpdate brings an artifact, or with Append more parts of one.
type ArtifactUpdate struct {
	TaskID    string   `json:"taskId"`
	ContextID string   `json:"contextId"`
	Artifact  Artifact `json:"artifact"`
	Append    bool     `json:"append,omitzero"`
	LastChunk bool     `json:"lastChunk,omitzero"`
	Metadata  Metadata `json:"metadata,omitempty"`
}

// An Event is what a stream and a webhook bring, and what sending a message results in: exactly one of its first four members is set. The
// result of sending is a Task or a Message (A2A 1.0.1, section 3.2.3).
type Event struct {
	Task     *Task           `json:"task,omitzero"`
	Message  *Message        `json:"message,omitzero"`
	Status   *StatusUpdate   `json:"statusUpdate,omitzero"`
	Artifact *ArtifactUpdate `json:"artifactUpdate,omitzero"`

	// Seq counts the events of a task from 1, where the server says so; otherwise it is 0. A Task has the number of the last event that is
	// in it already.
	Seq int64 `json:"-"`
}

// State returns the state that the event tells of, or "".
func (e Event) State() TaskState {
	switch {
	case e.Task != nil:
		return e.Task.Status.State
	case e.Status != nil:
		return e.Status.Status.State
	}
	return ""
}

// TaskID returns which task the event is about, or "".
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

// Apply brings a task up to date with an event about it, as a client does that follows a stream. It leaves the event untouched. Of
// two copies of a task that were made by assignment, only one may go on.
func (t *Task) Apply(e Event) {
	switch {
	case e.Task != nil:
		*t = e.Task.own()
	case e.Status != nil:
		if old := t.Status.Message; old != nil {
			t.History = append(t.History, *old)
		}
		t.Status = e.Status.Status
		for key, value := range e.Status.Metadata {
			t.Metadata = t.Metadata.With(key, value)
		}
	case e.Artifact != nil:
		t.addArtifact(e.Artifact)
	case e.Message != nil:
		t.History = append(t.History, *e.Message)
	}
}

// own returns a copy whose lists can grow without the original's.
func (t *Task) own() Task {
	c := *t
	c.History = slices.Clip(c.History)
	c.Artifacts = slices.Clone(c.Artifacts)
	for i := range c.Artifacts {
		c.Artifacts[i].Parts = slices.Clip(c.Artifacts[i].Parts)
	}
	return c
}

func (t *Task) addArtifact(u *ArtifactUpdate) {
	t.Artifacts = slices.Clone(t.Artifacts) // whoever has the old list keeps it
	at := slices.IndexFunc(t.Artifacts, func(a Artifact) bool { return a.ArtifactID == u.Artifact.ArtifactID })
	fresh := u.Artifact
	fresh.Parts = slices.Clip(fresh.Parts)
	switch {
	case at < 0:
		t.Artifacts = append(t.Artifacts, fresh)
	case !u.Append:
		t.Artifacts[at] = fresh
	default:
		old := &t.Artifacts[at]
		old.Parts = append(old.Parts, fresh.Parts...)
		for key, value := range u.Artifact.Metadata {
			old.Metadata = old.Metadata.With(key, value)
		}
	}
}
