package acp

import (
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A RunStatus is the state of a run. It goes from created to in-progress, from there to awaiting
// and back, and ends in one of the last three states, via cancelling if the run is cancelled (ACP
// 0.2.0, components/schemas/RunStatus).
type RunStatus string

// The states.
const (
	RunCreated    RunStatus = "created"
	RunInProgress RunStatus = "in-progress"
	RunAwaiting   RunStatus = "awaiting"
	RunCancelling RunStatus = "cancelling"
	RunCancelled  RunStatus = "cancelled"
	RunCompleted  RunStatus = "completed"
	RunFailed     RunStatus = "failed"
)

// Terminal reports whether the state is final.
func (s RunStatus) Terminal() bool { return s == RunCancelled || s == RunCompleted || s == RunFailed }

// A RunMode determines how long a request waits: for the end of the run or its question (sync), not
// at all (async), or for each event (stream).
type RunMode string

// The modes. If a RunCreateRequest has none, the mode is sync.
const (
	ModeSync   RunMode = "sync"
	ModeAsync  RunMode = "async"
	ModeStream RunMode = "stream"
)

// A Run is a snapshot of one execution of an agent (ACP 0.2.0, components/schemas/Run).
type Run struct {
	ID           string        `json:"run_id"` // a UUID
	AgentName    string        `json:"agent_name"`
	SessionID    string        `json:"session_id,omitzero"` // a UUID
	Status       RunStatus     `json:"status"`
	AwaitRequest *AwaitRequest `json:"await_request,omitzero"` // while it is awaiting
	Output       []Message     `json:"output"`
	Error        *Error        `json:"error,omitzero"` // if it has failed
	CreatedAt    time.Time     `json:"created_at"`
	FinishedAt   time.Time     `json:"finished_at,omitzero"`

	Extra Extra `json:",embed"`
}

// Text returns the text of the whole output.
func (r *Run) Text() string {
	return textOf(r.Output)
}

// settled reports whether the run does not change until a client requests it.
func (r *Run) settled() bool { return r.Status.Terminal() || r.Status == RunAwaiting }

// AwaitMessage is the only type of await requests and their answers in use.
const AwaitMessage = "message"

// An AwaitRequest is the question of a run that is awaiting.
type AwaitRequest struct {
	Type    string   `json:"type"`
	Message *Message `json:"message,omitzero"`
	Extra   Extra    `json:",embed"`
}

// An AwaitResume is the answer to an AwaitRequest of the same type.
type AwaitResume struct {
	Type    string   `json:"type"`
	Message *Message `json:"message,omitzero"`
	Extra   Extra    `json:",embed"`
}

// Answer returns the answer to a run that is awaiting a message.
func Answer(parts ...MessagePart) AwaitResume {
	m := UserMessage(parts...)
	return AwaitResume{Type: AwaitMessage, Message: &m}
}

// A RunCreateRequest starts a run (ACP 0.2.0, components/schemas/RunCreateRequest).
type RunCreateRequest struct {
	AgentName string    `json:"agent_name"`
	Input     []Message `json:"input"`
	Mode      RunMode   `json:"mode,omitzero"`
	SessionID string    `json:"session_id,omitzero"` // a UUID; an unknown one begins a session
	// a session of another server, with its history
	Session *Session `json:"session,omitzero"`
}

// A RunResumeRequest sends the answer to a run that is awaiting (ACP 0.2.0,
// components/schemas/RunResumeRequest).
type RunResumeRequest struct {
	RunID       string      `json:"run_id,omitzero"`
	AwaitResume AwaitResume `json:"await_resume"`
	Mode        RunMode     `json:"mode"`
}

// A Session groups runs: it holds the messages of those that were completed (ACP 0.2.0,
// components/schemas/Session).
type Session struct {
	ID      string   `json:"id"`             // a UUID
	History []string `json:"history"`        // URLs of messages, oldest first
	State   string   `json:"state,omitzero"` // URL of the state that the agent stores

	Extra Extra `json:",embed"`
}

// An EventType is the type of an event.
type EventType string

// The types of events. The comments name the member of [Event] that each has.
const (
	EventRunCreated       EventType = "run.created"       // Run
	EventRunInProgress    EventType = "run.in-progress"   // Run
	EventRunAwaiting      EventType = "run.awaiting"      // Run
	EventRunCompleted     EventType = "run.completed"     // Run
	EventRunFailed        EventType = "run.failed"        // Run
	EventRunCancelled     EventType = "run.cancelled"     // Run
	EventMessageCreated   EventType = "message.created"   // Message, without parts
	EventMessagePart      EventType = "message.part"      // Part
	EventMessageCompleted EventType = "message.completed" // Message
	EventGeneric          EventType = "generic"           // Generic
	EventError            EventType = "error"             // Error: the stream failed
)

// An Event is something that happened in a run (ACP 0.2.0, components/schemas/Event). An event of
// an unknown type has all its members in Extra.
type Event struct {
	Seq int64 `json:"-"` // number in the run, from 1; 0 if the server does not send it

	Type    EventType    `json:"type"`
	Run     *Run         `json:"run,omitzero"`
	Message *Message     `json:"message,omitzero"`
	Part    *MessagePart `json:"part,omitzero"`
	Generic jsonrpc.Raw  `json:"generic,omitzero"` // an object
	Error   *Error       `json:"error,omitzero"`

	Extra Extra `json:",embed"`
}
