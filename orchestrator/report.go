package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/store"
)

// A State is how a step ended, or a run.
type State string

// The states.
const (
	OK        State = "ok"
	Failed    State = "failed"
	Cancelled State = "cancelled" // by whoever started the run, or because others were done without it
	TimedOut  State = "timed_out"
	Skipped   State = "skipped" // it never began

	Running     State = "running"     // of a run in a store: it goes on, in this process or another
	Interrupted State = "interrupted" // of a run in a store: the process that did it is gone
)

// A Report tells what became of a step and of those in it. The one of a run is a tree.
type Report struct {
	Path    string      `json:"path,omitzero"` // the ids from the top, such as reviews/alice; a number stands for a step without one
	Kind    string      `json:"kind"`          // plan, agent, skill, tool, call, ask, steps, parallel, map, route or loop
	State   State       `json:"state"`
	Error   *StepError  `json:"error,omitzero"` // of all states but OK
	Started time.Time   `json:"started,omitzero"`
	Ms      int64       `json:"ms"`
	Member  string      `json:"member,omitzero"`  // who did it
	Remote  string      `json:"remote,omitzero"`  // what the run or task is called there
	Session string      `json:"session,omitzero"` // and the conversation
	Tries   int         `json:"tries,omitzero"`
	Output  []AgentPart `json:"output,omitzero"`
	Value   jsonrpc.Raw `json:"value,omitzero"` // what templates see of it beside its text, its state and so on: an object
	Steps   []*Report   `json:"steps,omitzero"`
}

// An AgentPart is a piece of output, as package agent has it.
type AgentPart = agent.Part

// Text returns the text of the output.
func (r *Report) Text() string { return agent.TextOf(r.Output) }

// Err returns nil for a report that is OK, and else its Error.
func (r *Report) Err() error {
	if r.State == OK || r.Error == nil {
		return nil
	}
	return r.Error
}

// Find returns the report of a step by its path, or nil.
func (r *Report) Find(path string) *Report {
	if r.Path == path {
		return r
	}
	for _, s := range r.Steps {
		if found := s.Find(path); found != nil {
			return found
		}
	}
	return nil
}

// A StepError says why a step did not do what it should.
type StepError struct {
	Step string `json:"step,omitzero"` // path of the step it began with
	Kind string `json:"kind"`          // one of the constants below
	Text string `json:"text"`
	Code int64  `json:"code,omitzero"` // of KindAnswer: the JSON-RPC error code
}

// What went wrong: the Kind of a [StepError].
const (
	KindAgent       = "agent"       // the agent, or the tool, says that it could not
	KindRejected    = "rejected"    // the agent says that it would not
	KindAnswer      = "answer"      // a JSON-RPC error was answered
	KindUnreachable = "unreachable" // the agent is not there, went away, or does not speak its protocol
	KindTimeout     = "timeout"     // the step's time is over, or that of one around it
	KindCancelled   = "cancelled"   // somebody cancelled it, or others were done without it
	KindQuestion    = "question"    // a question that nobody answers, or one too many
	KindTooLarge    = "too_large"   // more output than a step may have
	KindTemplate    = "template"    // a template has no value
	KindJoin        = "join"        // too few branches are ok
	KindLoop        = "loop"        // the loop was at its bound before its condition was true
	KindRoute       = "route"       // there is no such case
	KindStorage     = "storage"     // the run cannot be written down
	KindStuck       = "stuck"       // it was cancelled and does not stop
	KindSkipped     = "skipped"     // it was not its turn
)

func (e *StepError) Error() string {
	if e.Step == "" {
		return e.Kind + ": " + e.Text
	}
	return e.Step + ": " + e.Kind + ": " + e.Text
}

// Causes of contexts that this package ends.
var (
	errDone = errors.New("the others were done without it")
	errLost = errors.New("another branch failed")
)

// A timeoutError is the cause of a context whose time is over.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("the %v it had are over", e.after) }

// failure makes a state and an error of what a call returned.
func failure(ctx context.Context, err error) (State, *StepError) {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
		if _, late := errors.AsType[*timeoutError](err); !late && !errors.Is(err, context.DeadlineExceeded) {
			return Cancelled, &StepError{Kind: KindCancelled, Text: err.Error()}
		}
	}
	if e, ok := errors.AsType[*StepError](err); ok {
		c := *e
		return Failed, &c
	}
	if e, ok := errors.AsType[*timeoutError](err); ok {
		return TimedOut, &StepError{Kind: KindTimeout, Text: e.Error()}
	}
	if e, ok := errors.AsType[*agent.Failure](err); ok {
		kind := KindAgent
		if e.State == agent.Rejected {
			kind = KindRejected
		}
		return Failed, &StepError{Kind: kind, Text: or(e.Text, "it gave no reason")}
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return Failed, &StepError{Kind: KindAnswer, Text: e.Message, Code: e.Code}
	}
	if e, ok := errors.AsType[*store.Fault](err); ok {
		return Failed, &StepError{Kind: KindStorage, Text: e.Reason, Code: store.FaultCode}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded): // jsonrpc.ErrTimeout too
		return TimedOut, &StepError{Kind: KindTimeout, Text: err.Error()}
	case errors.Is(err, agent.ErrNoAnswer), errors.Is(err, agent.ErrLater), errors.Is(err, mcp.ErrTooManyRounds):
		return Failed, &StepError{Kind: KindQuestion, Text: err.Error()}
	case errors.Is(err, agent.ErrCancelled):
		return Failed, &StepError{Kind: KindCancelled, Text: "the agent cancelled it"}
	case errors.Is(err, store.ErrLimit), errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrClosed):
		return Failed, &StepError{Kind: KindStorage, Text: err.Error()}
	}
	return Failed, &StepError{Kind: KindUnreachable, Text: err.Error()}
}
