package a2a

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Pusher posts notifications. It must be safe for concurrent use.
type Pusher interface {
	// Check returns an error if a webhook must not be registered. A *jsonrpc.Error is sent to the
	// caller.
	Check(ctx context.Context, c PushConfig) error

	// Push posts one notification once. After an error it is called again, unless the error wraps
	// [ErrPushRefused].
	Push(ctx context.Context, n Notice) error
}

// ErrPushRefused reports that a notification must not be retried.
var ErrPushRefused = errors.New("a2a: the webhook is not allowed")

// A Notice is one notification.
type Notice struct {
	Config  PushConfig
	Version Version     // protocol version in which the webhook was registered, and of Body
	Body    jsonrpc.Raw // an event in v1.0, the whole task in v0.3
}

// A hook is a webhook of a task. It sends notifications one after the other, in order.
type hook struct {
	w       *work
	config  PushConfig
	version Version
	size    int64 // what it counts
	ctx     context.Context
	stop    context.CancelFunc

	mu      sync.Mutex // guards the fields below
	waiting []jsonrpc.Raw
	bytes   int  // of waiting
	dirty   bool // send the whole task in place of the waiting events
	busy    bool // a goroutine is sending
}

// Bounds of a webhook. If more notifications wait, the whole task replaces them.
const (
	maxWaiting      = 64
	maxWaitingBytes = 1 << 20 // one of any size may wait alone
	pushTries       = 6
	pushPause       = 500 * time.Millisecond // doubled after each attempt
)

func newHook(w *work, c PushConfig, v Version) *hook {
	h := &hook{w: w, config: c, version: v, size: weighHook(c)}
	h.ctx, h.stop = context.WithCancel(w.s.base)
	return h
}

// weighHook returns what a webhook counts.
func weighHook(c PushConfig) int64 { return int64(entryWeight + len(mustEncode(c))) }

// add queues an event for sending.
func (h *hook) add(raw jsonrpc.Raw) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.version.WrapsResults() || len(h.waiting) >= maxWaiting || len(h.waiting) > 0 && h.bytes+len(raw) > maxWaitingBytes:
		h.dirty, h.waiting, h.bytes = true, nil, 0
	case !h.dirty:
		h.waiting = append(h.waiting, raw)
		h.bytes += len(raw)
	}
	if !h.busy {
		h.busy = true
		h.w.s.goServe(h.send)
	}
}

// goServe runs f on a goroutine that Close waits for. It does nothing if Close has begun.
func (s *Server) goServe(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.serving.Go(func() {
			defer rescue.Catch(s.report, nil) // of a store
			f()
		})
	}
}

// send posts the waiting notifications until the queue is empty.
func (h *hook) send() {
	for {
		h.mu.Lock()
		var body jsonrpc.Raw
		switch {
		case h.ctx.Err() != nil || !h.dirty && len(h.waiting) == 0:
			h.busy = false
			h.mu.Unlock()
			return
		case h.dirty:
			h.dirty = false
		default:
			body = h.waiting[0]
			h.waiting = h.waiting[1:]
			h.bytes -= len(body)
		}
		h.mu.Unlock()
		if body == nil {
			t, _ := h.w.snapshot()
			if h.version.WrapsResults() {
				body = mustEncode(Event{Task: &t})
			} else {
				body = mustEncode(taskTo03(&t))
			}
		}
		h.post(body)
	}
}

// post retries a notification until it is accepted or the attempts are exhausted.
func (h *hook) post(body jsonrpc.Raw) {
	between := pushPause
	for try := 1; ; try++ {
		err := rescue.Call(h.w.s.report, func() error {
			return h.w.s.opts.Push.Push(h.ctx, Notice{h.config, h.version, body})
		})
		if err == nil || h.ctx.Err() != nil {
			return
		}
		if try == pushTries || errors.Is(err, ErrPushRefused) {
			h.w.s.report(ReportPush, fmt.Errorf("%s: %w", h.w.id, err))
			return
		}
		// if the context is canceled, the next attempt returns the error
		_ = pause.For(h.ctx, between)
		between *= 2
	}
}

// checkPush returns an error if a webhook is invalid.
func (c *call) checkPush(ctx context.Context, p *PushConfig) error {
	if err := c.pushes(); err != nil {
		return err
	}
	if p.URL == "" {
		return BadParams("url", "is required")
	}
	if p.Authentication != nil && p.Authentication.Scheme == "" {
		return BadParams("authentication.scheme", "is required")
	}
	return c.s.opts.Push.Check(ctx, *p)
}

func (c *call) pushes() error {
	if !c.s.Card().Capabilities.PushNotifications || c.s.opts.Push == nil {
		return Fault(ErrPushNotSupported, "")
	}
	return nil
}

// hook registers a webhook, replacing one with the same id.
func (w *work) hook(ctx context.Context, p PushConfig, v Version) (*PushConfig, error) {
	p.TaskID = w.id
	if p.ID == "" {
		p.ID = newID()
	}
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	before := int64(0)
	if at := w.hookLocked(p.ID); at >= 0 {
		before = w.hooks[at].size
	}
	full := len(w.hooks) >= maxHooks && before == 0
	w.mu.Unlock()
	size := weighHook(p)
	if size > entryWeight+maxHookSize {
		return nil, BadParams("pushNotificationConfig", "has more than "+strconv.Itoa(maxHookSize)+" bytes")
	}
	if full || !w.s.holdMore(w, size) {
		return nil, Fault(errBusy, "The task has too many webhooks", "taskId", w.id, "limit", strconv.Itoa(maxHooks))
	}
	if err := w.s.keep(ctx, w, record{Push: &storedPush{p, v.String()}}); err != nil {
		w.s.letGo(w, size)
		return nil, err
	}
	w.s.letGo(w, before)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unhookLocked(p.ID)
	w.hooks = append(w.hooks, newHook(w, p, v))
	return &p, nil
}

// unhook removes the webhooks of a message for which the agent created no task.
func (s *Server) unhook(w *work) {
	w.mu.Lock()
	for _, h := range w.hooks {
		h.stop()
	}
	w.hooks = nil
	w.mu.Unlock()
	if s.opts.Store != nil {
		s.report(jsonrpc.ReportStore, s.opts.Store.Drop(context.WithoutCancel(s.base), w.storeKey()))
	}
}

func (w *work) hookLocked(id string) int {
	return slices.IndexFunc(w.hooks, func(h *hook) bool { return h.config.ID == id })
}

func (w *work) unhookLocked(id string) bool {
	at := w.hookLocked(id)
	if at < 0 {
		return false
	}
	w.hooks[at].stop()
	w.hooks = slices.Delete(slices.Clone(w.hooks), at, at+1)
	return true
}

func (c *call) createPush(ctx context.Context, p *PushConfig) (any, error) {
	if err := c.pushes(); err != nil {
		return nil, err
	}
	if p.TaskID == "" {
		return nil, BadParams("taskId", "is required")
	}
	w, err := c.find(p.TaskID)
	if err != nil {
		return nil, err
	}
	if err := c.checkPush(ctx, p); err != nil {
		return nil, err
	}
	return w.hook(ctx, *p, c.v)
}

// ofTask returns the task of a request about webhooks.
func (c *call) ofTask(p *PushRequest) (*work, error) {
	if err := c.pushes(); err != nil {
		return nil, err
	}
	if p.TaskID == "" {
		return nil, BadParams("taskId", "is required")
	}
	return c.find(p.TaskID)
}

// getPush returns a webhook. In v0.3 the id may be omitted; the default is the task's id, or the
// only webhook.
func (c *call) getPush(p *PushRequest) (any, error) {
	w, err := c.ofTask(p)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.hookLocked(p.ID)
	switch {
	case p.ID == "" && c.v == V10:
		return nil, BadParams("id", "is required")
	case p.ID == "" && len(w.hooks) > 0:
		at = max(w.hookLocked(w.id), 0)
	}
	if at < 0 {
		return nil, Fault(ErrTaskNotFound, "Push notification config not found", "taskId", p.TaskID, "id", p.ID)
	}
	config := w.hooks[at].config
	return &config, nil
}

func (c *call) listPush(p *PushRequest) (any, error) {
	w, err := c.ofTask(p)
	if err != nil {
		return nil, err
	}
	from, size := 0, p.PageSize
	if p.PageToken != "" {
		if from, err = strconv.Atoi(p.PageToken); err != nil || from < 0 {
			return nil, BadParams("pageToken", "is not valid: it was not issued by this server")
		}
	}
	if size < 0 || size > pageMax {
		return nil, BadParams("pageSize", "must be from 1 to 100")
	}
	if size == 0 {
		size = pageMax
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	page := &PushPage{Configs: []PushConfig{}}
	for i, h := range w.hooks {
		if i >= from && i < from+size {
			page.Configs = append(page.Configs, h.config)
		}
	}
	if from+size < len(w.hooks) {
		page.NextPageToken = strconv.Itoa(from + size)
	}
	return page, nil
}

// deletePush removes a webhook. Removing a missing webhook succeeds.
func (c *call) deletePush(ctx context.Context, p *PushRequest) (any, error) {
	w, err := c.ofTask(p)
	if err != nil {
		return nil, err
	}
	if p.ID == "" {
		return nil, BadParams("id", "is required")
	}
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	size := int64(0)
	if at := w.hookLocked(p.ID); at >= 0 {
		size = w.hooks[at].size
	}
	gone := w.unhookLocked(p.ID)
	w.mu.Unlock()
	if gone {
		w.s.letGo(w, size)
		err = w.s.keep(ctx, w, record{NoPush: p.ID})
	}
	return deleted{}, err
}
