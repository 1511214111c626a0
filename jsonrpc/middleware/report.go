package middleware

import (
	"errors"
	"log/slog"

	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Report returns a function for the Report fields of all packages, such as
// [jsonrpc.Answerer.Report]. It logs each report as one record. The message is the first argument,
// and the attributes are
//
//	method     of the request, if the error is a [jsonrpc.HandlerError] or a [jsonrpc.PanicError];
//	           cut to 256 bytes
//	reference  of a [jsonrpc.PanicError], which the peer received
//	error      the text of the error; absent if it is nil
//
// The level is Debug for what any peer can cause as often as it sends a message, for cancelled
// calls and for reports without an error, and Error for the rest: docs/reports.md lists both.
// Control characters and new lines are escaped, and message and error end after 8,192 letters. If
// logger is nil, each report uses the value of [slog.Default] at that time. The function is safe
// for concurrent use.
func Report(logger *slog.Logger) func(what string, err error) {
	return func(what string, err error) {
		var more []slog.Attr
		if e, ok := errors.AsType[*jsonrpc.PanicError](err); ok {
			more = append(more, slog.String("method", cut(e.Method, maxLogName)), slog.Int64("reference", e.Reference))
		} else if e, ok := errors.AsType[*jsonrpc.HandlerError](err); ok {
			more = append(more, slog.String("method", cut(e.Method, maxLogName)))
		}
		report.To(logger, what, report.Level(what, err), err, more...)
	}
}
