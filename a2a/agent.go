package a2a

import (
	"context"
	"errors"
)

// An Agent does the work of a [Server].
//
// Run is called for each new task, and again for a message to a task that rests. What it does, it says by the methods of the Run. When it
// returns nil, the task is completed, unless it left the task waiting for input. An error that is a [*Failure] ends the task as that
// says. A *jsonrpc.Error goes to the caller instead of a task, if nothing was said yet. Any other error, and a panic, fails the task
// and stays here: the caller reads "The agent failed."
//
// ctx ends when the task is canceled, with [ErrCanceled] as cause, or when the server closes. It does not end with the caller's
// connection: a task outlives it. Run is called on many goroutines at once.
type Agent interface {
	Run(ctx context.Context, r *Run) error
}

// An AgentFunc makes a function an Agent.
type AgentFunc func(ctx context.Context, r *Run) error

// Run calls f.
func (f AgentFunc) Run(ctx context.Context, r *Run) error { return f(ctx, r) }

// What an agent's methods return when there is nothing more to do.
var (
	ErrCanceled = errors.New("a2a: the task was canceled")
	ErrTaskOver = errors.New("a2a: the task is over")
	ErrTooLarge = errors.New("a2a: the task has grown over its limit")
)

// A Failure is how an agent ends a task that did not work, in its own words. They are sent.
type Failure struct {
	State TaskState // StateFailed when empty
	Parts []Part
}

func (f *Failure) Error() string { return "a2a: " + string(f.State) + ": " + TextOf(f.Parts) }

// Fail makes the error for a task that did not work.
func Fail(text string) error { return &Failure{StateFailed, []Part{Text(text)}} }

// Reject makes the error for a task that the agent does not take on.
func Reject(text string) error { return &Failure{StateRejected, []Part{Text(text)}} }
