package middleware

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// SlogOptions configures [Slog]. The zero value is ready for use.
type SlogOptions struct {
	// Level is the level of requests that returned a result. If nil, it is Info.
	Level slog.Leveler

	// ErrorLevel is the level of requests for which the handler returned a [jsonrpc.Error]. If nil,
	// it is Warn. Private errors and panics, which the peer sees as "Internal error", are always
	// logged at Error.
	ErrorLevel slog.Leveler

	// Group puts all attributes into a group of that name. If empty, there is no group.
	Group string

	// Params also logs the params, in a separate record at Debug before the handler runs, redacted
	// by Redact and cut to 1 KiB. The other records never contain params or results, at any level.
	Params bool

	// Redact redacts params. If nil, new(Redactor) is used.
	Redact *Redactor
}

// Bounds of what a peer can write to a log.
const (
	maxLogName   = 256
	maxLogParams = 1024
)

// Slog logs each request after it was handled, with the attributes
//
//	method        cut to 256 bytes
//	id            the JSON text, cut likewise; absent for a notification
//	duration      of the handler
//	params_bytes  length of the params as JSON text; 0 without params
//	result_bytes  length of the result if it is already text (jsonrpc.Raw)
//	code          of the error; for a private error, the code that is sent instead
//	error         the message; for a private error, its whole text
//
// The context is passed to the Handler of logger, so that the Handler can add a trace. If logger is
// nil, everything is discarded at no cost.
func Slog(logger *slog.Logger, o *SlogOptions) jsonrpc.Middleware {
	if logger == nil {
		return func(next jsonrpc.Handler) jsonrpc.Handler { return next }
	}
	l := accessLog{Logger: logger, level: slog.LevelInfo, errorLevel: slog.LevelWarn, redact: new(Redactor)}
	if o != nil {
		l.group, l.params = o.Group, o.Params
		if o.Level != nil {
			l.level = o.Level
		}
		if o.ErrorLevel != nil {
			l.errorLevel = o.ErrorLevel
		}
		if o.Redact != nil {
			l.redact = o.Redact
		}
	}
	return func(next jsonrpc.Handler) jsonrpc.Handler {
		return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			return l.handle(ctx, req, next)
		})
	}
}

type accessLog struct {
	*slog.Logger
	level, errorLevel slog.Leveler
	group             string
	params            bool
	redact            *Redactor
}

func (l *accessLog) handle(ctx context.Context, req *jsonrpc.Request, next jsonrpc.Handler) (result any, err error) {
	if l.params && l.Enabled(ctx, slog.LevelDebug) {
		l.write(ctx, slog.LevelDebug, append(l.about(req), slog.String("params", cut(l.redact.text(req.Params, maxLogParams), maxLogParams))))
	}
	start := time.Now()
	about, size := l.about(req), len(req.Params) // from here on the handler owns the request
	panicked := true
	defer func() {
		about = append(about, slog.Duration("duration", time.Since(start)), slog.Int("params_bytes", size))
		if panicked { // the panic continues: it is not recovered here
			l.write(ctx, slog.LevelError, append(about, slog.Int64("code", jsonrpc.CodeInternalError), slog.String("error", "panic")))
			return
		}
		if raw, ok := result.(jsonrpc.Raw); ok && err == nil {
			about = append(about, slog.Int("result_bytes", len(raw)))
		}
		level, about := l.outcome(ctx, err, about)
		l.write(ctx, level, about)
	}()
	result, err = next.Handle(ctx, req)
	panicked = false
	return result, err
}

func (l *accessLog) about(req *jsonrpc.Request) []slog.Attr {
	about := make([]slog.Attr, 0, 8)
	about = append(about, slog.String("method", cut(req.Method, maxLogName)))
	if !req.IsNotification() {
		about = append(about, slog.String("id", cut(req.ID.String(), maxLogName)))
	}
	return about
}

// outcome adds the attributes of the error. For private errors it uses the codes that the engine
// sends.
func (l *accessLog) outcome(ctx context.Context, err error, about []slog.Attr) (slog.Level, []slog.Attr) {
	if err == nil {
		return l.level.Level(), about
	}
	if e, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // a wrapped one is private
		return l.errorLevel.Level(), append(about, slog.Int64("code", e.Code), slog.String("error", e.Message))
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), jsonrpc.ErrPeerCancelled) {
		return l.level.Level(), append(about, slog.Int64("code", jsonrpc.CodeCancelled), slog.String("error", err.Error()))
	}
	return slog.LevelError, append(about, slog.Int64("code", jsonrpc.CodeInternalError), slog.Any("error", err))
}

func (l *accessLog) write(ctx context.Context, level slog.Level, attrs []slog.Attr) {
	if l.group != "" {
		attrs = []slog.Attr{{Key: l.group, Value: slog.GroupValue(attrs...)}}
	}
	l.LogAttrs(ctx, level, "request", attrs...)
}

// cut shortens text to at most n bytes, between characters, and marks the cut.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "…"
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + mark
}
