package acp

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"sync"
)

// anonymousOwner owns the runs and sessions of callers without a principal.
const anonymousOwner = "-"

// ownerOf returns a principal in the form used in keys: a principal may be long and contain
// slashes.
func ownerOf(principal string) string {
	if principal == "" {
		return anonymousOwner
	}
	sum := sha256.Sum256([]byte(principal))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// An index lists the runs and sessions in memory, and selects those to remove when there are too
// many. Its caller removes them from the store.
type index struct {
	limits Limits

	mu       sync.Mutex // guards the fields below
	runs     map[string]*entry
	active   int                    // runs that have not ended
	input    int                    // bytes of their input
	waiting  int                    // of these, those that await input
	ended    *list.List             // *entry, in the order in which they ended
	bytes    int64                  // bytes of the ended runs
	sessions map[string]*sessionUse // by owner and id
	held     int64                  // bytes of the sessions
	used     *list.List             // *sessionUse, least recently used first
	owners   map[string]*holding
	closed   bool
	changed  chan struct{} // closed when active or waiting changes; nil while no goroutine waits
}

// An entry is one run.
type entry struct {
	id, owner, session string
	input              int // bytes

	// guarded by the mutex of the index
	live  *run          // nil once the complete run is in the store
	place *list.Element // in the list of ended runs
	mine  *list.Element // in the owner's list of ended runs
	bytes int64
}

// A sessionUse is one session.
type sessionUse struct {
	id, owner string

	live  int   // runs in it that have not ended
	bytes int64 // of it and its messages in the store
	place *list.Element
	mine  *list.Element
}

// A holding is the runs and sessions of one principal.
type holding struct {
	runs     int
	ended    *list.List // *entry
	sessions *list.List // *sessionUse
	held     int64      // bytes of these sessions
}

func (x *index) initIndex(l Limits) {
	x.limits = l
	x.runs, x.sessions, x.owners = map[string]*entry{}, map[string]*sessionUse{}, map[string]*holding{}
	x.ended, x.used = list.New(), list.New()
}

// forgotten lists what the index has removed.
type forgotten struct {
	runs     []*entry
	sessions []*sessionUse
}

func (x *index) holdingLocked(owner string) *holding {
	h := x.owners[owner]
	if h == nil {
		h = &holding{ended: list.New(), sessions: list.New()}
		x.owners[owner] = h
	}
	return h
}

func (x *index) leaveLocked(owner string, h *holding) {
	if h.runs == 0 && h.sessions.Len() == 0 {
		delete(x.owners, owner)
	}
}

// addRun adds a starting run, and returns what was removed for it.
func (x *index) addRun(e *entry) (gone forgotten, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return gone, newRefusal(ErrBusy, CodeServerError, "The server is shutting down.")
	}
	h := x.holdingLocked(e.owner)
	owned := e.owner != anonymousOwner && h.runs-h.ended.Len() >= x.limits.Owned
	switch {
	case x.active >= x.limits.Active, owned, x.active >= x.limits.Runs:
		err = newRefusal(ErrBusy, CodeServerError, "Too many runs are active.")
	case x.input+e.input > x.limits.Input:
		err = newRefusal(ErrBusy, CodeServerError, "The input of the active runs leaves no room.")
	}
	if err != nil {
		x.leaveLocked(e.owner, h)
		return gone, err
	}
	use := x.sessionLocked(e.owner, e.session, &gone)
	if use == nil {
		x.leaveLocked(e.owner, h)
		return gone, newRefusal(ErrBusy, CodeServerError, "Too many sessions are in use.")
	}
	use.live++
	x.active++
	x.input += e.input
	x.runs[e.id] = e
	h = x.holdingLocked(e.owner) // it may have become empty and been removed meanwhile
	h.runs++
	for len(x.runs) > x.limits.Runs {
		x.forgetLocked(x.ended.Front().Value.(*entry), &gone)
	}
	if e.owner != anonymousOwner {
		for h.runs > x.limits.Owned {
			x.forgetLocked(h.ended.Front().Value.(*entry), &gone)
		}
	}
	x.noteLocked()
	return gone, nil
}

// sessionLocked returns a session, or adds a new one; nil if there is no room for it.
func (x *index) sessionLocked(owner, id string, gone *forgotten) *sessionUse {
	key := owner + "/" + id
	if use := x.sessions[key]; use != nil {
		x.used.MoveToBack(use.place)
		x.holdingLocked(owner).sessions.MoveToBack(use.mine)
		return use
	}
	h := x.holdingLocked(owner)
	if owner != anonymousOwner && h.sessions.Len() >= x.limits.Owned && !x.forgetUnusedLocked(h.sessions, gone) {
		return nil
	}
	if x.used.Len() >= x.limits.Sessions && !x.forgetUnusedLocked(x.used, gone) {
		return nil
	}
	h = x.holdingLocked(owner) // it may have become empty and been removed
	use := &sessionUse{id: id, owner: owner}
	use.place, use.mine = x.used.PushBack(use), h.sessions.PushBack(use)
	x.sessions[key] = use
	return use
}

// forgetUnusedLocked removes the least recently used session without an active run.
func (x *index) forgetUnusedLocked(all *list.List, gone *forgotten) bool {
	for at := all.Front(); at != nil; at = at.Next() {
		use := at.Value.(*sessionUse)
		if use.live > 0 {
			continue
		}
		h := x.holdingLocked(use.owner)
		x.weighLocked(use, h, -use.bytes)
		x.used.Remove(use.place)
		h.sessions.Remove(use.mine)
		delete(x.sessions, use.owner+"/"+use.id)
		x.leaveLocked(use.owner, h)
		gone.sessions = append(gone.sessions, use)
		return true
	}
	return false
}

// weighLocked adds bytes to those that a session holds.
func (x *index) weighLocked(use *sessionUse, h *holding, by int64) {
	use.bytes += by
	h.held += by
	x.held += by
}

// growSession adds bytes to those that a session holds, and returns what was removed for them. The
// error is ErrBusy if there is no room.
func (x *index) growSession(owner, id string, by int64) (gone forgotten, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	use := x.sessions[owner+"/"+id]
	if use == nil {
		return gone, nil
	}
	use.live++ // it is not removed to make room for itself
	defer func() { use.live-- }()
	h := x.holdingLocked(owner)
	x.weighLocked(use, h, by)
	for by > 0 && x.held > x.limits.SessionBytes {
		own := owner != anonymousOwner && h.held > x.limits.SessionBytes/4 && x.forgetUnusedLocked(h.sessions, &gone)
		if !own && !x.forgetUnusedLocked(x.used, &gone) {
			x.weighLocked(use, h, -by)
			return gone, newRefusal(ErrBusy, CodeServerError, "The stored sessions leave no room.")
		}
	}
	return gone, nil
}

// sessionBytes returns the bytes that a session holds.
func (x *index) sessionBytes(owner, id string) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if use := x.sessions[owner+"/"+id]; use != nil {
		return use.bytes
	}
	return 0
}

func (x *index) forgetLocked(e *entry, gone *forgotten) {
	h := x.holdingLocked(e.owner)
	x.ended.Remove(e.place)
	h.ended.Remove(e.mine)
	h.runs--
	x.bytes -= e.bytes
	delete(x.runs, e.id)
	x.leaveLocked(e.owner, h)
	gone.runs = append(gone.runs, e)
}

// endRun records that a run has ended, with its bytes in the store. kept reports that the store has
// the complete run.
func (x *index) endRun(e *entry, bytes int64, kept bool) (gone forgotten) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if kept {
		e.live = nil
	}
	x.active--
	x.input -= e.input
	if use := x.sessions[e.owner+"/"+e.session]; use != nil {
		use.live--
	}
	x.endedLocked(e, bytes)
	for x.bytes > x.limits.Bytes && x.ended.Len() > 1 {
		x.forgetLocked(x.ended.Front().Value.(*entry), &gone)
	}
	x.noteLocked()
	return gone
}

// dropEntry removes a run whose first event could not be written.
func (x *index) dropEntry(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.runs, e.id)
	h := x.holdingLocked(e.owner)
	h.runs--
	x.active--
	x.input -= e.input
	if use := x.sessions[e.owner+"/"+e.session]; use != nil {
		use.live--
	}
	x.leaveLocked(e.owner, h)
	x.noteLocked()
}

func (x *index) endedLocked(e *entry, bytes int64) {
	e.bytes = bytes
	x.bytes += bytes
	e.place, e.mine = x.ended.PushBack(e), x.holdingLocked(e.owner).ended.PushBack(e)
}

// found adds a run that the store has from an earlier process.
func (x *index) found(e *entry, bytes int64) (gone forgotten) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.runs[e.id] != nil {
		return gone // from an earlier attempt
	}
	x.runs[e.id] = e
	x.holdingLocked(e.owner).runs++
	x.endedLocked(e, bytes)
	for len(x.runs) > x.limits.Runs || x.bytes > x.limits.Bytes && x.ended.Len() > 1 {
		x.forgetLocked(x.ended.Front().Value.(*entry), &gone)
	}
	return gone
}

// foundSession adds a session that the store has from an earlier process.
func (x *index) foundSession(owner, id string, bytes int64) (gone forgotten) {
	x.mu.Lock()
	defer x.mu.Unlock()
	known := x.sessions[owner+"/"+id] != nil // from an earlier attempt
	if use := x.sessionLocked(owner, id, &gone); use != nil && !known {
		x.weighLocked(use, x.holdingLocked(owner), bytes)
		for x.held > x.limits.SessionBytes && x.used.Len() > 1 && x.forgetUnusedLocked(x.used, &gone) {
		}
	}
	return gone
}

// awaits changes the number of runs that await input.
func (x *index) awaits(by int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiting += by
	x.noteLocked()
}

func (x *index) noteLocked() {
	if x.changed != nil {
		close(x.changed)
		x.changed = nil
	}
}

// liveRun returns a run of owner, and its live part unless the run has ended.
func (x *index) liveRun(owner, id string) (*entry, *run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.runs[id]
	if e == nil || e.owner != owner {
		return nil, nil
	}
	return e, e.live
}

// contains reports whether the session exists.
func (x *index) contains(owner, id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sessions[owner+"/"+id] != nil
}

func (x *index) closeIndex() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
}

// idle waits until no run is active. If asking is true, runs that await input do not count.
func (x *index) idle(ctx context.Context, asking bool) error {
	for {
		x.mu.Lock()
		if x.active == 0 || asking && x.active <= x.waiting {
			x.mu.Unlock()
			return nil
		}
		if x.changed == nil {
			x.changed = make(chan struct{})
		}
		changed := x.changed
		x.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
