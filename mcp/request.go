package mcp

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Request is one call as the handler of a tool, a prompt or a resource sees it. Its bytes are its own until the handler returns: Clone
// what is kept. Its methods are safe for concurrent use.
type Request struct {
	Method    string
	Name      string      // of the tool or prompt, or the URI of the resource
	Arguments jsonrpc.Raw // of a tool: an object, or nil
	Variables Variables   // of a resource that a template named

	server       *Server
	session      *Session // nil in the modern era, and for carriers without sessions
	rpc          *jsonrpc.Request
	p            params
	version      Version
	capabilities *ClientCapabilities
	level        Level
	over         <-chan struct{}             // closed when the client has said its last word; nil: nobody tells
	task         atomic.Pointer[runningTask] // when the handler goes on as a task
	late         *lateTask                   // when it may become one

	mu       sync.Mutex // guards what follows
	memory   *memory    // of earlier rounds; nil until asked for
	asked    map[string]bool
	reported float64 // the last progress
	began    bool    // some progress was reported
}

// Version returns the revision that the request is in.
func (r *Request) Version() Version { return r.version }

// Session returns the conversation, which is nil in the modern era, where none is.
func (r *Request) Session() *Session { return r.session }

// Server returns the server that answers.
func (r *Request) Server() *Server { return r.server }

// Client returns how the client presents itself, as far as it does.
func (r *Request) Client() Implementation {
	var info Implementation
	if r.p.clientInfo != nil {
		_ = r.p.clientInfo.Decode(&info) // display only
	} else if r.session != nil {
		info = r.session.Client()
	}
	return info
}

// Capabilities returns what the client can be asked. It is not to be changed.
func (r *Request) Capabilities() *ClientCapabilities { return r.capabilities }

// Meta returns the _meta of the request.
func (r *Request) Meta() Meta {
	var m Meta
	if r.p.meta != nil {
		_ = r.p.meta.Decode(&m) // not an object: nothing in it
	}
	return m
}

// peer is where messages about this request go.
func (r *Request) peer() jsonrpc.Peer { return r.rpc.Peer() }

// Progress tells the client how far the request has come, if it asked for that; total may be 0 for unknown, message empty. What does not
// grow is dropped (MCP 2026-07-28, Progress). A task reports nothing.
func (r *Request) Progress(ctx context.Context, progress, total float64, message string) error {
	if r.p.progressToken == nil || r.task.Load() != nil {
		return nil
	}
	r.mu.Lock()
	grows := !r.began || progress > r.reported
	if grows {
		r.began, r.reported = true, progress
	}
	r.mu.Unlock()
	if !grows {
		return nil
	}
	p := progressNote{token: r.p.progressToken, progress: progress, total: total}
	if r.version.HasAudio() {
		p.message = message
	}
	return r.peer().Notify(ctx, NotifyProgress, p)
}

// progressNote writes the params of notifications/progress.
type progressNote struct {
	token           jsonrpc.Raw
	progress, total float64
	message         string
}

func (p progressNote) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(append(dst, `{"progressToken":`...), p.token...)
	dst, err := appendValue(append(dst, `,"progress":`...), p.progress)
	if err == nil && p.total != 0 {
		dst, err = appendValue(append(dst, `,"total":`...), p.total)
	}
	if p.message != "" {
		dst = appendString(append(dst, `,"message":`...), p.message)
	}
	return append(dst, '}'), err
}

// Log sends a message to the client's log, if it wants those of this level: a legacy client by logging/setLevel, until then from
// LevelInfo on, a modern one by saying so in the request. logger may be empty, data is anything that has a JSON form. A task logs nothing.
func (r *Request) Log(ctx context.Context, level Level, logger string, data any) error {
	if !r.LogEnabled(level) {
		return nil
	}
	text, err := encode(data)
	if err != nil {
		return err
	}
	return r.peer().Notify(ctx, NotifyMessage, &LogParams{Level: level, Logger: logger, Data: text})
}

// Logger returns a logger whose records go to the client's log as [Request.Log] sends them: levels of slog become debug, info, warning and error.
func (r *Request) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{r: r, name: name})
}

// logHandler writes records as JSON objects, in the form of slog.JSONHandler without time and level.
type logHandler struct {
	r      *Request
	name   string
	attach []func(slog.Handler) slog.Handler // WithAttrs and WithGroup, in order
}

func levelOf(l slog.Level) Level {
	switch {
	case l >= slog.LevelError:
		return LevelError
	case l >= slog.LevelWarn:
		return LevelWarning
	case l >= slog.LevelInfo:
		return LevelInfo
	}
	return LevelDebug
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return h.r.LogEnabled(levelOf(l)) }

func (h *logHandler) Handle(ctx context.Context, rec slog.Record) error {
	var b bytes.Buffer
	var out slog.Handler = slog.NewJSONHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug - 100, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}})
	for _, f := range h.attach {
		out = f(out)
	}
	if err := out.Handle(ctx, rec); err != nil {
		return err
	}
	return h.r.Log(ctx, levelOf(rec.Level), h.name, jsonrpc.Raw(bytes.TrimSpace(b.Bytes())))
}

func (h *logHandler) with(f func(slog.Handler) slog.Handler) slog.Handler {
	c := *h
	c.attach = append(h.attach[:len(h.attach):len(h.attach)], f)
	return &c
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(o slog.Handler) slog.Handler { return o.WithAttrs(attrs) })
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return h.with(func(o slog.Handler) slog.Handler { return o.WithGroup(name) })
}

// LogEnabled reports whether [Request.Log] would send a message of this level.
func (r *Request) LogEnabled(level Level) bool {
	wanted := r.level
	if wanted == LevelNone && !r.version.Modern() {
		wanted = LevelInfo
	}
	return wanted != LevelNone && level >= wanted && r.task.Load() == nil
}

// setLevel answers logging/setLevel.
func (s *Server) setLevel(r *Request) (any, error) {
	var in struct {
		Level string `json:"level"`
	}
	if err := r.rpc.Params.Decode(&in); err != nil {
		return nil, invalidParams("level is a string")
	}
	level := ParseLevel(in.Level)
	if level == LevelNone {
		return nil, invalidParams("unknown log level")
	}
	if r.session == nil {
		return nil, jsonrpc.ErrMethodNotFound // nobody would remember it
	}
	r.session.level.Store(uint32(level))
	return empty, nil
}
