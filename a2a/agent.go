package a2a

import (
	"context"
	"errors"
)

// An Agent does the work of a [Server].
//
// Run is called for each new task, and again for a message to a task that waits for input. It
// reports progress and results through the methods of the Run. If it returns nil, the task is
// completed, unless the agent left it waiting for input. A [*Failure] ends the task with its state
// and parts. A *jsonrpc.Error is sent to the caller instead of a task if nothing was emitted
// before. Any other error, and a panic, fails the task and is reported locally only: the caller
// reads "The agent failed."
//
// ctx is canceled when the task is canceled, with [ErrCanceled] as its cause, or when the server
// closes. It is not canceled with the caller's connection: a task outlives the connection. Run is
// called concurrently from many goroutines.
type Agent interface {
	Run(ctx context.Context, r *Run) error
}

// AgentFunc is an adapter that lets a function be used as an [Agent].
type AgentFunc func(ctx context.Context, r *Run) error

// Run calls f.
func (f AgentFunc) Run(ctx context.Context, r *Run) error { return f(ctx, r) }

// Errors that the methods of a [Run] return when the task accepts no further events.
var (
	ErrCanceled = errors.New("a2a: the task was canceled")
	ErrTaskOver = errors.New("a2a: the task has ended")
	ErrTooLarge = errors.New("a2a: the task exceeds its size limit")
)

// A Failure is an error with which an agent ends a task that did not succeed. State and Parts are
// sent to the caller.
type Failure struct {
	State TaskState // StateFailed if empty
	Parts []Part
}

func (f *Failure) Error() string { return "a2a: " + string(f.State) + ": " + TextOf(f.Parts) }

// Fail returns a [*Failure] that ends the task as failed, with text for the caller.
func Fail(text string) error { return &Failure{StateFailed, []Part{Text(text)}} }

// Reject returns a [*Failure] that ends the task as rejected, with text for the caller.
func Reject(text string) error { return &Failure{StateRejected, []Part{Text(text)}} }
