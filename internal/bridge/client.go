package bridge

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A client is one conversation of a client, or all requests over HTTP that belong to none. It is
// the handler of its requests.
type client struct {
	link *link
	down jsonrpc.Peer // the client; nil if it cannot be reached outside of its requests

	// reading ends when the client has closed its sending side; nil if that is not observed.
	reading context.Context

	mu   sync.Mutex // guards runs
	runs map[*run]struct{}
}

// errInputEnded is why a subscription ends of a client that has closed its sending side: such a
// client may still read the responses to its calls, but a subscription would never end.
var errInputEnded = errors.New("the client has closed its sending side")

// A run is a request that waits for the response of the server.
type run struct {
	client *client
	peer   jsonrpc.Peer // the caller, for messages about the request
	id     jsonrpc.ID   // of the client
	up     jsonrpc.ID   // at the server
	token  jsonrpc.Raw  // progress token of the client; nil without one
	order  uint64
}

// Handle implements [jsonrpc.Handler].
func (c *client) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	if req.IsNotification() {
		c.notify(ctx, req)
		return nil, nil
	}
	result, err := c.call(ctx, req)
	switch {
	case err == nil && result == nil:
		return jsonrpc.Raw("null"), nil
	case err == nil:
		return result, nil
	case ctx.Err() != nil && !errors.As(err, new(*jsonrpc.Error)):
		return nil, context.Cause(ctx)
	case errors.Is(err, errInputEnded):
		return nil, jsonrpc.ErrCancelled
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, e // of the server
	}
	return nil, c.link.fault(err)
}

// call passes a request on and returns the server's response.
func (c *client) call(ctx context.Context, req *jsonrpc.Request) (jsonrpc.Raw, error) {
	if isMCP(req) {
		c.link.mu.Lock()
		c.link.isMCP = true
		c.link.mu.Unlock()
		if req.Method == mcp.MethodInitialize {
			return c.initialize(ctx, req)
		}
	}
	if req.Method == mcp.MethodListen && c.reading != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.reading, func() { cancel(context.Cause(c.reading)) })()
	}
	s, err := c.link.server(ctx, true)
	if err != nil {
		return nil, jsonrpc.AsNotSent(err)
	}
	return c.send(ctx, s, req)
}

// send sends a request to s and waits for the response.
func (c *client) send(ctx context.Context, s *server, req *jsonrpc.Request) (jsonrpc.Raw, error) {
	r := c.enter(req)
	defer c.exit(r)
	var params any
	if req.Params != nil {
		params = c.link.withToken(r, req.Params)
	}
	var result jsonrpc.Raw
	item := &jsonrpc.Item{Method: req.Method, Params: params, Result: &result, ID: r.up, Sent: req.Proceed,
		On: func(n *jsonrpc.Request) error {
			c.link.toRun(ctx, r, n)
			return nil
		}}
	if !s.ordered {
		req.Proceed()
	}
	err := s.Do(ctx, item)
	if req.Method == mcp.MethodListen {
		result = r.withID(result)
	}
	return result, err
}

// notify passes a notification on. A cancellation names the request by its ID at the server.
func (c *client) notify(ctx context.Context, req *jsonrpc.Request) {
	params := req.Params
	switch req.Method {
	case jsonrpc.CancelRequest.Method:
		if params = c.renamed(params, jsonrpc.CancelRequest.Member); params == nil {
			return // the request has its response
		}
	case mcp.NotifyInitialized:
		if !c.link.initialized() {
			return
		}
	}
	s, err := c.link.server(ctx, true)
	if err != nil {
		c.link.b.report(ReportServer, err)
		return
	}
	item := &jsonrpc.Item{Method: req.Method, Notify: true}
	if params != nil {
		item.Params = params
	}
	if err := s.Do(ctx, item); err != nil && ctx.Err() == nil {
		c.link.b.report(ReportServer, err)
	}
	if req.Method == mcp.NotifyInitialized {
		s.listen()
	}
}

// enter registers a request.
func (c *client) enter(req *jsonrpc.Request) *run {
	r := &run{client: c, peer: req.Peer(), id: req.ID, up: req.ID, token: tokenOf(req.Params)}
	l := c.link
	l.mu.Lock()
	l.newest++
	r.order = l.newest
	l.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := !l.exclusive || req.ID.IsNull()
	for other := range c.runs {
		taken = taken || other.up == req.ID
	}
	switch {
	case !l.exclusive:
		r.up = l.nextID()
	case taken: // two calls with one ID: each gets its response
		r.up = jsonrpc.StringID("parley-" + l.nextID().String())
	}
	c.runs[r] = struct{}{}
	return r
}

func (c *client) exit(r *run) {
	c.mu.Lock()
	delete(c.runs, r)
	c.mu.Unlock()
	c.link.forgetToken(r)
}

// all returns the running requests, newest first.
func (c *client) all() []*run {
	c.mu.Lock()
	defer c.mu.Unlock()
	runs := make([]*run, 0, len(c.runs))
	for r := range c.runs {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *run) int { return int(b.order) - int(a.order) })
	return runs
}

// renamed returns params with the server's ID of the running request that member names, or nil.
func (c *client) renamed(params jsonrpc.Raw, member string) jsonrpc.Raw {
	var name jsonrpc.ID
	for key, value := range params.Members() {
		if id, err := jsonrpc.ParseID(value); err == nil && string(key) == member {
			name = id
		}
	}
	for _, r := range c.all() {
		if r.id.Names(name) {
			if r.up == r.id {
				return params
			}
			return append(r.up.Append(append(jsonrpc.AppendString([]byte{'{'}, member), ':')), '}')
		}
	}
	return nil
}

// leave ends the conversation.
func (c *client) leave() { c.link.leave(c) }
