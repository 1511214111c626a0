package a2a

import (
	"container/list"
	"fmt"
	"slices"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// This file bounds the memory of a server. Each stored item counts with its approximate size: its
// content, and entryWeight for each task, message and webhook. Running tasks cannot grow when there
// is no room. Tasks that are over are removed to make room, first those of the caller that holds
// the most, so that many tasks of one caller do not displace the results of all others.

const (
	entryWeight = 1 << 10
	eventWeight = 256
)

// weigh returns the approximate size of a message in bytes.
func weigh(m *Message) int64 {
	n := int64(entryWeight + len(m.MessageID) + len(m.ContextID))
	return n + weighParts(m.Parts) + weighMetadata(m.Metadata)
}

func weighParts(parts []Part) int64 {
	n := int64(0)
	for i := range parts {
		p := &parts[i]
		n += 256 + int64(len(p.Text)+len(p.Raw)+len(p.URL)+len(p.Data)+len(p.MediaType)+len(p.Filename)) + weighMetadata(p.Metadata)
	}
	return n
}

func weighMetadata(all Metadata) int64 {
	n := int64(0)
	for key, value := range all {
		n += 64 + int64(len(key)+len(value))
	}
	return n
}

// weighTask returns the approximate size of a task in bytes.
func weighTask(t *Task) int64 {
	n := int64(entryWeight) + weighMetadata(t.Metadata)
	for i := range t.History {
		n += weigh(&t.History[i])
	}
	for i := range t.Artifacts {
		n += eventWeight + weighParts(t.Artifacts[i].Parts) + weighMetadata(t.Artifacts[i].Metadata)
	}
	if t.Status.Message != nil {
		n += weigh(t.Status.Message)
	}
	return n
}

// A holding is the memory use of one principal. The mutex of the server guards it.
type holding struct {
	live int64      // bytes of messages of tasks that are not over
	over *list.List // of *work, in the order in which they were over
	kept int64      // bytes of the tasks in over
}

func (s *Server) holdingLocked(owner string) *holding {
	h := s.owners[owner]
	if h == nil {
		h = &holding{over: list.New()}
		s.owners[owner] = h
	}
	return h
}

func (s *Server) leaveLocked(owner string) {
	if h := s.owners[owner]; h != nil && h.live == 0 && h.over.Len() == 0 {
		delete(s.owners, owner)
	}
}

// admit reserves n bytes for a message of a caller, and a place for a new task if fresh is true.
// Call release to return the bytes; otherwise they are freed with the task.
func (s *Server) admit(owner string, n int64, fresh bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errStopping
	}
	if fresh {
		if err := s.roomLocked(); err != nil {
			return err
		}
	}
	for s.held.Load()+n > s.opts.MaxBytes && s.over.Len() > 0 {
		s.forgetLocked(s.mostLocked())
	}
	h := s.holdingLocked(owner)
	held := s.held.Load() + n
	switch {
	case held > s.opts.MaxBytes,
		// leaves room for other callers
		owner != "" && h.live+n > s.opts.MaxBytes/4 && held > s.opts.MaxBytes/2,
		// Always leaves room for callers without tasks.
		owner != "" && h.live > 0 && held > s.opts.MaxBytes/8*7:
		s.leaveLocked(owner)
		return Fault(errBusy, "Running tasks leave no room for the message")
	}
	h.live += n
	s.held.Add(n)
	return nil
}

// chargeTask assigns bytes that admit has reserved to a task. The caller must hold order.
func (s *Server) chargeTask(w *work, n int64) {
	w.held += n
	s.mu.Lock()
	w.admitted += n
	s.mu.Unlock()
}

// release returns bytes that admit has reserved.
func (s *Server) release(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdingLocked(owner).live -= n
	s.held.Add(-n)
	s.leaveLocked(owner)
}

// roomLocked makes room for one more task.
func (s *Server) roomLocked() error {
	oldest := time.Now().Add(-s.opts.TaskTTL)
	for s.over.Len() > 0 {
		w := s.over.Front().Value.(*work)
		if w.ended.After(oldest) {
			break
		}
		s.forgetLocked(w)
	}
	for len(s.tasks)+s.talks >= s.opts.MaxTasks && s.over.Len() > 0 {
		s.forgetLocked(s.mostLocked())
	}
	if len(s.tasks)+s.talks >= s.opts.MaxTasks || s.running.Load() >= int64(s.opts.MaxRunning) {
		return Fault(errBusy, fmt.Sprintf("Too many tasks: %d are stored, %d agents are running", len(s.tasks), s.running.Load()))
	}
	return nil
}

// mostLocked returns the oldest finished task of the caller whose finished tasks hold the most
// bytes. There must be one.
func (s *Server) mostLocked() *work {
	var most *holding
	for _, h := range s.owners {
		if h.over.Len() > 0 && (most == nil || h.kept > most.kept) {
			most = h
		}
	}
	return most.over.Front().Value.(*work)
}

// forgetLocked removes a task that is over.
func (s *Server) forgetLocked(w *work) {
	h := s.owners[w.owner]
	s.over.Remove(w.place)
	h.over.Remove(w.mine)
	w.place, w.mine = nil, nil
	h.kept -= w.held
	s.kept -= w.held
	s.held.Add(-w.held)
	s.leaveLocked(w.owner)
	if key := (taskKey{w.owner, w.id}); s.tasks[key] == w {
		delete(s.tasks, key)
	} else {
		s.talks--
	}
	s.seen.forget(w)
	if !s.ended {
		s.serving.Go(func() {
			defer rescue.Catch(s.report, nil) // of a store
			s.drop(w)
		})
	}
}

// finished records that a task is over, or has become a message, so that it can be removed to make
// room. held is its new size in bytes.
func (s *Server) finished(w *work, held int64, task bool) {
	s.mu.Lock()
	s.overLocked(w, held, time.Now())
	if !task {
		s.talks++
	}
	s.mu.Unlock()
	if task {
		s.expire(w)
	}
}

func (s *Server) overLocked(w *work, held int64, at time.Time) {
	h := s.holdingLocked(w.owner)
	h.live -= w.admitted
	s.held.Add(held - w.held)
	w.admitted, w.held, w.ended = 0, held, at
	h.kept += held
	s.kept += held
	w.place, w.mine = s.over.PushBack(w), h.over.PushBack(w)
	for s.kept > s.opts.MaxKept && s.over.Len() > 1 {
		if most := s.mostLocked(); most != w {
			s.forgetLocked(most)
		} else if front := s.over.Front().Value.(*work); front != w { // the newest is retained for its caller
			s.forgetLocked(front)
		} else {
			return
		}
	}
}

// hold counts n bytes that an agent produced, and reports whether there is room for them.
func (s *Server) hold(w *work, n int64) bool {
	if s.held.Add(n) > s.opts.MaxBytes {
		s.mu.Lock()
		for s.held.Load() > s.opts.MaxBytes && s.over.Len() > 0 {
			s.forgetLocked(s.mostLocked())
		}
		s.mu.Unlock()
		if s.held.Load() > s.opts.MaxBytes {
			s.held.Add(-n)
			return false
		}
	}
	w.held += n
	return true
}

// holdMore is hold for a task that may be over. The caller must hold order.
func (s *Server) holdMore(w *work, n int64) bool {
	w.mu.Lock()
	over := w.task.Status.State.Terminal()
	w.mu.Unlock()
	if !over {
		return s.hold(w, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.place != nil { // otherwise it was removed
		w.held += n
		s.kept += n
		s.owners[w.owner].kept += n
		s.held.Add(n)
	}
	return true
}

// letGo returns n bytes that holdMore has counted. The caller must hold order.
func (s *Server) letGo(w *work, n int64) {
	w.mu.Lock()
	over := w.task.Status.State.Terminal()
	w.mu.Unlock()
	if !over {
		w.held -= n
		s.held.Add(-n)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.place != nil { // otherwise it was removed, with all its bytes
		w.held -= n
		s.kept -= n
		s.owners[w.owner].kept -= n
		s.held.Add(-n)
	}
}

// found adds restored tasks that are over, oldest first.
func (s *Server) found(all []*work) {
	slices.SortStableFunc(all, func(a, b *work) int { return a.task.Status.Timestamp.Compare(b.task.Status.Timestamp.Time) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range all {
		s.overLocked(w, w.held, w.task.Status.Timestamp.Time)
	}
}
