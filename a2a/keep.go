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

// This file stores tasks so that they survive a restart. Each task has one log of its changes.
// Replaying a log from its beginning restores the task.

// storePrefix is the prefix of the keys of the logs. Owner and id follow.
const storePrefix = "a2a/tasks/"

// A record is one entry of a task's log: an event, a message of the caller, the registration or
// removal of a webhook, or the whole task, which replaces all records before it.
type record struct {
	Seq     int64       `json:"seq,omitzero"`
	Event   jsonrpc.Raw `json:"event,omitzero"`
	Message jsonrpc.Raw `json:"message,omitzero"`
	Sent    *sent       `json:"sent,omitzero"` // of the message, or of the first message
	Push    *storedPush `json:"push,omitzero"`
	NoPush  string      `json:"noPush,omitzero"` // id of a removed webhook
	Whole   *whole      `json:"whole,omitzero"`
	// a run begins with the newest message that is not queued
	Begin *begin `json:"begin,omitzero"`
	// Digest of the question in the event, or of the question that a queued message answers.
	Asked  string `json:"asked,omitzero"`
	Rested bool   `json:"rested,omitzero"` // the run returned and left the task waiting
}

type storedPush struct {
	Config  PushConfig `json:"config"`
	Version string     `json:"version"`
}

type whole struct {
	Task  Task         `json:"task"`
	Bytes int          `json:"bytes"`
	Hooks []storedPush `json:"hooks,omitempty"`
	Past  *past        `json:"past,omitzero"`
}

// compactEvery is the number of records after which a log is replaced by one record of the whole
// task.
const compactEvery = 1000

func (w *work) storeKey() string {
	return storePrefix + url.PathEscape(w.owner) + "/" + w.id
}

// keep appends one record to the task's log. The caller must hold order. If it fails, the change
// must not take effect.
func (s *Server) keep(ctx context.Context, w *work, r record) error {
	if s.opts.Store == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the change is already in progress
	text := mustEncode(r)
	last, err := s.opts.Store.Append(ctx, w.storeKey(), store.Any, text)
	if err != nil {
		return err
	}
	w.stored = last
	w.since += len(text)
	return nil
}

// compact replaces a long log by one record of the whole task, once the records after the last such
// record are as long as that one. All of them together are then at most twice as long as what is
// stored of events. The caller must hold order, and all records must have been applied.
func (s *Server) compact(ctx context.Context, w *work) error {
	if s.opts.Store == nil || w.stored < w.compacted+compactEvery || w.since < w.whole {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	text := mustEncode(w.all())
	w.whole, w.since = len(text), 0
	last, err := s.opts.Store.Append(ctx, w.storeKey(), store.Any, text)
	if errors.Is(err, store.ErrLimit) { // too large for one record: the log is left unchanged
		w.compacted = w.stored
		return nil
	}
	if err != nil {
		return err
	}
	w.stored, w.compacted = last, last
	return s.opts.Store.Trim(ctx, w.storeKey(), last-1)
}

// all returns the record of the whole task.
func (w *work) all() record {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := &whole{Task: w.task, Bytes: w.bytes}
	if w.past != nil {
		p := *w.past
		all.Past = &p
	}
	for _, h := range w.hooks {
		all.Hooks = append(all.Hooks, storedPush{h.config, h.version.String()})
	}
	return record{Seq: w.seq, Whole: all}
}

// rewrite replaces the log of a task that is over, and has no room for its last event, by one
// record of the whole task. If that is too long, its output is left out, and the stored task is
// failed. The caller must hold order.
func (s *Server) rewrite(ctx context.Context, w *work) error {
	ctx = context.WithoutCancel(ctx)
	if err := s.opts.Store.Trim(ctx, w.storeKey(), w.stored-1); err != nil {
		return err
	}
	all := w.all()
	last, err := s.opts.Store.Append(ctx, w.storeKey(), store.Any, mustEncode(all))
	if errors.Is(err, store.ErrLimit) {
		t := &all.Whole.Task
		t.Artifacts, t.History, t.Metadata = nil, nil, nil
		t.Status = w.status(StateFailed, []Part{Text("The storage has no room for the output.")}, nil).Status.Status
		last, err = s.opts.Store.Append(ctx, w.storeKey(), store.Any, mustEncode(all))
	}
	if err != nil {
		return err
	}
	w.stored, w.compacted = last, last
	return s.opts.Store.Trim(ctx, w.storeKey(), last-1)
}

// expire sets the time at which the store deletes a task that is over.
func (s *Server) expire(w *work) {
	if s.opts.Store != nil {
		s.report(jsonrpc.ReportStore, s.opts.Store.Expire(context.WithoutCancel(s.base), w.storeKey(), time.Now().Add(s.opts.TaskTTL)))
	}
}

// drop stops the webhooks of a task that was removed from memory, and deletes it from the store.
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
		s.report(jsonrpc.ReportStore, err)
	}
}

// Load reads the tasks from the Store. Call it before the server is used. Tasks that were running
// fail, because no agent works on them. Tasks that wait for input continue with the next message.
// If the agent waited in [Run.Ask], it runs again with the message that it began with: Ask returns
// the stored answers in order, events that were already sent are not sent again, and the new
// message answers the last question. If the agent then asks a different question, or returns
// without asking, the task fails. Other side effects of the agent (files, calls) happen again. If
// the agent had returned with the task waiting, it is called with the new message, as without a
// restart.
func (s *Server) Load(ctx context.Context) error {
	if s.opts.Store == nil {
		return nil
	}
	after := ""
	var over []*work
	defer func() { s.found(over) }()
	for {
		heads, err := s.opts.Store.Heads(ctx, storePrefix, after, 100)
		if err != nil {
			return fmt.Errorf("a2a: load: %w", err)
		}
		for _, head := range heads {
			after = head.Key
			w, err := s.loadTask(ctx, head)
			if err != nil {
				return fmt.Errorf("a2a: load %s: %w", head.Key, err)
			}
			if w != nil {
				over = append(over, w)
			}
		}
		if len(heads) == 0 {
			return nil
		}
	}
}

// loadTask restores one task, and returns it if it is over.
func (s *Server) loadTask(ctx context.Context, head store.Head) (*work, error) {
	escaped, id, ok := strings.Cut(strings.TrimPrefix(head.Key, storePrefix), "/")
	owner, err := url.PathUnescape(escaped)
	if !ok || err != nil {
		return nil, fmt.Errorf("a2a: not the key of a task: %w", err)
	}
	w := &work{s: s, owner: owner, id: id, changed: make(chan struct{}), shown: true, compacted: head.First - 1, stored: head.Last}
	for e, err := range s.opts.Store.Read(ctx, head.Key, head.First-1) {
		if err != nil {
			return nil, err
		}
		if err := w.replay(e.Data); err != nil {
			return nil, err
		}
	}
	if w.seq == 0 {
		return nil, nil // only a webhook was stored: the agent created no task
	}
	s.list(w)
	w.held = weighTask(&w.task)
	for _, h := range w.hooks {
		w.held += h.size
	}
	s.held.Add(w.held)
	switch state := w.task.Status.State; {
	case state.Terminal():
		for _, l := range w.log {
			l.slim()
		}
		return w, nil
	case state.Interrupted():
		w.recall()
		return nil, nil
	}
	return nil, w.emit(ctx, w.status(StateFailed, []Part{Text("The agent was stopped.")}, nil))
}

// replay applies one record.
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
	w.since += len(text)
	switch {
	case r.Event != nil:
		var e Event
		if err := r.Event.Decode(&e); err != nil {
			return err
		}
		e.Seq = r.Seq
		w.applyLocked(e)
		w.relive(&e, &r)
		w.appendLocked(&logged{seq: r.Seq, event: e, size: len(r.Event), raw: r.Event})
	case r.Message != nil:
		var m Message
		if err := r.Message.Decode(&m); err != nil {
			return err
		}
		w.task.History = append(w.task.History, m)
		w.bytes += len(r.Message)
		if w.past != nil {
			w.past.Answers = append(w.past.Answers, m)
		}
	case r.Push != nil:
		w.hooks = append(w.hooks, newHook(w, r.Push.Config, ParseVersion(r.Push.Version)))
	case r.NoPush != "":
		w.unhookLocked(r.NoPush)
	case r.Whole != nil:
		w.task, w.seq, w.bytes, w.places = r.Whole.Task, r.Seq, r.Whole.Bytes, nil
		w.log, w.logged, w.hooks, w.past = nil, 0, nil, r.Whole.Past
		w.whole, w.since = len(text), 0
		// Stored by a version that did not record questions.
		if w.past == nil && w.task.Status.State.Interrupted() {
			w.past = &past{Old: true, Lost: true, Asked: []string{""}}
		}
		for _, h := range r.Whole.Hooks {
			w.hooks = append(w.hooks, newHook(w, h.Config, ParseVersion(h.Version)))
		}
	}
	if p := w.past; p != nil && r.Event == nil {
		switch {
		case r.Begin != nil:
			w.past = p.next(*r.Begin)
		case r.Asked != "":
			p.ask(r.Asked)
		case r.Rested:
			p.Rested = true
		}
	}
	return nil
}

// relive restores from an event the state of the run that sent it.
func (w *work) relive(e *Event, r *record) {
	if e.Task != nil && r.Seq == 1 && len(e.Task.History) > 0 {
		w.past = &past{Message: e.Task.History[0], Old: r.Begin == nil}
		if r.Begin != nil {
			w.past.Begin = *r.Begin
		}
	}
	switch p := w.past; {
	case p == nil:
	case r.Asked != "":
		p.ask(r.Asked)
	case p.Old && e.Status != nil && e.State().Interrupted(): // stored by an older version without questions
		var parts []Part
		if m := e.Status.Status.Message; m != nil {
			parts = m.Parts
		}
		asked, err := digest(e.State(), parts)
		if p.ask(asked); err != nil {
			p.Lost = true
		}
	}
}
