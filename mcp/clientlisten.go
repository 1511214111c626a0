package mcp

import (
	"context"
	"errors"
	"strconv"

	"github.com/da1ed7bb/parley/internal/x/bounded"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Change is a notification from the server about a change of its state.
type Change struct {
	Method string // NotifyToolsChanged, NotifyResourceUpdated, NotifyTask and so on
	URI    string // of NotifyResourceUpdated
	Task   *Task  // of NotifyTask and NotifyTaskStatus
	ID     string // of NotifyElicitationComplete
}

// heard handles a notification that is not about a call.
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
		change.URI, _ = textOf(lastMember(req.Params, "uri"))
		c.cache.dropOne(MethodResourcesRead, change.URI)
	case NotifyElicitationComplete:
		change.ID, _ = textOf(lastMember(req.Params, "elicitationId"))
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
		// A change that finds no room is dropped: like all that wait, it only means "look again".
		_ = w.changes.TrySend(change)
	}
}

// A watcher is a running Listen at a legacy server.
type watcher struct {
	filter  Filter
	changes *bounded.Queue[Change]
}

// Bounds of the changes that wait for a watcher.
const (
	waitingChanges     = 4096
	waitingChangeBytes = 8 << 20
)

// changeCost is about the memory of a change, in bytes.
func changeCost(ch *Change) int {
	n := 1<<10 + len(ch.URI) + len(ch.ID)
	if t := ch.Task; t != nil {
		n += len(t.ID) + len(t.Status) + len(t.StatusMessage) + len(t.Result)
		for key, q := range t.InputRequests {
			n += len(key) + len(q.Method) + len(q.Params)
		}
		if t.Error != nil {
			n += len(t.Error.Message) + len(t.Error.Data)
		}
	}
	return n
}

// ErrListenEnded reports that the server closed a subscription of [Client.Listen] normally. The
// client may listen again.
var ErrListenEnded = errors.New("mcp: the server ended the subscription")

// Listen receives the changes selected by the filter. It returns when ctx ends, when the
// conversation is closed, or when on returns an error, which Listen then returns. on runs on the
// caller's goroutine. Its first Change has the method NotifyAcknowledged and arrives when the
// subscription is active. At a legacy server, Listen subscribes to each resource. In the modern
// era, several calls may run at the same time, each with its own stream of changes, and up to
// 65,536 changes, or 8 MiB of them, may wait for on ([ClientOptions].Limits). In the legacy era, up
// to 4,096 changes may wait, or 8 MiB of them, at least 1 KiB for each; further ones are dropped,
// because they only mean "look again".
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
	// The notifications arrive on the listen request. Each is handled like any other notification
	// before it is passed to on.
	item := &jsonrpc.Item{Method: MethodListen, Params: c.modernParams(body, nil, nil),
		ID: jsonrpc.StringID("s" + strconv.FormatUint(c.ids.Add(1), 10)),
		On: func(req *jsonrpc.Request) error {
			if req.Method == NotifyAcknowledged {
				return on(Change{Method: NotifyAcknowledged})
			}
			c.heard(req)
			ch, ok := changeOf(req)
			if !ok || !f.wants(ch.Method, ch.URI, ch.Task) {
				return nil // not in the filter
			}
			return on(ch)
		}}
	if err := c.link.Do(ctx, item); err != nil {
		return err
	}
	return ErrListenEnded
}

// changeOf decodes a change without acting on it.
func changeOf(req *jsonrpc.Request) (Change, bool) {
	ch := Change{Method: req.Method}
	switch req.Method {
	case NotifyToolsChanged, NotifyPromptsChanged, NotifyResourcesChanged:
	case NotifyResourceUpdated:
		ch.URI, _ = textOf(lastMember(req.Params, "uri"))
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
	w := &watcher{filter: f, changes: bounded.New(waitingChanges, waitingChangeBytes, changeCost)}
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
			over, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
			defer cancel()
			// may fail if the conversation is closed
			_ = c.Call(over, MethodResourcesUnsubscribe, SubscribeParams{URI: uri}, nil)
		}()
	}
	if err := on(Change{Method: NotifyAcknowledged}); err != nil {
		return err
	}
	for {
		select {
		case i := <-w.changes.C:
			if err := on(w.changes.Take(i)); err != nil {
				return err
			}
		case <-c.gone:
			return jsonrpc.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
