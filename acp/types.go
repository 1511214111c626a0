package acp

import (
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A RunStatus is the state of a run. It goes from created to in-progress; from there to awaiting and back; and ends in one of the last
// three, by way of cancelling if it is cancelled (ACP 0.2.0, components/schemas/RunStatus).
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

// Terminal reports whether nothing comes after the state.
func (s RunStatus) Terminal() bool { return s == RunCancelled || s == RunCompleted || s == RunFailed }

// A RunMode says what is waited for: the end of the run or its question (sync), nothing (async), or each event (stream).
type RunMode string

// The modes. An empty one in a RunCreateRequest means sync.
const (
	ModeSync   RunMode = "sync"
	ModeAsync  RunMode = "async"
	ModeStream RunMode = "stream"
)

// A Run is one piece of work of an agent, as it was at one moment (ACP 0.2.0, components/schemas/Run).
type Run struct {
	ID           string        `json:"run_id"` // a UUID
	AgentName    string        `json:"agent_name"`
	SessionID    string        `json:"session_id,omitzero"` // a UUID
	Status       RunStatus     `json:"status"`
	AwaitRequest *AwaitRequest `json:"await_request,omitzero"` // while it is awaiting
	Output       []Message     `json:"output"`
	Error        *Error        `json:"error,omitzero"` // when it has failed
	CreatedAt    time.Time     `json:"created_at"`
	FinishedAt   time.Time     `json:"finished_at,omitzero"`

	Extra Extra `json:",embed"`
}

// Text returns the text of the whole output.
func (r *Run) Text() string {
	text := ""
	for _, m := range r.Output {
		text += m.Text()
	}
	return text
}

// settled reports whether nothing happens to the run until somebody asks for it.
func (r *Run) settled() bool { return r.Status.Terminal() || r.Status == RunAwaiting }

// AwaitMessage is the only type of an await request and its answer that is in use.
const AwaitMessage = "message"

// An AwaitRequest is what a run that is awaiting wants to know.
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

// Answer is the answer to a run that is awaiting a message.
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
	Session   *Session  `json:"session,omitzero"`    // a session of another server, with its history
}

// A RunResumeRequest answers a run that is awaiting (ACP 0.2.0, components/schemas/RunResumeRequest).
type RunResumeRequest struct {
	RunID       string      `json:"run_id,omitzero"`
	AwaitResume AwaitResume `json:"await_resume"`
	Mode        RunMode     `json:"mode"`
}

// A Session is what runs have in common: the messages of those that were completed (ACP 0.2.0, components/schemas/Session).
type Session struct {
	ID      string   `json:"id"`             // a UUID
	History []string `json:"history"`        // URLs of messages, oldest first
	State   string   `json:"state,omitzero"` // URL of what the agent keeps

	Extra Extra `json:",embed"`
}

// An EventType tells what an event is about.
type EventType string

// The types of events. The comment says which member of [Event] belongs to each.
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

// An Event is something that happened in a run (ACP 0.2.0, components/schemas/Event). One of an unknown type keeps everything in Extra.
type Event struct {
	Seq int64 `json:"-"` // its number in the run, from 1; 0 if the server does not tell

	Type    EventType    `json:"type"`
	Run     *Run         `json:"run,omitzero"`
	Message *Message     `json:"message,omitzero"`
	Part    *MessagePart `json:"part,omitzero"`
	Generic jsonrpc.Raw  `json:"generic,omitzero"` // an object
	Error   *Error       `json:"error,omitzero"`

	Extra Extra `json:",embed"`
}
