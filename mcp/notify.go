package mcp

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Changes are told to legacy sessions by plain notifications, and to modern clients on the streams of their listen requests. Each
// receiver has a queue of its own, so that a slow one holds up nobody. In a queue, what says the same twice is said once: both
// messages mean "look again".

// A note is one message about a change.
type note struct {
	method string
	uri    string // of NotifyResourceUpdated
	task   *Task  // of NotifyTask and NotifyTaskStatus
	other  any    // params of another message
}

// paramsFor returns the params of the message on a subscription; the zero id is for none.
func (m note) paramsFor(subscription jsonrpc.ID) any {
	dst := []byte{'{'}
	if !subscription.IsZero() {
		dst = append(dst, `"_meta":{"`+MetaSubscriptionID+`":`...)
		dst = append(subscription.Append(dst), '}')
	}
	var body jsonrpc.Raw
	switch {
	case m.uri != "":
		body = jsonrpc.Raw(append(appendString([]byte(`{"uri":`), m.uri), '}'))
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

// same reports whether one of two queued messages is enough.
func (m note) same(o note) bool {
	return m.method == o.method && m.uri == o.uri && m.task == nil && o.task == nil && m.other == nil && o.other == nil
}

// maxNotes bounds a queue. When it is full the oldest message about a task goes, whose state can be asked for; all others are
// distinct changes of lists and subscribed resources, of which there cannot be more than that.
const maxNotes = maxSubscriptions + 24

// A noteQueue holds what waits to be sent to one receiver.
type noteQueue struct {
	mu      sync.Mutex // guards what follows
	waiting []note
	pumping bool
	closed  bool
	wake    chan struct{} // for a receiver that waits itself; nil for one that is pumped
}

// push adds a message, and reports whether somebody has to start sending.
func (q *noteQueue) push(m note) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || slices.ContainsFunc(q.waiting, m.same) {
		return false
	}
	if len(q.waiting) >= maxNotes {
		i := max(slices.IndexFunc(q.waiting, func(o note) bool { return o.task != nil }), 0)
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

// take removes the oldest message. When there is none, whoever sends must stop.
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

// A listener is one subscriptions/listen that runs.
type listener struct {
	filter Filter
	owner  string // whose tasks it may hear of
	queue  noteQueue
}

// tell hands a change to all who want to know.
func (s *Server) tell(m note) {
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
			n.tell(m)
		}
	}
}

// gone is the error of a handler whose caller is gone: nobody reads it, and it is no news for the log.
func gone(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.Canceled) || errors.Is(cause, jsonrpc.ErrClosed) {
		return jsonrpc.ErrCancelled
	}
	return cause
}

// ResourceUpdated tells those who subscribed to a resource that it holds something else now.
func (s *Server) ResourceUpdated(uri string) { s.tell(note{method: NotifyResourceUpdated, uri: uri}) }

// listen answers subscriptions/listen: it stays until the client, the connection or the server ends it
// (MCP 2026-07-28, Subscriptions).
func (s *Server) listen(ctx context.Context, r *Request) (any, error) {
	if r.rpc.IsNotification() {
		return nil, nil
	}
	filter := member(r.rpc.Params, "notifications")
	l := &listener{owner: r.owner(ctx), queue: noteQueue{wake: make(chan struct{}, 1)}}
	if !isObject(filter) || filter.Decode(&l.filter) != nil {
		return nil, invalidParams("notifications is an object of what to listen to")
	}
	if len(l.filter.ResourceSubscriptions)+len(l.filter.TaskIDs) > maxSubscriptions {
		return nil, invalidParams("too many subscriptions")
	}
	if l.filter.TaskIDs != nil && !hasExtension(r.capabilities, ExtensionTasks) {
		return nil, needsExtension(ExtensionTasks)
	}
	l.filter.TaskIDs = slices.DeleteFunc(l.filter.TaskIDs, func(id string) bool { return !s.tasks.knows(l.owner, id) })

	// Changes are queued from before the acknowledgement on, so that none falls between the two.
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
		case <-r.over: // the client is gone, or at least has no more to say
			return s.listenEnded(id), nil
		case <-s.stopping:
			return s.listenEnded(id), nil
		}
	}
}

// listenEnded is the result that ends a subscription.
func (s *Server) listenEnded(id jsonrpc.ID) jsonrpc.Raw {
	out := append([]byte(completePrefix+`,"_meta":{"`+MetaSubscriptionID+`":`), id.String()...)
	out = append(append(out, `,"`+MetaServerInfo+`":`...), mustEncode(s.info)...)
	return append(out, `}}`...)
}
