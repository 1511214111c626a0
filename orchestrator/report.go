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

// A State is the state in which a step or a run ended.
type State string

// The states of steps and runs.
const (
	OK     State = "ok"
	Failed State = "failed"
	// Cancelled means cancelled by the caller of the run, or because other branches completed the
	// join.
	Cancelled State = "cancelled"
	TimedOut  State = "timed_out"
	Skipped   State = "skipped" // it never started

	// Running is the state of a run in a store that is running, in this process or another.
	Running     State = "running"
	Interrupted State = "interrupted" // of a run in a store: its process is gone
)

// A Report is the result of a step and of the steps in it. A run's report is a tree.
type Report struct {
	// Path consists of the IDs from the top, such as reviews/alice. A step without an ID has a
	// number.
	Path string `json:"path,omitzero"`
	// Kind is plan, agent, skill, tool, call, ask, steps, parallel, map, route or loop.
	Kind    string      `json:"kind"`
	State   State       `json:"state"`
	Error   *StepError  `json:"error,omitzero"` // set in every state except OK
	Started time.Time   `json:"started,omitzero"`
	Ms      int64       `json:"ms"`
	Member  string      `json:"member,omitzero"`  // the member that executed it
	Remote  string      `json:"remote,omitzero"`  // the remote ID of the run or task
	Session string      `json:"session,omitzero"` // the remote ID of the conversation
	Tries   int         `json:"tries,omitzero"`
	Output  []AgentPart `json:"output,omitzero"`
	// Value is a JSON object: what templates see besides text, state and so on.
	Value jsonrpc.Raw `json:"value,omitzero"`
	Steps []*Report   `json:"steps,omitzero"`
}

// An AgentPart is a piece of output, as defined by package agent.
type AgentPart = agent.Part

// Text returns the text of the output.
func (r *Report) Text() string { return agent.TextOf(r.Output) }

// Err returns the report's Error, or nil if the report is OK.
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

// A StepError reports why a step failed.
type StepError struct {
	Step string `json:"step,omitzero"` // path of the step that failed first
	Kind string `json:"kind"`          // one of the constants below
	Text string `json:"text"`
	Code int64  `json:"code,omitzero"` // of KindAnswer: the JSON-RPC error code
}

// The values of the Kind of a [StepError].
const (
	KindAgent    = "agent"    // the agent or tool reported a failure
	KindRejected = "rejected" // the agent refused the request
	KindAnswer   = "answer"   // the response was a JSON-RPC error
	// KindUnreachable: the agent is not reachable, disconnected, or does not speak its protocol.
	KindUnreachable = "unreachable"
	KindTimeout     = "timeout"   // the timeout of the step or of an enclosing step passed
	KindCancelled   = "cancelled" // the caller cancelled it, or other branches completed the join
	KindQuestion    = "question"  // a question was not answered, or there were too many
	KindTooLarge    = "too_large" // the output exceeds the bound of a step
	KindTemplate    = "template"  // a template has no value
	KindJoin        = "join"      // too few branches are OK
	KindLoop        = "loop"      // the loop reached its bound before its condition was true
	KindRoute       = "route"     // there is no such case
	KindStorage     = "storage"   // the run could not be stored
	KindStuck       = "stuck"     // the step was cancelled and does not stop
	KindSkipped     = "skipped"   // the step was skipped
)

func (e *StepError) Error() string {
	if e.Step == "" {
		return e.Kind + ": " + e.Text
	}
	return e.Step + ": " + e.Kind + ": " + e.Text
}

// Causes of contexts that this package cancels.
var (
	errDone = errors.New("the join did not need it")
	errLost = errors.New("another branch failed")
)

// A timeoutError is the cause of a context whose timeout passed.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("its time limit of %v has passed", e.after) }

// failure converts the error of a call into a state and a StepError.
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
	case errors.Is(err, context.DeadlineExceeded): // includes jsonrpc.ErrTimeout
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
