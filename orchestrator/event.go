package orchestrator

import (
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An Event is what happens in a run.
type Event struct {
	Seq      uint64          `json:"seq,omitzero"` // of events that are kept in a store: the number in the run's log
	Run      string          `json:"run"`
	Kind     string          `json:"kind"`
	Time     time.Time       `json:"time"`
	Path     string          `json:"path,omitzero"` // of the step
	Member   string          `json:"member,omitzero"`
	Plan     string          `json:"plan,omitzero"`     // of EventRunStarted: the name
	Input    jsonrpc.Raw     `json:"input,omitzero"`    // of EventRunStarted
	Step     string          `json:"step,omitzero"`     // of EventStarted: what kind it is
	Try      int             `json:"try,omitzero"`      // of EventStarted, from 1
	Parts    []agent.Part    `json:"parts,omitzero"`    // of EventOutput
	Progress *agent.Progress `json:"progress,omitzero"` // of EventProgress
	Question *agent.Question `json:"question,omitzero"` // of EventQuestion
	Answer   *agent.Answer   `json:"answer,omitzero"`   // of EventAnswered
	Error    *StepError      `json:"error,omitzero"`    // of EventRetry
	Report   *Report         `json:"report,omitzero"`   // of EventEnded without the steps in it, of EventRunEnded without output
	Text     string          `json:"text,omitzero"`     // of EventRunEnded: what came of the run
}

// Kinds of events. Output and progress are told, and not kept.
const (
	EventRunStarted = "run_started"
	EventStarted    = "started" // kept before the call is sent
	EventOutput     = "output"
	EventProgress   = "progress"
	EventQuestion   = "question"
	EventAnswered   = "answered"
	EventRetry      = "retry"
	EventEnded      = "ended" // kept before anybody uses the result
	EventRunEnded   = "run_ended"
)
