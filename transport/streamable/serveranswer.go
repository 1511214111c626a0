package streamable

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

var form = httprpc.Form{Empty: http.StatusAccepted}

func (s *Server) init() {
	s.setup.Do(func() {
		s.posts = httprpc.Server{MaxMessage: s.MaxMessage, KeepAlive: s.KeepAlive, WriteTimeout: s.WriteTimeout}
		if s.SessionHeader != "" {
			s.sessionKey = http.CanonicalHeaderKey(s.SessionHeader)
		}
	})
}

// sessionIDs returns the values of the session header of a request.
func (s *Server) sessionIDs(r *http.Request) []string {
	s.init()
	if s.sessionKey == "" {
		return nil
	}
	return r.Header[s.sessionKey]
}

// response returns the response to a request. It must be closed.
func (s *Server) response(w http.ResponseWriter, r *http.Request) *httprpc.Response {
	x := new(httprpc.Response)
	s.respond(x, w, r)
	return x
}

// respond sets x, which is zero, to the response to a request.
func (s *Server) respond(x *httprpc.Response, w http.ResponseWriter, r *http.Request) {
	s.init()
	s.posts.BeginIn(x, w, r)
	x.Form = &form
	x.From = "" // the bounds have no parts for callers
}

// refuse responds without handling the request, with the ID of the request if it has one.
func refuse(x *httprpc.Response, payload []byte, f *Refusal) {
	id, count := jsonrpc.NullID, 0
	// a payload that cannot be parsed has no ID
	_ = jsonrpc.Scan(payload, func(m *jsonrpc.Message) {
		if count++; count == 1 && m.Request && !m.ID.IsZero() {
			id = m.ID
		} else {
			id = jsonrpc.NullID
		}
	})
	x.Stream, x.Status = false, f.Status
	x.Finish(jsonrpc.AppendError(nil, jsonrpc.Version2, id, f.Err), f.Err)
}

// drops is the Sink of a caller that accepts no stream: it drops the messages of handlers.
type drops struct{}

func (drops) Send(context.Context, []byte) error { return nil }

// The checks of one POST run before its handlers. They are a part of its buffer, so that a POST
// allocates no function for them.
type checks struct {
	form    httprpc.Form // constant: a Peer that outlives the POST reads it
	r       *http.Request
	user    func(*http.Request, *jsonrpc.Request) error // may be nil
	turn    *turn                                       // its stream begins with the handler; may be nil
	refused atomic.Bool                                 // by user
}

// set makes them the checks of x.
func (c *checks) set(x *httprpc.Response, r *http.Request, user func(*http.Request, *jsonrpc.Request) error, early *turn) {
	if user == nil && early == nil {
		return
	}
	c.r, c.user, c.turn = r, user, early
	x.Form = &c.form
}

func (c *checks) release() {
	c.r, c.user, c.turn = nil, nil, nil
	c.refused.Store(false)
}

func (c *checks) check(_ context.Context, req *jsonrpc.Request) error {
	if c.user != nil {
		if err := c.user(c.r, req); err != nil {
			c.refused.Store(true)
			return err
		}
	}
	if c.turn != nil && !req.IsNotification() {
		_ = c.turn.open()
	}
	return nil
}

// alone handles a payload that belongs to no session.
func (s *Server) alone(r *http.Request, b *buffer, how *Alone) {
	x, payload := b.response, b.in
	b.checks.set(x, r, how.Check, nil)
	if x.Sink == nil {
		x.Sink = drops{}
	}
	ctx := r.Context()
	if how.Patient {
		ctx = context.WithoutCancel(ctx)
	}
	out, fault := x.Answer(ctx, how.Answerer, payload)
	if fault != nil && how.Status != nil {
		x.Status = how.Status(fault, b.checks.refused.Load())
	}
	if len(out) == 0 && hasResponse(payload) {
		// there is no call that it could belong to
		fault, x.Status = jsonrpc.ErrInvalidRequest, http.StatusBadRequest
		out = jsonrpc.AppendError(nil, jsonrpc.Version2, jsonrpc.NullID, fault)
	}
	if how.OmitID {
		out = withoutNull(out)
	}
	if x.Status >= http.StatusBadRequest {
		x.Stream = false // a stream has status 200
	}
	x.Finish(out, fault)
}

// hasResponse reports whether a payload contains a response.
func hasResponse(payload []byte) bool {
	has := false
	fault := jsonrpc.Scan(payload, func(m *jsonrpc.Message) { has = has || !m.Request })
	return fault == nil && has
}

var nullID = []byte(`,"id":null}`)

// withoutNull removes the id from a response whose id is null.
func withoutNull(text []byte) []byte {
	if head, ok := bytes.CutSuffix(text, nullID); ok {
		return append(head, '}')
	}
	return text
}
