package acphttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/internal/x/guard"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// NewRPC returns a handler for the JSON-RPC binding of package acp over POST, at any path. Requests
// for a stream get one, unless their Accept header excludes it (406): each event has its number as
// id, the header Run-ID holds the id of the run, and the response comes last. Runs/subscribe
// without "after" resumes after the header Last-Event-ID. Errors of a request are sent as plain
// JSON. Everything else is as in package httprpc. NewRPC returns an error if a name in the options
// is invalid.
func NewRPC(s *acp.Server, o *Options) (http.Handler, error) {
	if o == nil {
		o = &Options{}
	}
	b := &rpc{opts: *o}
	s.Configure(&b.answerer)
	// Ids are not unique across clients: over HTTP, disconnecting cancels.
	b.answerer.Cancellation = jsonrpc.Cancellation{}
	b.posts = httprpc.Server{MaxMessage: o.MaxMessage, KeepAlive: o.KeepAlive, WriteTimeout: o.WriteTimeout}
	return b.opts.door(b)
}

type rpc struct {
	opts     Options
	answerer jsonrpc.Answerer
	posts    httprpc.Server
}

// ServeHTTP handles one POST.
func (b *rpc) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	guard.EndAfterChunked(w, r)
	x := b.posts.Begin(w, r)
	defer x.Close()
	payload, ok := x.Receive()
	if !ok {
		return
	}
	p := &post{Response: x, r: r, every: cmp.Or(b.opts.KeepAlive, 15*time.Second)}
	x.Form = &httprpc.Form{Check: p.check, Begin: p.begin, Event: p.event}
	out, fault := x.Answer(r.Context(), &b.answerer, payload)
	if fault != nil && !p.checked && isStream(payload) {
		p.expectStream() // it was refused before its check
	}
	if p.refused {
		guard.NotAcceptable().Write(w, r)
		return
	}
	x.Finish(out, fault)
}

// A post is one POST of the JSON-RPC binding.
type post struct {
	*httprpc.Response
	r       *http.Request
	every   time.Duration // of the silence after which a stream is opened
	checked bool          // check was called for a request
	refused bool          // it requires a stream, which its Accept header excludes
	run     atomic.Value  // string: the id of the run of the stream
}

// check prepares the stream of a request that has one.
func (p *post) check(_ context.Context, req *jsonrpc.Request) error {
	if req.Batched() {
		return nil
	}
	p.checked = true
	if req.IsNotification() || !wantsStream(req.Method, req.Params) {
		return nil
	}
	if !p.expectStream() {
		return jsonrpc.ErrInvalidRequest // the response is a 406
	}
	p.Sink = p.Response // whatever the caller prefers
	if p.every > 0 {
		p.OpenAfter(p.every)
	}
	return goOn(p.r, req)
}

// expectStream turns to the rules of a request whose response is a stream: it needs no JSON in
// Accept, and its errors are plain. It returns false if the caller accepts no stream.
func (p *post) expectStream() bool {
	q, _ := guard.Quality(p.r.Header["Accept"], eventstream.ContentType)
	p.refused, p.Stream = q == 0, false
	return q > 0
}

// isStream reports whether a payload is a single call whose response is a stream of events.
func isStream(payload []byte) bool {
	if text := bytes.TrimLeft(payload, " \t\r\n"); len(text) == 0 || text[0] != '{' {
		return false
	}
	stream := false
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) { // the engine has reported errors in it
		stream = m.Request && m.Bad == nil && !m.ID.IsZero() && wantsStream(m.Method, m.Params)
	})
	return stream
}

// wantsStream reports whether the response to a request is a stream of events.
func wantsStream(method string, params jsonrpc.Raw) bool {
	if !acp.Open(method) {
		return false
	}
	var in struct {
		Mode acp.RunMode `json:"mode"`
	}
	return method == acp.MethodRunsSubscribe || params != nil && params.Decode(&in) == nil && in.Mode == acp.ModeStream
}

// goOn sets the event to resume after from the header, as clients of event streams send it.
func goOn(r *http.Request, req *jsonrpc.Request) error {
	last := r.Header.Get("Last-Event-ID")
	if last == "" || req.Method != acp.MethodRunsSubscribe {
		return nil
	}
	var in struct {
		After *int64 `json:"after"`
	}
	// The handler reports invalid params. An "after" in the params takes precedence.
	if len(req.Params) == 0 || req.Params[0] != '{' || req.Params.Decode(&in) != nil || in.After != nil {
		return nil //nolint:nilerr // see above
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

// begin sets the id of the run as a header, if an event is what begins the stream.
func (p *post) begin(h http.Header) {
	if run, _ := p.run.Load().(string); run != "" {
		h[headerRunID] = []string{run}
	}
}

// event returns one message as an event with the number of the event in it.
func (p *post) event(payload []byte, _ string, params any) (eventstream.Event, error) {
	e := eventstream.Event{Data: payload}
	if run, ok := params.(*acp.RunEvent); ok {
		p.run.CompareAndSwap(nil, run.RunID)
		if run.Seq > 0 {
			e.ID = strconv.FormatInt(run.Seq, 10)
		}
	}
	return e, nil
}
