package agent

import (
	"context"
	"errors"
	"fmt"
)

// A State is how a run ended.
type State string

// The states of a result.
const (
	Completed State = "completed"
	Failed    State = "failed"
	Rejected  State = "rejected" // the agent did not want to
	Cancelled State = "cancelled"
	Waiting   State = "waiting" // it waits for an answer that its caller did not have; see ErrLater
)

// What goes wrong on this side.
var (
	// ErrLater is what a Caller returns from Ask when the answer comes another time. In ACP and A2A the run then goes on waiting without its
	// caller, who comes back with Request.Run; elsewhere it is as good as ErrNoAnswer.
	ErrLater = errors.New("agent: the answer comes later")

	// ErrNoAnswer says that the question cannot be asked here, or that nobody is there to answer it.
	ErrNoAnswer = errors.New("agent: nobody answers questions here")

	// ErrNoAttach says that a protocol has no way back to a run.
	ErrNoAttach = errors.New("agent: this protocol has no way back to a run")

	// ErrCancelled is the cause that a run's context ends with when its caller cancelled it, and what a run ended with that others cancelled.
	ErrCancelled = errors.New("agent: the run was cancelled")

	// ErrUnknownAgent says that nobody has this name here.
	ErrUnknownAgent = errors.New("agent: no agent of this name")

	errName = errors.New("agent: a name is 1 to 63 of a-z, 0-9 and -, with no - at its ends")
)

// A Failure is an agent's own word that it did not do what it was asked. Its text is for the caller to read. All other errors of an agent are
// "The agent failed." outside.
type Failure struct {
	State    State // Failed or Rejected
	Text     string
	Metadata Metadata
}

func (f *Failure) Error() string { return f.Text }

// Errorf makes the failure of an agent that could not.
func Errorf(format string, args ...any) error {
	return &Failure{State: Failed, Text: fmt.Sprintf(format, args...)}
}

// Refusef makes the failure of an agent that would not.
func Refusef(format string, args ...any) error {
	return &Failure{State: Rejected, Text: fmt.Sprintf(format, args...)}
}

// A Result is how a run ended, and what came of it.
type Result struct {
	State    State     `json:"state"`
	ID       string    `json:"id,omitzero"`       // of the run, where the protocol has one
	Session  string    `json:"session,omitzero"`  // of the conversation, where it has one: for the next request
	Output   []Part    `json:"output,omitzero"`   // all that was said
	Text     string    `json:"text,omitzero"`     // of Failed and Rejected: why
	Question *Question `json:"question,omitzero"` // of Waiting
	Metadata Metadata  `json:"metadata,omitzero"`
}

// String returns the text of the output.
func (r *Result) String() string { return TextOf(r.Output) }

// Err returns nil for a run that was completed or waits, a [*Failure] for one that failed or was rejected, and ErrCancelled.
func (r *Result) Err() error {
	switch r.State {
	case Failed, Rejected:
		text := r.Text
		if text == "" {
			text = "The agent failed."
		}
		return &Failure{State: r.State, Text: text, Metadata: r.Metadata}
	case Cancelled:
		return ErrCancelled
	}
	return nil
}

// privateFailure is what is told of an error that is not for others.
const privateFailure = "The agent failed."

// ended makes the result of an agent's function.
func ended(ctx context.Context, err error) (r *Result, private error) {
	if err == nil {
		return &Result{State: Completed}, nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return &Result{State: f.State, Text: f.Text, Metadata: f.Metadata}, nil
	}
	if errors.Is(err, ErrCancelled) || ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return &Result{State: Cancelled}, nil
	}
	return &Result{State: Failed, Text: privateFailure}, err
}
