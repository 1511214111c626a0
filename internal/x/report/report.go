// Package report is where a server without a Report function reports to: slog's default logger. No
// other package writes to a stream that it was not given.
package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/da1ed7bb/parley/internal/x/harmless"
)

// maxText bounds one report, in letters: an error may quote what a peer sent.
const maxText = 8192

// ofPeers are reports that any peer can cause, as often as it sends a message. They are logged with
// the level Debug, which slog's default logger drops: strangers must not be able to fill a log. A
// test compares them with the comments of the constants, which other packages declare.
var ofPeers = []string{
	"response without a waiting call", "response with an unknown id in a batch", "broken connection", "broken stream", "connection", "connection refused", "denied", "dropped",
	"frame", "garbage", "message after the response", "message of the server", "no such call was recorded", "notification", "notification of the server",
	"refused", "request", "request of the server", "run dropped", "session dropped", "update", "upgrade",
}

// Level returns the level that a report is logged with.
func Level(what string, err error) slog.Level {
	if err == nil || errors.Is(err, context.Canceled) || slices.Contains(ofPeers, what) {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// Or returns f, or a function that logs with slog's default logger if f is nil. name comes before
// each text. Errors of handlers and panics have the level Error; messages of peers that were
// refused or dropped, calls that were cancelled, and reports without an error have Debug. Control
// characters and new lines are escaped, and a text ends after 8,192 letters. The function is safe
// for concurrent use.
func Or(f func(what string, err error), name string) func(what string, err error) {
	if f != nil {
		return func(what string, err error) { Call(f, name, what, err) }
	}
	return func(what string, err error) { Log(name, what, err) }
}

// Call calls f. If f panics, it logs the report and the panic: reports come from goroutines of
// parley, where a panic would end the process. If f is nil, it logs panics as the function of [Or]
// does, and drops all other reports.
func Call(f func(what string, err error), name, what string, err error) {
	if f == nil {
		if what == "panic" {
			Log(name, what, err)
		}
		return
	}
	defer func() {
		if value := recover(); value != nil {
			Log(name, what, err)
			Log(name, "panic", fmt.Errorf("the Report function panicked: %v\n%s", value, debug.Stack()))
		}
	}()
	f(what, err)
}

// Log logs one report as the function of [Or] does.
func Log(name, what string, err error) { To(nil, name+": "+what, Level(what, err), err) }

// To logs a report with logger, or with the value of [slog.Default] if that is nil, as text and
// err. Both are escaped and cut as by [Or].
func To(logger *slog.Logger, text string, level slog.Level, err error, more ...slog.Attr) {
	defer func() { _ = recover() }() // of a user's slog.Handler; nothing is left that could log it
	if logger == nil {
		logger = slog.Default()
	}
	ctx := context.Background()
	if !logger.Enabled(ctx, level) {
		return
	}
	if err != nil {
		more = append(more, slog.String("error", harmless.Cut(err.Error(), maxText)))
	}
	logger.LogAttrs(ctx, level, harmless.Cut(text, maxText), more...) //nolint:sloglint // what happened is the message
}
