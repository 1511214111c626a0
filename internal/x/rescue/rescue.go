// Package rescue recovers panics of users' functions on goroutines that parley starts. Without it,
// a panic there ends the process. Functions that run on a goroutine of the caller, or of an
// [http.Server], panic there.
package rescue

import (
	"fmt"
	"runtime/debug"

	"github.com/da1ed7bb/parley/internal/x/report"
)

// An Error is a panic that was recovered. Its text holds the value of the panic, without the stack.
// It is not for peers.
type Error struct {
	Value any    // of the panic
	Stack []byte // of the goroutine, as debug.Stack returns it
}

func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Catch recovers a panic of the function that defers it, reports it as "panic" with its stack, and
// calls then with it. If f is nil, slog's default logger logs the panic; then may be nil. A Report
// function that panics is logged too. Catch must be deferred directly:
//
//	defer rescue.Catch(c.opts.Report, nil)
func Catch(f func(what string, err error), then func(err error)) {
	value := recover()
	if value == nil {
		return
	}
	if err := Caught(f, value); then != nil {
		then(err)
	}
}

// Caught reports a panic as [Catch] does, for deferred functions that call recover themselves so
// that nothing is allocated. value is not nil. The error is an [*Error].
func Caught(f func(what string, err error), value any) error {
	err := &Error{Value: value, Stack: debug.Stack()}
	report.Or(f, "parley")("panic", fmt.Errorf("%w\n%s", err, err.Stack))
	return err
}

// Call runs f and returns its error. A panic is reported as [Catch] does, and returned as an
// [*Error].
func Call(r func(what string, err error), f func() error) (err error) {
	defer Catch(r, func(e error) { err = e })
	return f()
}

// Run runs f. A panic is reported as [Catch] does, and returned as an [*Error].
func Run(r func(what string, err error), f func()) (err error) {
	defer Catch(r, func(e error) { err = e })
	f()
	return nil
}
