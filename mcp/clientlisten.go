package mcp

import (
	"context"
	"errors"
	"strconv"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Change is something that a server says of its own accord.
type Change struct {
	Method string // NotifyToolsChanged, NotifyResourceUpdated, NotifyTask and so on
	URI    string // of NotifyResourceUpdated
	Task   *Task  // of NotifyTask and NotifyTaskStatus
	ID     string // of NotifyElicitationComplete
}

// heard handles a notification that is about no call.
func (c *Client) heard(req *jsonrpc.Request) {
	change := Change{Method: req.Method}
	switch req.Method {
	case NotifyMessage:
		var p LogParams
		if c.opts.OnLog != nil && req.Params.Decode(&p) == nil {
			c.opts.OnLog(&p)
		}
		return
	case NotifyToolsChanged:
		c.cache.drop(MethodToolsList)
	case NotifyPromptsChanged:
		c.cache.drop(MethodPromptsList)
	case NotifyResourcesChanged:
		c.cache.drop(MethodResourcesList)
		c.cache.drop(MethodResourceTemplatesList)
	case NotifyResourceUpdated:
		change.URI, _ = textOf(member(req.Params, "uri"))
		c.cache.dropOne(MethodResourcesRead, change.URI)
	case NotifyElicitationComplete:
		change.ID, _ = textOf(member(req.Params, "elicitationId"))
		c.visited(change.ID)
	case NotifyTask:
		var t extTask
		if req.Params.Decode(&t) != nil {
			return
		}
		change.Task = t.task()
	case NotifyTaskStatus:
		var t coreTask
		if req.Params.Decode(&t) != nil {
			return
		}
		change.Task = t.task()
	default:
		return
	}
	if c.opts.OnChange != nil {
		c.opts.OnChange(change)
	}
	c.mu.Lock()
	var told []*watcher
	for w := range c.watch {
		if w.filter.wants(change.Method, change.URI, change.Task) {
			told = append(told, w)
		}
	}
	c.mu.Unlock()
	for _, w := range told {
		w.push(change)
	}
}

// A watcher is a Listen that runs.
type watcher struct {
	filter  Filter
	changes chan Change
}

// push hands a change over. One that finds no room is dropped: it says "look again", like all that wait before it.
func (w *watcher) push(ch Change) {
	select {
	case w.changes <- ch:
	default:
	}
}

// ErrListenEnded says that the server ended a [Client.Listen] in good order. The client may listen again.
var ErrListenEnded = errors.New("mcp: the server ended the subscription")

// Listen hears of the changes in the filter until ctx ends, the conversation does, or on returns an error, which it then returns. on runs
// on the caller's goroutine, and first gets a Change with method NotifyAcknowledged when the server has begun to tell. A legacy server is asked for each
// resource. In the modern era several may run at once, each heard separately. Up to 65,536 changes may wait for on; in the legacy era what finds no room is dropped, as it says only "look again".
func (c *Client) Listen(ctx context.Context, f Filter, on func(Change) error) error {
	if c.Version().Modern() {
		return c.listenModern(ctx, f, on)
	}
	return c.listenLegacy(ctx, f, on)
}

func (c *Client) listenModern(ctx context.Context, f Filter, on func(Change) error) error {
	body, err := encode(map[string]Filter{"notifications": f})
	if err != nil {
		return err
	}
	// The notifications come to the listen itself, and are heard like all others before on gets them.
	w := &watcher{filter: f, changes: make(chan Change, 1)}
	item := &jsonrpc.Item{Method: MethodListen, Params: c.modernParams(body, nil, nil),
		ID: jsonrpc.StringID("s" + strconv.FormatUint(c.ids.Add(1), 10)),
		On: func(req *jsonrpc.Request) error {
			if req.Method == NotifyAcknowledged {
				return on(Change{Method: NotifyAcknowledged})
			}
			c.heard(req)
			ch, ok := changeOf(req)
			if !ok || !w.filter.wants(ch.Method, ch.URI, ch.Task) {
				return nil // nobody asked for it
			}
			return on(ch)
		}}
	if err := c.link.Do(ctx, item); err != nil {
		return err
	}
	return ErrListenEnded
}

// changeOf reads a change without acting on it.
func changeOf(req *jsonrpc.Request) (Change, bool) {
	ch := Change{Method: req.Method}
	switch req.Method {
	case NotifyToolsChanged, NotifyPromptsChanged, NotifyResourcesChanged:
	case NotifyResourceUpdated:
		ch.URI, _ = textOf(member(req.Params, "uri"))
	case NotifyTask:
		var t extTask
		if req.Params.Decode(&t) != nil {
			return ch, false
		}
		ch.Task = t.task()
	default:
		return ch, false
	}
	return ch, true
}

func (c *Client) listenLegacy(ctx context.Context, f Filter, on func(Change) error) error {
	w := &watcher{filter: f, changes: make(chan Change, 4096)}
	c.mu.Lock()
	c.watch[w] = struct{}{}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.watch, w)
		c.mu.Unlock()
	}()
	for _, uri := range f.ResourceSubscriptions {
		if err := c.Call(ctx, MethodResourcesSubscribe, SubscribeParams{URI: uri}, nil); err != nil {
			return err
		}
		defer func() {
			over, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
			defer cancel()
			_ = c.Call(over, MethodResourcesUnsubscribe, SubscribeParams{URI: uri}, nil) // the conversation may be over
		}()
	}
	if err := on(Change{Method: NotifyAcknowledged}); err != nil {
		return err
	}
	for {
		select {
		case ch := <-w.changes:
			if err := on(ch); err != nil {
				return err
			}
		case <-c.gone:
			return jsonrpc.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
