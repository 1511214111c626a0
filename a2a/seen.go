package a2a

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

// seen stores messages by their ids, so that a message that is sent twice is handled once (A2A
// 1.0.1, section 3.3.1: servers may). The same id with different content is an error of the caller.
type seen struct {
	keep time.Duration

	mu      sync.Mutex // guards the fields below
	entries map[seenKey]*list.Element
	order   *list.List // of *seenEntry, oldest first
}

type seenKey struct{ owner, id string }

// A seenEntry is one received message and the task that it was assigned to.
type seenEntry struct {
	all   *seen // nil for messages that are not stored
	key   seenKey
	print string // of the content
	at    time.Time
	done  chan struct{} // closed when work and err are set

	work *work  // nil once the task was removed
	task string // its id
	err  error
}

// maxSeen bounds the stored messages. If there are more, the oldest is removed.
const maxSeen = 10000

func (s *seen) init(keep time.Duration) {
	s.keep, s.entries, s.order = keep, map[seenKey]*list.Element{}, list.New()
}

// fingerprint returns a digest of the content of a message.
func fingerprint(m *Message) string {
	sum := sha256.Sum256(mustEncode(m))
	return hex.EncodeToString(sum[:16])
}

// enter looks up a message. first reports that it is new: the caller must handle it and settle the
// entry. Otherwise the entry is settled.
func (s *seen) enter(ctx context.Context, owner string, m *Message) (entry *seenEntry, first bool, err error) {
	if s.keep < 0 {
		return &seenEntry{}, true, nil
	}
	print := fingerprint(m)
	entry, first = s.add(seenKey{owner, m.MessageID}, print)
	if first {
		return entry, true, nil
	}
	if entry.print != print {
		return entry, false, BadParams("message.messageId", "was already used for another message")
	}
	select {
	case <-entry.done:
		return entry, false, entry.err
	case <-ctx.Done():
		return entry, false, context.Cause(ctx)
	}
}

func (s *seen) add(key seenKey, print string) (entry *seenEntry, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := time.Now()
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		if old := e.Value.(*seenEntry); s.order.Len() < maxSeen && at.Sub(old.at) < s.keep {
			break
		}
		s.removeLocked(e)
	}
	if e, ok := s.entries[key]; ok {
		return e.Value.(*seenEntry), false
	}
	entry = &seenEntry{all: s, key: key, print: print, at: at, done: make(chan struct{})}
	s.entries[key] = s.order.PushBack(entry)
	return entry, true
}

func (s *seen) removeLocked(e *list.Element) {
	delete(s.entries, e.Value.(*seenEntry).key)
	s.order.Remove(e)
}

// forget removes a deleted task and its stored messages, so that these may be sent again.
func (s *seen) forget(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.gone = true
	for _, e := range w.entries {
		if at, ok := s.entries[e.key]; ok && at.Value == any(e) {
			s.removeLocked(at)
		}
		e.work = nil // another goroutine may have the entry
	}
	w.entries = nil
}

// remove deletes the stored messages of a task that was not created.
func (s *seen) remove(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range append(w.entries, w.entry) { // the last one may not be settled yet
		if e == nil {
			continue
		}
		if at, ok := s.entries[e.key]; ok && at.Value == any(e) {
			s.removeLocked(at)
		}
	}
}

// joined returns the task that the message was assigned to.
func (e *seenEntry) joined() (*work, error) {
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	if e.work == nil {
		return nil, Fault(ErrTaskNotFound, "The message was received before, and its task is no longer stored", "taskId", e.task)
	}
	return e.work, nil
}

// settle records the result of the message. A message that failed may be sent again.
func (e *seenEntry) settle(w *work, err error) {
	if e.all == nil {
		return
	}
	e.all.mu.Lock()
	e.err = err
	if err == nil {
		e.task = w.id
	}
	switch at, ok := e.all.entries[e.key]; {
	case err != nil:
	case !w.gone:
		e.work = w
		w.entries = append(w.entries, e)
	case ok && at.Value == any(e): // it was removed meanwhile
		e.all.removeLocked(at)
	}
	e.all.mu.Unlock()
	close(e.done)
	if err == nil {
		return
	}
	e.all.mu.Lock()
	defer e.all.mu.Unlock()
	if at, ok := e.all.entries[e.key]; ok && at.Value == any(e) {
		e.all.removeLocked(at)
	}
}

// A sent is the stored form of an entry.
type sent struct {
	ID    string    `json:"id"`
	Print string    `json:"print"`
	At    Timestamp `json:"at"`
}

func (e *seenEntry) mark() *sent {
	if e == nil || e.all == nil {
		return nil
	}
	return &sent{e.key.id, e.print, Timestamp{e.at}}
}

// restore adds a stored message of an earlier process.
func (s *seen) restore(w *work, mark *sent) {
	if s.keep < 0 || mark == nil || time.Since(mark.At.Time) > s.keep {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := seenKey{w.owner, mark.ID}
	if _, ok := s.entries[key]; ok || s.order.Len() >= maxSeen {
		return
	}
	e := &seenEntry{all: s, key: key, print: mark.Print, at: mark.At.Time, done: make(chan struct{}), work: w, task: w.id}
	close(e.done)
	w.entries = append(w.entries, e)
	s.entries[key] = s.order.PushBack(e)
}
