package mcp

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Request is one call, as seen by the handler of a tool, a prompt or a resource. Its buffers are
// valid until the handler returns: clone what you retain. Its methods are safe for concurrent use.
type Request struct {
	Method    string
	Name      string      // of the tool or prompt, or the URI of the resource
	Arguments jsonrpc.Raw // of a tool: an object, or nil
	Variables Variables   // of a resource that matches a template

	server       *Server
	session      *Session // nil in the modern era, and for transports without sessions
	rpc          *jsonrpc.Request
	p            params
	version      Version
	capabilities *ClientCapabilities
	level        Level
	// of the handler: after it ends, nothing is sent for the request
	live context.Context
	// closed when the client has closed its sending direction; nil if that is not observed
	over <-chan struct{}
	task atomic.Pointer[runningTask] // set if the handler continues as a task
	late *lateTask                   // set if it may become a task

	mu       sync.Mutex        // guards the fields below
	memory   *memory           // of earlier rounds; nil until needed
	asked    map[string]string // digests of the questions of this run, by key
	reported float64           // the last progress
	began    bool              // some progress was reported
}

// Version returns the protocol version of the request.
func (r *Request) Version() Version { return r.version }

// Session returns the session of the request, or nil in the modern era, which has no sessions.
func (r *Request) Session() *Session { return r.session }

// Server returns the server that handles the request.
func (r *Request) Server() *Server { return r.server }

// Client returns the client's description of itself, as far as it sent one.
func (r *Request) Client() Implementation {
	var info Implementation
	if r.p.clientInfo != nil {
		_ = r.p.clientInfo.Decode(&info) // for display only
	} else if r.session != nil {
		info = r.session.Client()
	}
	return info
}

// Capabilities returns the client's capabilities. They must not be changed.
func (r *Request) Capabilities() *ClientCapabilities { return r.capabilities }

// Meta returns the _meta of the request.
func (r *Request) Meta() Meta {
	var m Meta
	if r.p.meta != nil {
		_ = r.p.meta.Decode(&m) // ignored if it is not an object
	}
	return m
}

// ended returns why nothing may be sent for the request any more: the peer has cancelled it, its
// deadline has passed, or its link is closed (MCP 2026-07-28, Cancellation: servers MUST NOT send
// any further messages for it).
func (r *Request) ended() error {
	if r.live == nil || r.live.Err() == nil {
		return nil
	}
	return context.Cause(r.live)
}

// peer returns the Peer for messages about this request.
func (r *Request) peer() jsonrpc.Peer { return r.rpc.Peer() }

// Progress reports the progress of the request to the client, if the client requested it. A total
// of 0 means unknown; message may be empty. A value that is not greater than the last one is
// dropped (MCP 2026-07-28, Progress). After the client has cancelled the request, Progress returns
// the cause and sends nothing.
//
// In a task, message becomes the status message of the task, which clients can read and are
// notified of. A client of 2025-11-25 that requested progress also receives progress notifications
// until the task ends; the extension of 2026-07-28 has only the status message.
func (r *Request) Progress(ctx context.Context, progress, total float64, message string) error {
	if err := r.ended(); err != nil {
		return err
	}
	task := r.task.Load()
	if task != nil && message != "" {
		task.say(message)
	}
	if r.p.progressToken == nil || task != nil && task.ext {
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
	if task == nil {
		return r.peer().Notify(ctx, NotifyProgress, p)
	}
	if peer := task.notifier(); peer != nil {
		return peer.Notify(ctx, NotifyProgress, p)
	}
	return nil
}

// progressNote encodes the params of notifications/progress.
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
		dst = jsonrpc.AppendString(append(dst, `,"message":`...), p.message)
	}
	return append(dst, '}'), err
}

// Log sends a message to the client's log, if the client requested this level. A legacy client does
// so with logging/setLevel, and before that receives messages from LevelInfo on. A modern client
// sets the level in each request. logger may be empty; data is any value with a JSON form. A task
// sends no log messages.
func (r *Request) Log(ctx context.Context, level Level, logger string, data any) error {
	if err := r.ended(); err != nil {
		return err
	}
	if !r.LogEnabled(level) {
		return nil
	}
	text, err := encode(data)
	if err != nil {
		return err
	}
	return r.peer().Notify(ctx, NotifyMessage, &LogParams{Level: level, Logger: logger, Data: text})
}

// Logger returns a logger whose records are sent as by [Request.Log]. The levels of slog become
// debug, info, warning and error.
func (r *Request) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{r: r, name: name})
}

// logHandler encodes records as JSON objects, in the form of slog.JSONHandler without time and
// level.
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

// setLevel handles logging/setLevel.
func (s *Server) setLevel(r *Request) (any, error) {
	var in struct {
		Level string `json:"level"`
	}
	if err := r.rpc.Params.Decode(&in); err != nil {
		return nil, invalidParams("level must be a string")
	}
	level := ParseLevel(in.Level)
	if level == LevelNone {
		return nil, invalidParams("unknown log level")
	}
	if r.session == nil {
		return nil, jsonrpc.ErrMethodNotFound // without a session the level cannot be stored
	}
	r.session.level.Store(uint32(level))
	return empty, nil
}
