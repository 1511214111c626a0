package agent

import (
	"context"
	"errors"
	"fmt"
)

// A State is the state in which a run ended.
type State string

// The states of a result.
const (
	Completed State = "completed"
	Failed    State = "failed"
	Rejected  State = "rejected" // the agent refused the request
	Cancelled State = "cancelled"
	// Waiting means that the run waits for an answer that its caller did not have; see ErrLater.
	Waiting State = "waiting"
)

// Errors of this package.
var (
	// ErrLater is returned by a Caller's Ask if the answer will follow later. In ACP and A2A the
	// run then waits without its caller, which continues it with Request.Run. In other protocols it
	// is equivalent to ErrNoAnswer.
	ErrLater = errors.New("agent: the answer comes later")

	// ErrNoAnswer reports that a question cannot be asked or is not answered.
	ErrNoAnswer = errors.New("agent: questions cannot be answered here")

	// ErrNoAttach reports that a protocol cannot attach to a run.
	ErrNoAttach = errors.New("agent: this protocol cannot attach to a run")

	// ErrCancelled is the cause of a run's context when its caller cancelled the run, and the error
	// of a run that was cancelled.
	ErrCancelled = errors.New("agent: the run was cancelled")

	// ErrUnknownAgent reports that there is no agent with this name.
	ErrUnknownAgent = errors.New("agent: no agent of this name")

	errName = errors.New("agent: a name must be 1 to 63 of a-z, 0-9 and -, without - at its ends")
)

// An unasked is the error of a question that could not be asked. It holds the question, so that the
// caller can see it.
type unasked struct {
	text string
	err  error
}

func (e *unasked) Error() string { return fmt.Sprintf("%v: it asks %q", e.err, e.text) }

func (e *unasked) Unwrap() error { return e.err }

// public returns the text that the caller sees.
func (e *unasked) public() string {
	if e.text == "" {
		return "The agent asks a question, which this client cannot answer."
	}
	return "The agent asks “" + e.text + "”, which this client cannot answer."
}

// maxAsked bounds how many characters of a question an error contains.
const maxAsked = 200

// A Failure reports that an agent failed or refused a request. Its text is sent to the caller. All
// other errors of an agent are sent as "The agent failed."
type Failure struct {
	State    State // Failed or Rejected
	Text     string
	Metadata Metadata
}

func (f *Failure) Error() string { return f.Text }

// Errorf returns a Failure with the state Failed.
func Errorf(format string, args ...any) error {
	return &Failure{State: Failed, Text: fmt.Sprintf(format, args...)}
}

// Refusef returns a Failure with the state Rejected.
func Refusef(format string, args ...any) error {
	return &Failure{State: Rejected, Text: fmt.Sprintf(format, args...)}
}

// A Result is the result of a run.
type Result struct {
	State State  `json:"state"`
	ID    string `json:"id,omitzero"` // of the run, if the protocol has one
	// Session is the ID of the conversation, if there is one, for the next request.
	Session  string    `json:"session,omitzero"`
	Output   []Part    `json:"output,omitzero"`   // the whole output
	Text     string    `json:"text,omitzero"`     // of Failed and Rejected: the reason
	Question *Question `json:"question,omitzero"` // of Waiting
	Metadata Metadata  `json:"metadata,omitzero"`
}

// String returns the text of the output.
func (r *Result) String() string { return TextOf(r.Output) }

// Err returns nil if the run completed or waits, a [*Failure] if it failed or was rejected, and
// ErrCancelled if it was cancelled.
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

// privateFailure is the text sent for errors that are not public.
const privateFailure = "The agent failed."

// ended returns the result for the error of an agent's function.
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
	if q, ok := errors.AsType[*unasked](err); ok {
		return &Result{State: Failed, Text: q.public()}, err
	}
	return &Result{State: Failed, Text: privateFailure}, err
}
