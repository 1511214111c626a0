package middleware

import (
	"context"
	"errors"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// SlogOptions tune [Slog]. The zero value is ready for use.
type SlogOptions struct {
	// Level of requests that got a result. Nil means Info.
	Level slog.Leveler

	// ErrorLevel of requests that the handler answered with a [jsonrpc.Error]. Nil means Warn. Private errors and panics,
	// which the peer sees as "Internal error", are always logged at Error.
	ErrorLevel slog.Leveler

	// Group puts all attributes into a group of that name. Empty: no group.
	Group string

	// Params logs the params too, in a record of its own at Debug before the handler runs, made harmless by Redact and cut to
	// 1 KiB. The other records never hold params or results, at any level.
	Params bool

	// Redact makes params harmless. Nil means new(Redactor).
	Redact *Redactor
}

// Bounds of what a peer can put into a log.
const (
	maxLogName   = 256
	maxLogParams = 1024
)

// Slog logs each request when it is done, with the attributes
//
//	method        cut to 256 bytes
//	id            the JSON text, cut likewise; absent for a notification
//	duration      of the handler
//	params_bytes  length of the params as JSON text; 0 without
//	result_bytes  length of the result, if that is text already (jsonrpc.Raw)
//	code          of the error; for a private one the code that goes out in its place
//	error         the message; a private error whole, which is where its text belongs
//
// The context goes to the Handler of logger, so that it can add a trace. A nil logger discards all and costs nothing.
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
	about, size := l.about(req), len(req.Params) // the request is the handler's from here on
	panicked := true
	defer func() {
		about = append(about, slog.Duration("duration", time.Since(start)), slog.Int("params_bytes", size))
		if panicked { // it goes on behind us: nothing is recovered here
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

// outcome adds what the error says. The codes of private errors are those that the engine sends.
func (l *accessLog) outcome(ctx context.Context, err error, about []slog.Attr) (slog.Level, []slog.Attr) {
	if err == nil {
		return l.level.Level(), about
	}
	if e, ok := err.(*jsonrpc.Error); ok { //nolint:errorlint // one that is wrapped is private
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

// cut shortens text to n bytes at most, between characters, and shows that it did.
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
