package jsonrpc

import "errors"

// ErrNotSent is in the error of a call, a notification or a batch of which no byte was passed to a
// transport: the peer cannot have run it, so that sending it again cannot run it twice. It adds no
// text to the error.
//
// An error that is neither this nor an *[Error] means that the peer may or may not have run the
// call: for instance [ErrClosed] while the call waited for its response, or the end of its context.
var ErrNotSent = errors.New("jsonrpc: nothing was sent")

// NotSent reports whether err means that nothing was sent. It is errors.Is(err, ErrNotSent).
func NotSent(err error) bool { return errors.Is(err, ErrNotSent) }

// AsNotSent adds ErrNotSent to err, for transports outside this package: errors.Is and errors.As
// find both, and the text is unchanged. It returns nil for nil.
func AsNotSent(err error) error {
	if err == nil || errors.Is(err, ErrNotSent) {
		return err
	}
	return &notSentError{err}
}

type notSentError struct{ err error }

func (e *notSentError) Error() string        { return e.err.Error() }
func (e *notSentError) Unwrap() error        { return e.err }
func (e *notSentError) Is(target error) bool { return target == ErrNotSent }
