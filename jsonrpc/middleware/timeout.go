package middleware

import (
	"context"
	"errors"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Timeout ends the context of a handler after all, or after what methods says for its method; zero and less mean no bound. The
// cause is [jsonrpc.ErrTimeout]. A handler that then returns with an error is answered with [jsonrpc.CodeDeadline]; one that
// returns a result in spite of it is believed.
//
// It waits for the handler. The engine's own Deadline answers at once, also for a handler that does not listen; this one
// is for a bound per method, below the engine's.
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

// errPassed tells our own deadline from the engine's and the caller's.
var errPassed = passed{}

type passed struct{}

func (passed) Error() string { return jsonrpc.ErrTimeout.Error() }
func (passed) Unwrap() error { return jsonrpc.ErrTimeout }

// isPassed reports whether err is how a handler says that our deadline ended it. An answer of its own stays.
func isPassed(ctx context.Context, err error) bool {
	if !errors.Is(context.Cause(ctx), errPassed) {
		return false
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, jsonrpc.ErrTimeout)
}
