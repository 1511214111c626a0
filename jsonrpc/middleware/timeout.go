package middleware

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Timeout cancels the context of a handler after all, or after the entry of its method in methods;
// zero or a negative value means no bound. The cause is [jsonrpc.ErrTimeout]. If the handler then
// returns an error, the response is [jsonrpc.CodeDeadline]. If it returns a result nevertheless,
// the result is sent.
//
// Timeout waits for the handler. The engine's own Deadline sends a response at once, even if the
// handler ignores its context; use Timeout for a shorter bound per method.
func Timeout(all time.Duration, methods map[string]time.Duration) jsonrpc.Middleware {
	own := make(map[string]time.Duration, len(methods))
	for name, d := range methods {
		own[name] = d
	}
	return func(next jsonrpc.Handler) jsonrpc.Handler {
		return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			d, ok := own[req.Method]
			if !ok {
				d = all
			}
			if d <= 0 {
				return next.Handle(ctx, req)
			}
			ctx, cancel := context.WithTimeoutCause(ctx, d, errPassed)
			defer cancel()
			result, err := next.Handle(ctx, req)
			if err == nil || !isPassed(ctx, err) {
				return result, err
			}
			return nil, jsonrpc.NewError(jsonrpc.CodeDeadline, "Deadline exceeded").
				WithData(jsonrpc.FaultData{Reason: "deadline", Retryable: true})
		})
	}
}

// errPassed distinguishes this deadline from those of the engine and the caller.
var errPassed = passed{}

type passed struct{}

func (passed) Error() string { return jsonrpc.ErrTimeout.Error() }
func (passed) Unwrap() error { return jsonrpc.ErrTimeout }

// isPassed reports whether err is the handler's way of reporting that this deadline passed. A
// response of the handler's own is not changed.
func isPassed(ctx context.Context, err error) bool {
	if !errors.Is(context.Cause(ctx), errPassed) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jsonrpc.ErrTimeout)
}
