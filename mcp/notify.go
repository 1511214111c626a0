package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Legacy sessions receive changes as plain notifications, modern clients on the streams of their
// listen requests. Each receiver has its own queue, so that a slow one does not delay the others. A
// queue does not contain duplicates: each of them would mean "look again".

// A note is one message about a change.
type note struct {
	method string
	uri    string // of NotifyResourceUpdated
	task   *Task  // of NotifyTask and NotifyTaskStatus
	other  any    // params of another message
}

// paramsFor returns the params of the message for a subscription. The zero ID means no
// subscription.
func (m note) paramsFor(subscription jsonrpc.ID) any {
	dst := []byte{'{'}
	if !subscription.IsZero() {
		dst = append(dst, `"_meta":{"`+MetaSubscriptionID+`":`...)
		dst = append(subscription.Append(dst), '}')
	}
	var body jsonrpc.Raw
	switch {
	case m.uri != "":
		body = jsonrpc.Raw(append(jsonrpc.AppendString([]byte(`{"uri":`), m.uri), '}'))
	case m.task != nil && m.method == NotifyTask:
		body = mustEncode(m.task.ext(true))
	case m.task != nil:
		body = mustEncode(m.task.core())
	case m.other != nil:
		body = mustEncode(m.other)
	}
	if len(body) > 2 {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		return jsonrpc.Raw(append(dst, body[1:]...))
	}
	if len(dst) == 1 {
		return nil
	}
	return jsonrpc.Raw(append(dst, '}'))
}

// same reports whether two queued messages are duplicates.
func (m note) same(o note) bool {
	return m.method == o.method && m.uri == o.uri && m.task == nil && o.task == nil && m.other == nil && o.other == nil
}

// maxNotes is the maximum length of a queue. If the queue is full, the oldest log message or
// message about a task is dropped, because the client can request the task's state. All other
// messages are distinct changes of lists and subscribed resources, of which there cannot be more
// than this.
const maxNotes = maxSubscriptions + 24

// A noteQueue contains the messages that wait to be sent to one receiver.
type noteQueue struct {
	mu      sync.Mutex // guards the fields below
	waiting []note
	pumping bool
	closed  bool
	wake    chan struct{} // for a receiver that waits itself; nil for one that is pumped
}

// push adds a message, and reports whether the caller must start sending.
func (q *noteQueue) push(m note) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || slices.ContainsFunc(q.waiting, m.same) {
		return false
	}
	if len(q.waiting) >= maxNotes {
		i := max(slices.IndexFunc(q.waiting, func(o note) bool { return o.task != nil || o.method == NotifyMessage }), 0)
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.waiting = append(q.waiting, m)
	if q.wake != nil {
		select {
		case q.wake <- struct{}{}:
		default:
		}
		return false
	}
	start := !q.pumping
	q.pumping = true
	return start
}

// take removes the oldest message. If the queue is empty, the sender must stop.
func (q *noteQueue) take() (note, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || q.closed {
		q.pumping, q.waiting = false, nil
		return note{}, false
	}
	m := q.waiting[0]
	q.waiting = q.waiting[1:]
	return m, true
}

func (q *noteQueue) close() {
	q.mu.Lock()
	q.closed, q.waiting = true, nil
	q.mu.Unlock()
}

// A listener is a running subscriptions/listen.
type listener struct {
	filter Filter
	owner  string // the owner of the tasks that it may observe
	// the principal that sent the request
	principal string
	queue     noteQueue
}

// notify queues a change for all sessions and listeners that subscribed to it.
func (s *Server) notify(m note) {
	s.mu.Lock()
	var sessions []*Session
	for n := range s.sessions {
		sessions = append(sessions, n)
	}
	for l := range s.listeners {
		if l.filter.wants(m.method, m.uri, m.task) {
			l.queue.push(m)
		}
	}
	s.mu.Unlock()
	for _, n := range sessions {
		if m.method != NotifyResourceUpdated || n.subscribed(m.uri) {
			n.notify(m)
		}
	}
}

// gone returns the error of a handler whose caller has gone: it is neither sent nor logged as a
// problem.
func gone(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, jsonrpc.ErrClosed) {
		return jsonrpc.ErrCancelled
	}
	return cause
}

// ResourceUpdated notifies the subscribers of a resource that its contents have changed.
func (s *Server) ResourceUpdated(uri string) { s.notify(note{method: NotifyResourceUpdated, uri: uri}) }

// listen handles subscriptions/listen. It runs until the client, the connection or the server ends
// it (MCP 2026-07-28, Subscriptions).
func (s *Server) listen(ctx context.Context, r *Request) (any, error) {
	if r.rpc.IsNotification() {
		return nil, nil
	}
	filter := lastMember(r.rpc.Params, "notifications")
	l := &listener{owner: r.owner(ctx), principal: s.principal(ctx), queue: noteQueue{wake: make(chan struct{}, 1)}}
	if !isObject(filter) || filter.Decode(&l.filter) != nil {
		return nil, invalidParams("notifications must be an object with the subscriptions")
	}
	if len(l.filter.ResourceSubscriptions)+len(l.filter.TaskIDs) > maxSubscriptions {
		return nil, invalidParams("too many subscriptions")
	}
	if l.filter.TaskIDs != nil && !hasExtension(r.capabilities, ExtensionTasks) {
		return nil, needsExtension(ExtensionTasks)
	}
	if s.opts.Source != nil {
		defer s.subscribeSource(ctx, r, l)()
	}
	l.filter.TaskIDs = slices.DeleteFunc(l.filter.TaskIDs, func(id string) bool { return !s.tasks.contains(l.owner, id) })

	// Changes are queued from before the acknowledgement, so that none is lost in between.
	s.mu.Lock()
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	id, peer := r.rpc.ID, r.peer()
	ack := note{other: map[string]Filter{"notifications": l.filter}}
	if err := peer.Notify(ctx, NotifyAcknowledged, ack.paramsFor(id)); err != nil {
		return nil, err
	}
	for {
		for m, ok := l.queue.take(); ok; m, ok = l.queue.take() {
			if err := peer.Notify(ctx, m.method, m.paramsFor(id)); err != nil {
				return nil, err
			}
		}
		select {
		case <-l.queue.wake:
		case <-ctx.Done():
			return nil, gone(ctx)
		case <-r.over: // the client is gone, or has closed its sending direction
			return s.listenEnded(id), nil
		case <-s.stopping:
			return s.listenEnded(id), nil
		}
	}
}

// listenEnded returns the result that ends a subscription.
func (s *Server) listenEnded(id jsonrpc.ID) jsonrpc.Raw {
	out := append([]byte(completePrefix+`,"_meta":{"`+MetaSubscriptionID+`":`), id.String()...)
	out = append(append(out, `,"`+MetaServerInfo+`":`...), mustEncode(s.info)...)
	return append(out, `}}`...)
}
