package acphttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

// NewRPC serves the JSON-RPC binding of package acp over POST, at whatever path. What asks for a stream gets one, unless its Accept
// forbids that (406): each event has its number as id, Run-ID names the run, and the response comes last. Runs/subscribe without "after"
// goes on behind the header Last-Event-ID. What is wrong with a request is said in plain JSON. Everything else is as in package httprpc.
// The error is about names in the options.
func NewRPC(s *acp.Server, o *Options) (http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	b := &rpc{opts: *o}
	s.Configure(&b.answerer)
	b.answerer.Cancellation = jsonrpc.Cancellation{} // anybody's id could be meant: over HTTP, going away cancels
	b.plain = httprpc.Server{Answerer: &b.answerer, MaxMessage: o.MaxMessage, KeepAlive: o.KeepAlive, WriteTimeout: o.WriteTimeout}
	return b.opts.door(b)
}

type rpc struct {
	opts     Options
	answerer jsonrpc.Answerer
	plain    httprpc.Server // for all that is no stream
	memory   guard.Memory
	watch    guard.Watch
}

// ServeHTTP answers one POST.
func (b *rpc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := guard.Body{Max: b.opts.MaxMessage, Memory: &b.memory, Watch: &b.watch}
	if r.Method != http.MethodPost || body.Check(r) != nil {
		b.plain.ServeHTTP(w, r)
		return
	}
	text, refused := body.Read(w, r, nil)
	if refused != nil {
		refused.Write(w, r)
		return
	}
	defer body.Done(len(text))
	if !isStream(text) {
		again := *r // a copy: what came belongs to the server
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		b.plain.ServeHTTP(w, &again)
		return
	}
	if q, _ := guard.Quality(r.Header["Accept"], sse.ContentType); q == 0 {
		guard.NotAcceptable().Write(w, r)
		return
	}
	b.stream(w, r, text)
}

// isStream reports whether a payload is a single call that is answered with events.
func isStream(payload []byte) bool {
	if text := bytes.TrimLeft(payload, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return false
	}
	stream := false
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // what is wrong with it is said by who answers it
		if !m.Request || m.Bad != nil || m.ID.IsZero() || !acp.Open(m.Method) {
			return
		}
		var in struct {
			Mode acp.RunMode `json:"mode"`
		}
		stream = m.Method == acp.MethodRunsSubscribe || m.Params != nil && m.Params.Decode(&in) == nil && in.Mode == acp.ModeStream
	})
	return stream
}

func (b *rpc) stream(w http.ResponseWriter, r *http.Request, text []byte) {
	k := &sink{w: w, opts: &b.opts}
	defer k.events.Abandon() // for a panic on its way to net/http
	x := &jsonrpc.Exchange{Sink: k, Check: func(_ context.Context, req *jsonrpc.Request) error { return goOn(r, req) }}
	every := cmp.Or(b.opts.KeepAlive, 15*time.Second)
	if every > 0 {
		defer time.AfterFunc(every, func() { k.open(r.Context()) }).Stop()
	}
	out, _ := b.answerer.Answer(r.Context(), nil, text, x)
	if events := k.events.End(); events != nil {
		_ = events.Finish(sse.Event{Data: out}) // if the client is gone there is nobody to tell
		return
	}
	again := httprpc.Server{Answerer: said(out), NoStream: true, WriteTimeout: b.opts.WriteTimeout}
	plain := *r
	plain.Header = http.Header{"Content-Type": {"application/json"}}
	plain.Body, plain.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	again.ServeHTTP(w, &plain)
}

// said is an answer that is there already.
type said []byte

func (s said) Answer(_ context.Context, dst, _ []byte, _ *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
	var fault *jsonrpc.Error
	_ = jsonrpc.Scan(s, func(m *jsonrpc.Message) { // our own bytes
		fault, _ = errors.AsType[*jsonrpc.Error](m.Decode(nil))
	})
	return append(dst, s...), fault
}

// goOn takes the place where a stream broke from the header, as a client of event streams says it.
func goOn(r *http.Request, req *jsonrpc.Request) error {
	last := r.Header.Get("Last-Event-ID")
	if last == "" || req.Method != acp.MethodRunsSubscribe {
		return nil
	}
	var in struct {
		After *int64 `json:"after"`
	}
	// What is wrong with params is said by who answers them; what they say counts more.
	if len(req.Params) == 0 || req.Params[0] != '{' || req.Params.Decode(&in) != nil || in.After != nil {
		return nil //nolint:nilerr // as said
	}
	after, err := parseNumber("Last-Event-ID", last, 0)
	if public, ok := errors.AsType[*acp.Error](err); ok {
		return public.RPC()
	}
	rest := bytes.TrimLeft(req.Params[1:], " \t\r\n")
	params := strconv.AppendInt([]byte(`{"after":`), after, 10)
	if rest[0] != '}' {
		params = append(params, ',')
	}
	req.Params = append(params, rest...)
	return nil
}

// A sink makes the answer a stream with the first event.
type sink struct {
	w      http.ResponseWriter
	opts   *Options
	events sse.Lazy
}

// Send sends one message, which is a notification.
func (k *sink) Send(ctx context.Context, payload []byte) error {
	var in struct {
		RunID string `json:"run_id"`
		Seq   int64  `json:"seq"`
	}
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { _ = m.Params.Decode(&in) }) // our own bytes
	events := k.stream(in.RunID)
	if events == nil {
		return jsonrpc.ErrAnswered
	}
	e := sse.Event{Data: payload}
	if in.Seq > 0 {
		e.ID = strconv.FormatInt(in.Seq, 10)
	}
	return events.Send(ctx, e)
}

// stream returns the stream, or nil once the answer is out.
func (k *sink) stream(run string) *sse.Writer {
	return k.events.Get(func() *sse.Writer {
		if run != "" {
			k.w.Header()[headerRunID] = []string{run}
		}
		return sse.NewWriter(k.w, &sse.WriterOptions{KeepAlive: k.opts.KeepAlive, Timeout: k.opts.WriteTimeout})
	})
}

// open begins the stream although nothing has happened yet, so that the client sees that somebody is at work.
func (k *sink) open(ctx context.Context) {
	if events := k.stream(""); events != nil {
		_ = events.Open(ctx) // the answer will meet the same error
	}
}
