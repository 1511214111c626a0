package orchestrator

import (
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Event is one event of a run.
type Event struct {
	Seq      uint64          `json:"seq,omitzero"` // of stored events: the number in the run's log
	Run      string          `json:"run"`
	Kind     string          `json:"kind"`
	Time     time.Time       `json:"time"`
	Path     string          `json:"path,omitzero"` // of the step
	Member   string          `json:"member,omitzero"`
	Plan     string          `json:"plan,omitzero"`     // of EventRunStarted: the plan's name
	Input    jsonrpc.Raw     `json:"input,omitzero"`    // of EventRunStarted
	Step     string          `json:"step,omitzero"`     // of EventStarted: the kind of step
	Try      int             `json:"try,omitzero"`      // of EventStarted, from 1
	Parts    []agent.Part    `json:"parts,omitzero"`    // of EventOutput
	Progress *agent.Progress `json:"progress,omitzero"` // of EventProgress
	Question *agent.Question `json:"question,omitzero"` // of EventQuestion
	Answer   *agent.Answer   `json:"answer,omitzero"`   // of EventAnswered
	Error    *StepError      `json:"error,omitzero"`    // of EventRetry
	// Report is set by EventEnded, without nested steps, and by EventRunEnded, without output.
	Report *Report `json:"report,omitzero"`
	// Text is set by EventRunEnded: the result of the run as text.
	Text string `json:"text,omitzero"`
}

// Kinds of events. Output and progress are reported but not stored.
const (
	EventRunStarted = "run_started"
	EventStarted    = "started" // stored before the call is sent
	EventOutput     = "output"
	EventProgress   = "progress"
	EventQuestion   = "question"
	EventAnswered   = "answered"
	EventRetry      = "retry"
	EventEnded      = "ended" // stored before the result is used
	EventRunEnded   = "run_ended"
)
