// Package replay replays a recorded session as a server that returns the recorded responses, or as
// a client that sends the recorded requests and compares the responses.
package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// askTime limits a request of the recorded server to the new client.
const askTime = 10 * time.Second

// A Server responds to requests as in a recorded session. It is a jsonrpc.Handler and is safe for
// concurrent use.
//
// A request gets the response to the recorded request with the same method and equal params,
// regardless of member order and of _meta. If there are several, the least used one is chosen, in
// recorded order. If no params are equal, the next response to the method is used, unless Strict is
// set. What the other side sent about the call is sent again before the response, with the progress
// token of the new request. What it sent by itself after the call is sent again, too. A request
// without a recorded response gets none: it waits until its caller cancels it.
type Server struct {
	// Strict rejects params that were not recorded.
	Strict bool

	// Pace reproduces the recorded timing.
	Pace bool

	// Report is called for a request without a recorded response. If nil, it is not called.
	Report func(what string, err error)

	mu    sync.Mutex // guards the fields below
	calls []*call    // in the order of the traffic
}

// A call is a recorded request or notification, with what followed.
type call struct {
	row    capture.Row
	params jsonrpc.Raw
	key    string // normalized params
	token  string // progress token

	steps  []step
	answer *jsonrpc.Message // nil if there was none
	used   int
}

// A step is a message that the other side sent about a call.
type step struct {
	method string
	params jsonrpc.Raw
	ask    bool
	after  time.Duration
}

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// NewServer prepares a recorded session. dir is the direction of the requests to respond to:
// capture.Out to mock the server, capture.In to mock the client.
func NewServer(log *capture.Log, dir capture.Dir) (*Server, error) {
	s := &Server{}
	byRef := map[capture.Ref]*call{}
	last := map[int64]*call{} // by connection
	for _, r := range log.Rows(capture.Ref{}, 0) {
		switch r.Kind {
		case capture.RowRequest, capture.RowNotification, capture.RowResult, capture.RowError:
		default:
			continue
		}
		payload, err := log.Payload(r.Ref)
		if err != nil {
			return nil, err
		}
		var m *jsonrpc.Message
		if jsonrpc.Scan(payload, func(found *jsonrpc.Message) {
			c := *found
			m = &c
		}) != nil || m == nil || m.Bad != nil {
			continue // broken messages are not replayed
		}
		switch {
		case r.Dir == dir && m.Request:
			c := &call{row: r, params: m.Params.Clone(), key: keyOf(m.Params), token: tokenOf(m.Params)}
			s.calls = append(s.calls, c)
			byRef[r.Ref] = c
			last[r.Conn] = c
		case r.Dir == dir.Back() && m.Request:
			c := byRef[r.Parent]
			if c == nil {
				c = last[r.Conn]
			}
			if c != nil {
				c.steps = append(c.steps, step{r.Method, m.Params.Clone(), r.Kind == capture.RowRequest, r.Time.Sub(c.row.Time)})
			}
		case r.Dir == dir.Back():
			if c := byRef[r.Call]; c != nil {
				c.answer = &jsonrpc.Message{Result: m.Result.Clone(), Error: m.Error.Clone()}
				c.row.Took = r.Took
			}
		}
	}
	if len(s.calls) == 0 {
		return nil, errors.New("replay: no calls were recorded in this session")
	}
	return s, nil
}

// Len returns the number of requests and notifications in the session.
func (s *Server) Len() int { return len(s.calls) }

// keyOf returns normalized params: without _meta, members in order.
func keyOf(params jsonrpc.Raw) string {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(params, &members, lenient); err == nil {
		delete(members, "_meta")
		if len(members) == 0 {
			return ""
		}
		text, err := json.Marshal(members, json.Deterministic(true), lenient)
		if err != nil {
			return string(params)
		}
		params = text
	}
	v := jsontext.Value(slices.Clone(params))
	if err := v.Canonicalize(lenient); err != nil {
		return string(params)
	}
	return string(v)
}

// tokenOf returns the progress token of a request (MCP) as JSON text.
func tokenOf(params jsonrpc.Raw) string {
	var p struct {
		Meta struct {
			Token jsontext.Value `json:"progressToken"`
		} `json:"_meta"`
	}
	if json.Unmarshal(params, &p, lenient) != nil {
		return ""
	}
	return string(p.Meta.Token)
}

// pick finds the recorded call that matches a request.
func (s *Server) pick(method, key string, notification bool) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var exact, loose *call
	for _, c := range s.calls {
		if c.row.Method != method || (c.row.Kind == capture.RowNotification) != notification {
			continue
		}
		if c.key == key && (exact == nil || c.used < exact.used) {
			exact = c
		}
		if loose == nil || c.used < loose.used {
			loose = c
		}
	}
	if exact == nil && (!s.Strict || notification) {
		exact = loose
	}
	if exact != nil {
		exact.used++
	}
	return exact
}

// Handle implements jsonrpc.Handler.
func (s *Server) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	c := s.pick(req.Method, keyOf(req.Params), req.IsNotification())
	if c == nil {
		if !req.IsNotification() && s.Report != nil {
			s.Report(ReportUnrecorded, errors.New(req.Method))
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "No such call was recorded"}
	}
	begin := time.Now()
	for _, st := range c.steps {
		if err := s.wait(ctx, begin, st.after); err != nil {
			return nil, err
		}
		params := withToken(st.params, c.token, tokenOf(req.Params))
		if !st.ask {
			// A peer that cannot be notified misses the message.
			_ = req.Peer().Notify(ctx, st.method, params)
			continue
		}
		asking, cancel := context.WithTimeout(ctx, askTime)
		// The replay continues with any response.
		_ = req.Peer().Call(asking, st.method, params, nil)
		cancel()
	}
	switch {
	case req.IsNotification():
		return nil, nil
	case c.answer == nil:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if err := s.wait(ctx, begin, c.row.Took); err != nil {
		return nil, err
	}
	if c.answer.Error != nil {
		return nil, c.answer.Decode(nil)
	}
	return c.answer.Result, nil
}

func (s *Server) wait(ctx context.Context, begin time.Time, after time.Duration) error {
	if !s.Pace {
		return nil
	}
	return pause.For(ctx, time.Until(begin.Add(after)))
}

// withToken replaces the progress token in params by the token of the new request.
func withToken(params jsonrpc.Raw, old, now string) jsonrpc.Raw {
	if old == "" || now == "" || old == now {
		return params
	}
	var p struct {
		Token jsontext.Value `json:"progressToken"`
	}
	if json.Unmarshal(params, &p, lenient) != nil || string(p.Token) != old {
		return params
	}
	for _, form := range []string{`"progressToken":`, `"progressToken": `} {
		if strings.Contains(string(params), form+old) {
			return jsonrpc.Raw(strings.Replace(string(params), form+old, form+now, 1))
		}
	}
	return params
}

// Unused returns the recorded requests that were not received.
func (s *Server) Unused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, c := range s.calls {
		if c.used == 0 && c.row.Kind == capture.RowRequest {
			out = append(out, fmt.Sprintf("#%s %s", c.row.Ref, c.row.Method))
		}
	}
	return out
}
