package middleware

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A PanicError is the panic of a handler. It wraps [jsonrpc.ErrInternal]. Like every private error
// it becomes "Internal error" on the wire: neither its value nor its stack leaves the process.
type PanicError struct {
	Method string
	Value  any    // the argument of panic
	Stack  []byte // as returned by runtime/debug.Stack
}

// Error names the method and the value, not the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("middleware: the handler of %.256q panicked: %v", e.Method, e.Value)
}

// Unwrap returns [jsonrpc.ErrInternal].
func (e *PanicError) Unwrap() error { return jsonrpc.ErrInternal }

// Recover converts a handler's panic to an error. The engine does this itself; Recover is for
// handlers that are called without the engine, and for outer middleware that must see an error.
// report, if not nil, is called with each panic on the handler's goroutine.
func Recover(report func(context.Context, *PanicError)) jsonrpc.Middleware {
	return func(next jsonrpc.Handler) jsonrpc.Handler {
		return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (result any, err error) {
			defer func() {
				if v := recover(); v != nil {
					e := &PanicError{Method: req.Method, Value: v, Stack: debug.Stack()}
					if report != nil {
						report(ctx, e)
					}
					err = e
				}
			}()
			return next.Handle(ctx, req)
		})
	}
}
