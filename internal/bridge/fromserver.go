package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// slowTime bounds the wait for a client that does not take a notification, if others would wait
// too.
const slowTime = 50 * time.Millisecond

// notified passes a notification of the server on: to the request that it belongs to, or to all
// clients. It is called in wire order, by the goroutine that reads the server's messages.
func (l *link) notified(n *jsonrpc.Request) {
	r, related := l.about(n)
	switch {
	case r != nil:
		l.toRun(l.ctx, r, n)
		return
	case related:
		return // its request has its response
	}
	l.mu.Lock()
	clients := slices.Collect(maps.Keys(l.clients))
	l.mu.Unlock()
	for _, c := range clients {
		c.tell(n)
	}
}

// tell sends a notification to the client: by its connection, or, in a session over HTTP, beside
// the newest request, and on the stream of the session if no request runs.
func (c *client) tell(n *jsonrpc.Request) {
	_, duplex := c.down.(*jsonrpc.Conn)
	to := c.down
	if !duplex {
		if runs := c.all(); len(runs) > 0 && c.down != nil {
			to = runs[0].peer
		}
	}
	if to == nil {
		return // the requests of this client belong to no conversation
	}
	ctx, cancel := c.link.ctx, context.CancelFunc(func() {})
	if !duplex || !c.link.exclusive {
		ctx, cancel = context.WithTimeout(ctx, slowTime)
	}
	defer cancel()
	if err := to.Notify(ctx, n.Method, paramsOf(n.Params)); err != nil && c.link.ctx.Err() == nil {
		c.link.b.report(ReportUndelivered, fmt.Errorf("%s: %w", n.Method, err))
	}
}

// paramsOf returns nil for absent params, as an interface.
func paramsOf(params jsonrpc.Raw) any {
	if params == nil {
		return nil
	}
	return params
}

// toRun sends a notification about a request to its caller, with the caller's progress token and
// ID.
func (l *link) toRun(ctx context.Context, r *run, n *jsonrpc.Request) {
	params := r.withID(n.Params)
	if n.Method == mcp.NotifyProgress && !l.exclusive && r.token != nil {
		params = replaced(params, mcp.MetaProgressToken, r.token)
	}
	if !l.exclusive {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, slowTime)
		defer cancel()
	}
	// A caller that has its response, or has left, misses it.
	_ = r.peer.Notify(ctx, n.Method, paramsOf(params))
}

// withID returns params, or a result, in which the caller's ID replaces that at the server as the
// ID of a subscription (MCP 2026-07-28, Subscriptions).
func (r *run) withID(params jsonrpc.Raw) jsonrpc.Raw {
	if r.up == r.id {
		return params
	}
	meta := lastMember(params, "_meta")
	if id, err := jsonrpc.ParseID(lastMember(meta, mcp.MetaSubscriptionID)); err != nil || !id.Names(r.up) {
		return params
	}
	return replaced(params, "_meta", replaced(meta, mcp.MetaSubscriptionID, r.id.Append(nil)))
}

// about returns the request that a notification belongs to: whose progress it reports, or which
// subscribed to it. r is nil if that request has its response. related is false if the notification
// names no request.
func (l *link) about(n *jsonrpc.Request) (r *run, related bool) {
	if n.Method == mcp.NotifyProgress {
		if token := lastMember(n.Params, mcp.MetaProgressToken); token != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			r = l.tokens[string(token)]
		}
		return r, true
	}
	id, related := mcp.Related(n)
	if !related {
		return nil, false
	}
	l.mu.Lock()
	clients := slices.Collect(maps.Keys(l.clients))
	l.mu.Unlock()
	for _, c := range clients {
		for _, r := range c.all() {
			if id.Names(r.up) {
				return r, true
			}
		}
	}
	return nil, true
}

// withToken returns the params of a request with a progress token that is unique at the server.
func (l *link) withToken(r *run, params jsonrpc.Raw) jsonrpc.Raw {
	if r.token == nil {
		return params
	}
	key := string(r.token)
	if !l.exclusive {
		key = strconv.Quote("parley-" + r.up.String())
	}
	l.mu.Lock()
	l.tokens[key] = r
	l.mu.Unlock()
	if l.exclusive {
		return params
	}
	return replaced(params, "_meta", replaced(lastMember(params, "_meta"), mcp.MetaProgressToken, jsonrpc.Raw(key)))
}

func (l *link) forgetToken(r *run) {
	if r.token == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, other := range l.tokens {
		if other == r {
			delete(l.tokens, key)
		}
	}
}

// tokenOf returns a copy of the progress token of a request, or nil.
func tokenOf(params jsonrpc.Raw) jsonrpc.Raw {
	return lastMember(lastMember(params, "_meta"), mcp.MetaProgressToken).Clone()
}

func lastMember(object jsonrpc.Raw, name string) (found jsonrpc.Raw) {
	for key, value := range object.Members() {
		if string(key) == name {
			found = value
		}
	}
	return found
}

// replaced returns a copy of an object with another value of one member.
func replaced(object jsonrpc.Raw, name string, with jsonrpc.Raw) jsonrpc.Raw {
	out := []byte{'{'}
	for key, value := range object.Members() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		if out = append(jsonrpc.AppendString(out, string(key)), ':'); string(key) == name {
			value = with
		}
		out = append(out, value...)
	}
	return append(out, '}')
}

// without returns a copy of an object without one member.
func without(object jsonrpc.Raw, name string) jsonrpc.Raw {
	out := []byte{'{'}
	for key, value := range object.Members() {
		if string(key) == name {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, string(key)), ':'), value...)
	}
	return append(out, '}')
}

// errNoClient is the response to a server that asks while there is no client to ask.
var errNoClient = errors.New("no client to ask")

// ask passes a request of the server on to a client and returns its response.
func (l *link) ask(ctx context.Context, req *jsonrpc.Request) (any, error) {
	var result jsonrpc.Raw
	item := &jsonrpc.Item{Method: req.Method, Params: paramsOf(req.Params), Result: &result}
	to, conn := l.asked()
	var err error
	switch {
	case conn != nil:
		if l.exclusive {
			item.ID = req.ID
		}
		err = conn.Do(ctx, item)
	case to != nil:
		err = to.Call(ctx, req.Method, item.Params, &result)
	default:
		l.b.report(ReportUndelivered, fmt.Errorf("%s: %w", req.Method, errNoClient))
		return nil, jsonrpc.ErrMethodNotFound
	}
	e, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil && result == nil:
		return jsonrpc.Raw("null"), nil
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case ok:
		return nil, e
	}
	l.b.report(ReportUndelivered, fmt.Errorf("%s: %w", req.Method, err))
	return nil, jsonrpc.NewError(jsonrpc.CodeUnavailable, "Client unavailable").WithData(jsonrpc.FaultData{Reason: "unavailable"})
}

// asked returns the client that a request of the server is for: the caller of the newest request,
// or the only client. conn is not nil if it has a connection of its own.
func (l *link) asked() (to jsonrpc.Peer, conn *jsonrpc.Conn) {
	l.mu.Lock()
	clients := slices.Collect(maps.Keys(l.clients))
	l.mu.Unlock()
	var newest *run
	var last *client
	for _, c := range clients {
		if runs := c.all(); len(runs) > 0 && (newest == nil || runs[0].order > newest.order) {
			newest = runs[0]
		}
		if c.down != nil {
			last = c
		}
	}
	switch {
	case newest != nil:
		if conn, ok := newest.client.down.(*jsonrpc.Conn); ok {
			return conn, conn
		}
		return newest.peer, nil
	case last != nil && len(clients) == 1:
		conn, _ := last.down.(*jsonrpc.Conn)
		return last.down, conn
	}
	return nil, nil
}
