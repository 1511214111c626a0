package acp

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"sync"
)

// nobody owns what callers without names make.
const nobody = "-"

// ownerOf is a name in the form it has in keys: names may be long, and have slashes in them.
func ownerOf(principal string) string {
	if principal == "" {
		return nobody
	}
	sum := sha256.Sum256([]byte(principal))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// An index knows which runs and sessions there are, in memory, and decides which of them go when there are too many. What it decides
// to forget, its caller removes from the store.
type index struct {
	limits Limits

	mu       sync.Mutex // guards what follows
	runs     map[string]*entry
	active   int                    // runs that have not ended
	input    int                    // bytes of their input
	waiting  int                    // of these, those that await an answer
	ended    *list.List             // *entry, in the order they ended
	bytes    int64                  // of those
	sessions map[string]*sessionUse // by owner and id
	used     *list.List             // *sessionUse, the longest unused first
	owners   map[string]*holding
	closed   bool
	changed  chan struct{} // closed when active or waiting changes; nil while nobody waits
}

// An entry is one run.
type entry struct {
	id, owner, session string
	input              int // bytes

	// guarded by the mutex of the index
	live  *run          // nil when all that is to be known is in the store
	place *list.Element // among the ended ones
	mine  *list.Element // among the owner's ended ones
	bytes int64
}

// A sessionUse is one session.
type sessionUse struct {
	id, owner string

	live  int // runs in it that have not ended
	place *list.Element
	mine  *list.Element
}

// A holding is what one principal has.
type holding struct {
	runs     int
	ended    *list.List // *entry
	sessions *list.List // *sessionUse
}

func (x *index) init(l Limits) {
	x.limits = l
	x.runs, x.sessions, x.owners = map[string]*entry{}, map[string]*sessionUse{}, map[string]*holding{}
	x.ended, x.used = list.New(), list.New()
}

// forgotten is what the index has let go.
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

// begin takes in a run that starts now, and what has to go for it.
func (x *index) begin(e *entry) (gone forgotten, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return gone, refuse(ErrBusy, CodeServerError, "The server is shutting down.")
	}
	h := x.holdingLocked(e.owner)
	owned := e.owner != nobody && h.runs-h.ended.Len() >= x.limits.Owned
	switch {
	case x.active >= x.limits.Active, owned, x.active >= x.limits.Runs:
		err = refuse(ErrBusy, CodeServerError, "Too many runs are under way.")
	case x.input+e.input > x.limits.Input:
		err = refuse(ErrBusy, CodeServerError, "The input of the runs that are under way leaves no room.")
	}
	if err != nil {
		x.leaveLocked(e.owner, h)
		return gone, err
	}
	use := x.sessionLocked(e.owner, e.session, &gone)
	if use == nil {
		x.leaveLocked(e.owner, h)
		return gone, refuse(ErrBusy, CodeServerError, "Too many sessions are in use.")
	}
	use.live++
	x.active++
	x.input += e.input
	x.runs[e.id] = e
	h = x.holdingLocked(e.owner) // it may have become empty, and gone, meanwhile
	h.runs++
	for len(x.runs) > x.limits.Runs {
		x.forgetLocked(x.ended.Front().Value.(*entry), &gone)
	}
	if e.owner != nobody {
		for h.runs > x.limits.Owned {
			x.forgetLocked(h.ended.Front().Value.(*entry), &gone)
		}
	}
	x.noteLocked()
	return gone, nil
}

// sessionLocked finds a session or takes in a new one; nil if there is no room for it.
func (x *index) sessionLocked(owner, id string, gone *forgotten) *sessionUse {
	key := owner + "/" + id
	if use := x.sessions[key]; use != nil {
		x.used.MoveToBack(use.place)
		x.holdingLocked(owner).sessions.MoveToBack(use.mine)
		return use
	}
	h := x.holdingLocked(owner)
	if owner != nobody && h.sessions.Len() >= x.limits.Owned && !x.forgetUnusedLocked(h.sessions, gone) {
		return nil
	}
	if x.used.Len() >= x.limits.Sessions && !x.forgetUnusedLocked(x.used, gone) {
		return nil
	}
	h = x.holdingLocked(owner) // it may have become empty, and gone
	use := &sessionUse{id: id, owner: owner}
	use.place, use.mine = x.used.PushBack(use), h.sessions.PushBack(use)
	x.sessions[key] = use
	return use
}

// forgetUnusedLocked lets the session go that was used longest ago, of those without a run.
func (x *index) forgetUnusedLocked(all *list.List, gone *forgotten) bool {
	for at := all.Front(); at != nil; at = at.Next() {
		use := at.Value.(*sessionUse)
		if use.live > 0 {
			continue
		}
		h := x.holdingLocked(use.owner)
		x.used.Remove(use.place)
		h.sessions.Remove(use.mine)
		delete(x.sessions, use.owner+"/"+use.id)
		x.leaveLocked(use.owner, h)
		gone.sessions = append(gone.sessions, use)
		return true
	}
	return false
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

// end notes that a run has ended, with so many bytes in the store. kept tells that the store has it all.
func (x *index) end(e *entry, bytes int64, kept bool) (gone forgotten) {
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

// drop takes a run back whose first event could not be written.
func (x *index) drop(e *entry) {
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

// found takes in a run that the store has from before.
func (x *index) found(e *entry, bytes int64) (gone forgotten) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.runs[e.id] != nil {
		return gone // from an earlier try
	}
	x.runs[e.id] = e
	x.holdingLocked(e.owner).runs++
	x.endedLocked(e, bytes)
	for len(x.runs) > x.limits.Runs || x.bytes > x.limits.Bytes && x.ended.Len() > 1 {
		x.forgetLocked(x.ended.Front().Value.(*entry), &gone)
	}
	return gone
}

// foundSession takes in a session that the store has from before.
func (x *index) foundSession(owner, id string) (gone forgotten) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sessionLocked(owner, id, &gone)
	return gone
}

// awaits notes that one run more, or less, awaits an answer.
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

// run returns a run of owner, and its live part unless it has ended.
func (x *index) run(owner, id string) (*entry, *run) {
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.runs[id]
	if e == nil || e.owner != owner {
		return nil, nil
	}
	return e, e.live
}

// knows reports whether there is such a session.
func (x *index) knows(owner, id string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sessions[owner+"/"+id] != nil
}

func (x *index) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
}

// idle waits until no run is under way; with asking, those that await an answer do not count.
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
