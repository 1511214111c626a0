package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// How tasks outlive the process: one log each, of what happened to it. Reading a log from its beginning gives the task as it was.

// storePrefix is what the keys of the logs begin with; owner and id follow.
const storePrefix = "a2a/tasks/"

// A record is one entry of a task's log: an event, a message of the caller, a webhook that came or went, or the whole task, before which nothing
// counts.
type record struct {
	Seq     int64       `json:"seq,omitzero"`
	Event   jsonrpc.Raw `json:"event,omitzero"`
	Message jsonrpc.Raw `json:"message,omitzero"`
	Sent    *sent       `json:"sent,omitzero"` // of the message, or of the first one
	Push    *storedPush `json:"push,omitzero"`
	NoPush  string      `json:"noPush,omitzero"` // the id of a webhook that went
	Whole   *whole      `json:"whole,omitzero"`
}

type storedPush struct {
	Config  PushConfig `json:"config"`
	Version string     `json:"version"`
}

type whole struct {
	Task  Task         `json:"task"`
	Bytes int          `json:"bytes"`
	Hooks []storedPush `json:"hooks,omitempty"`
}

// compactEvery is how many records a log has before it is replaced by the task as a whole.
const compactEvery = 1000

func (w *work) storeKey() string {
	return storePrefix + url.PathEscape(w.owner) + "/" + w.id
}

// keep stores one record, with order held. What is not stored did not happen.
func (s *Server) keep(ctx context.Context, w *work, r record) error {
	if s.opts.Store == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // it is happening
	last, err := s.opts.Store.Append(ctx, w.storeKey(), store.Any, mustEncode(r))
	if err != nil {
		return err
	}
	w.stored = last
	return nil
}

// compact replaces a long log by the task as a whole, with order held and everything in the log done.
func (s *Server) compact(ctx context.Context, w *work) error {
	if s.opts.Store == nil || w.stored < w.compacted+compactEvery {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	w.mu.Lock()
	all := &whole{Task: w.task, Bytes: w.bytes}
	seq := w.seq
	for _, h := range w.hooks {
		all.Hooks = append(all.Hooks, storedPush{h.config, h.version.String()})
	}
	w.mu.Unlock()
	text := mustEncode(record{Seq: seq, Whole: all})
	last, err := s.opts.Store.Append(ctx, w.storeKey(), store.Any, text)
	if errors.Is(err, store.ErrLimit) { // too large for one record: the log goes on as it is
		w.compacted = w.stored
		return nil
	}
	if err != nil {
		return err
	}
	w.stored, w.compacted = last, last
	return s.opts.Store.Trim(ctx, w.storeKey(), last-1)
}

// expire has the store forget a task that is over, later.
func (s *Server) expire(w *work) {
	if s.opts.Store != nil {
		s.report("store", s.opts.Store.Expire(context.WithoutCancel(s.base), w.storeKey(), time.Now().Add(s.opts.TaskTTL)))
	}
}

// drop lets a task go that is no longer kept.
func (s *Server) drop(w *work) {
	w.mu.Lock()
	for _, h := range w.hooks {
		h.stop()
	}
	w.mu.Unlock()
	if s.opts.Store == nil {
		return
	}
	if err := s.opts.Store.Drop(context.WithoutCancel(s.base), w.storeKey()); !errors.Is(err, store.ErrNotFound) {
		s.report("store", err)
	}
}

// Load reads the tasks that the Store has, before the server is used. Tasks that were at work fail: nobody works on them any more. Those that
// wait for input go on with the next message, for which the agent is run anew.
func (s *Server) Load(ctx context.Context) error {
	if s.opts.Store == nil {
		return nil
	}
	after := ""
	for {
		heads, err := s.opts.Store.Heads(ctx, storePrefix, after, 100)
		if err != nil {
			return fmt.Errorf("a2a: load: %w", err)
		}
		for _, head := range heads {
			after = head.Key
			if err := s.loadTask(ctx, head); err != nil {
				return fmt.Errorf("a2a: load %s: %w", head.Key, err)
			}
		}
		if len(heads) == 0 {
			return nil
		}
	}
}

func (s *Server) loadTask(ctx context.Context, head store.Head) error {
	escaped, id, ok := strings.Cut(strings.TrimPrefix(head.Key, storePrefix), "/")
	owner, err := url.PathUnescape(escaped)
	if !ok || err != nil {
		return fmt.Errorf("a2a: not the key of a task: %w", err)
	}
	w := &work{s: s, owner: owner, id: id, changed: make(chan struct{}), shown: true, compacted: head.First - 1, stored: head.Last}
	for e, err := range s.opts.Store.Read(ctx, head.Key, head.First-1) {
		if err != nil {
			return err
		}
		if err := w.replay(e.Data); err != nil {
			return err
		}
	}
	if w.seq == 0 {
		return nil // only a webhook: the agent never made a task of it
	}
	s.list(w)
	switch state := w.task.Status.State; {
	case state.Terminal():
		s.mu.Lock()
		s.over = append(s.over, w)
		s.mu.Unlock()
		return nil
	case state.Interrupted():
		return nil
	}
	return w.emit(ctx, w.status(StateFailed, []Part{Text("The agent was stopped.")}, nil))
}

// replay has one record happen again.
func (w *work) replay(text []byte) error {
	raw, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return err
	}
	var r record
	if err := raw.Decode(&r); err != nil {
		return err
	}
	w.s.seen.restore(w, r.Sent)
	switch {
	case r.Event != nil:
		var e Event
		if err := r.Event.Decode(&e); err != nil {
			return err
		}
		e.Seq = r.Seq
		w.task.Apply(e)
		w.appendLocked(&logged{seq: r.Seq, event: e, raw: r.Event})
	case r.Message != nil:
		var m Message
		if err := r.Message.Decode(&m); err != nil {
			return err
		}
		w.task.History = append(w.task.History, m)
	case r.Push != nil:
		w.hooks = append(w.hooks, newHook(w, r.Push.Config, ParseVersion(r.Push.Version)))
	case r.NoPush != "":
		w.unhookLocked(r.NoPush)
	case r.Whole != nil:
		w.task, w.seq, w.bytes = r.Whole.Task, r.Seq, r.Whole.Bytes
		w.log, w.logged, w.hooks = nil, 0, nil
		for _, h := range r.Whole.Hooks {
			w.hooks = append(w.hooks, newHook(w, h.Config, ParseVersion(h.Version)))
		}
	}
	return nil
}
