package a2ahttp

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/internal/eventstream"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A style is how a binding encodes the results of package a2a.
type style interface {
	event(id jsonrpc.ID, response jsonrpc.Raw) ([]byte, error) // one event of a stream
	last(out []byte, e *jsonrpc.Error) []byte                  // the response, as the last event
	plain(out []byte, e *jsonrpc.Error) (status int, contentType string, body []byte)
	unsupported(e *jsonrpc.Error) (contentType string, body []byte) // for status 415
}

// silence is how long a request may send no events before its stream is opened anyway, so that
// keep-alive comments are sent.
const silence = time.Second

// An exchange is one HTTP request and its response, which becomes a stream with the first event.
type exchange struct {
	*httprpc.Response
	w       http.ResponseWriter
	r       *http.Request
	style   style
	params  func(jsonrpc.Raw) (jsonrpc.Raw, *jsonrpc.Error) // completes those of a REST request; or nil
	streams bool                                            // the response is a stream, even if it is one event; set by check
	seq     atomic.Int64                                    // of the last event
}

// exchange returns the response to a request. It must be closed.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, style style) *exchange {
	x := &exchange{Response: s.posts.Begin(w, r), w: w, r: r, style: style}
	x.From = "" // MaxRunning has no parts for callers
	x.Form = &httprpc.Form{Check: x.check, Event: x.event, WithoutPayload: isEvent, Last: x.last, Plain: style.plain, Refuse: x.refuse}
	return x
}

// check inspects each request before it is handled. A v0.3 subscription is a stream from the start,
// even for errors, because strict clients require that.
func (x *exchange) check(ctx context.Context, req *jsonrpc.Request) error {
	if req.Batched() || req.IsNotification() {
		return nil
	}
	if x.params != nil {
		params, bad := x.params(req.Params)
		if bad != nil {
			return bad
		}
		req.Params = params
	}
	switch {
	case req.Method == a2a.MethodSubscribe03:
		x.Open(ctx)
	case a2a.IsStream(req.Method):
		x.streams = true
		x.OpenAfter(silence)
	}
	return nil
}

// isEvent reports whether a notification is an event, which is made of its params.
func isEvent(_ string, params any) bool {
	_, ok := params.(*a2a.StreamEvent)
	return ok
}

// event converts a notification to an event: one of the responses that the protocol repeats.
func (x *exchange) event(_ []byte, _ string, params any) (eventstream.Event, error) {
	e, ok := params.(*a2a.StreamEvent)
	if !ok {
		return eventstream.Event{}, jsonrpc.ErrOneWay // other messages cannot be sent over HTTP
	}
	data, err := x.style.event(e.RequestID, e.Response)
	if err != nil {
		return eventstream.Event{}, err
	}
	x.seq.Store(e.Seq)
	return eventstream.Event{ID: eventID(e.Seq), Data: data}, nil
}

func eventID(seq int64) string {
	if seq == 0 {
		return ""
	}
	return strconv.FormatInt(seq, 10)
}

// last converts the response to the last event of a stream.
func (x *exchange) last(out []byte, fault *jsonrpc.Error) eventstream.Event {
	e := eventstream.Event{Data: x.style.last(out, fault)}
	if seq := x.seq.Load(); seq > 0 && fault == nil {
		e.ID = eventID(seq + 1)
	}
	return e
}

// refuse returns an error of the protocol for a body of an unsupported type.
func (x *exchange) refuse(status int, text string) (contentType string, body []byte) {
	if status != http.StatusUnsupportedMediaType {
		return "", nil
	}
	return x.style.unsupported(a2a.Fault(a2a.ErrContentTypeNotSupported, "Content-Type: "+text))
}

// finish sends the response.
func (x *exchange) finish(out []byte, fault *jsonrpc.Error) {
	// A stream with one event is still a stream: the JavaScript SDK 1.3.0 accepts nothing else.
	x.Stream = x.streams && fault == nil
	x.Finish(out, fault)
}
