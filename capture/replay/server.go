// Package replay lets a recorded session happen again: as a server that answers as it did then, or as a client that asks again and
// compares.
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

// askTime bounds a question of the recorded server to the new client.
const askTime = 10 * time.Second

// A Server answers requests as they were answered in a session. It is a jsonrpc.Handler, safe for concurrent use.
//
// A request gets the answer of the recorded one with the same method and equal params, whatever the order of their members and whatever
// their _meta; the second time, the answer of the second such request, and so on, then that of the last. If no params are equal, the
// next answer of the method is given, unless Strict. What the other side sent about the call is sent again before the answer, with the progress token of the new
// request, and so is what it sent by itself after it. Requests that had no answer have none again: they wait until their caller gives up.
type Server struct {
	// Strict refuses params that were not recorded.
	Strict bool

	// Pace waits as long as it took then.
	Pace bool

	// Report is told of a request that finds no answer. Nil: nobody is.
	Report func(what string, err error)

	mu    sync.Mutex // guards what is below
	calls []*call    // in the order of the wire
}

// A call is a recorded request or notification, and what followed.
type call struct {
	row    capture.Row
	params jsonrpc.Raw
	key    string // params in one form
	token  string // of progress

	steps  []step
	answer *jsonrpc.Message // nil: none
	used   int
}

// A step is what the other side sent about a call.
type step struct {
	method string
	params jsonrpc.Raw
	ask    bool
	after  time.Duration
}

var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// NewServer reads a session. dir is the direction of the requests that shall be answered: capture.Out for a mock of the
// server, capture.In for what a client answered.
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
			continue // what was broken is not done again
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

// Len is how many requests and notifications the session has.
func (s *Server) Len() int { return len(s.calls) }

// keyOf is params in one form: without _meta, members in order.
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

// tokenOf is the progress token of a request (MCP), as JSON text.
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

// pick finds the recorded call that a request is like.
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
			s.Report("nothing like this was recorded", errors.New(req.Method))
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Nothing like this was recorded"}
	}
	begin := time.Now()
	for _, st := range c.steps {
		if err := s.wait(ctx, begin, st.after); err != nil {
			return nil, err
		}
		params := withToken(st.params, c.token, tokenOf(req.Params))
		if !st.ask {
			_ = req.Peer().Notify(ctx, st.method, params) // who cannot be told does without
			continue
		}
		asking, cancel := context.WithTimeout(ctx, askTime)
		_ = req.Peer().Call(asking, st.method, params, nil) // whatever the answer, the recorded one goes on
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

// withToken is params with the progress token of the new request.
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

// Unused tells the recorded requests that nobody asked for.
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
