package a2a

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

func (c *call) getTask(p *GetTaskRequest) (any, error) {
	if p.HistoryLength != nil && *p.HistoryLength < 0 {
		return nil, BadParams("historyLength", "must not be negative")
	}
	w, err := c.find(p.ID)
	if err != nil {
		return nil, err
	}
	t, _ := w.snapshot()
	return trimmed(t, p.HistoryLength), nil
}

// cancel cancels a task and returns the task as it is afterwards.
func (c *call) cancel(ctx context.Context, p *TaskRequest) (any, error) {
	w, err := c.find(p.ID)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	state, run := w.task.Status.State, w.run
	w.mu.Unlock()
	if state.Terminal() {
		return nil, Fault(ErrTaskNotCancelable, "", "taskId", w.id, "state", string(state))
	}
	if run != nil {
		run.cancel(ErrCanceled)
		patience, done := context.WithTimeoutCause(ctx, c.s.opts.CancelWait, jsonrpc.ErrTimeout)
		defer done()
		err := w.await(patience, func() bool { return w.task.Status.State.Terminal() || w.run != run })
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if err := w.emit(ctx, w.status(StateCanceled, nil, p.Metadata)); err != nil && !errors.Is(err, ErrTaskOver) {
		return nil, err
	}
	t, _ := w.snapshot()
	return &t, nil
}

// Bounds of a list's pages (A2A 1.0.1, section 3.1.4).
const (
	pageDefault = 50
	pageMax     = 100
)

// A place is a position in the list: tasks are sorted by the time of their status, most recent
// first, then by id.
type place struct {
	at time.Time
	id string
}

func (a place) compare(b place) int {
	if n := b.at.Compare(a.at); n != 0 {
		return n
	}
	return cmp.Compare(a.id, b.id)
}

func (a place) token() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(a.at.UnixMilli(), 10) + " " + a.id))
}

func placeOf(token string) (p place, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return p, false
	}
	at, id, ok := strings.Cut(string(text), " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	return place{time.UnixMilli(ms), id}, ok && err == nil
}

func (c *call) listTasks(p *ListTasksRequest) (any, error) {
	size := pageDefault
	if p.PageSize != nil {
		size = *p.PageSize
	}
	var from place
	ok := true
	if p.PageToken != "" {
		from, ok = placeOf(p.PageToken)
	}
	switch {
	case size < 1 || size > pageMax:
		return nil, BadParams("pageSize", "must be from 1 to 100")
	case p.HistoryLength != nil && *p.HistoryLength < 0:
		return nil, BadParams("historyLength", "must not be negative")
	case p.Status != "" && !p.Status.known():
		return nil, BadParams("status", "is not a task state")
	case !ok:
		return nil, BadParams("pageToken", "is not valid: it was not issued by this server")
	}
	found := c.s.ofOwner(c.svc.Principal, p)
	page := &TaskPage{Tasks: []Task{}, PageSize: size, TotalSize: len(found)}
	at := 0
	if p.PageToken != "" {
		at, _ = slices.BinarySearchFunc(found, from, func(t Task, from place) int { return placeOfTask(&t).compare(from) })
		if at < len(found) && placeOfTask(&found[at]).compare(from) == 0 {
			at++
		}
	}
	for _, t := range found[at:] {
		if len(page.Tasks) == size {
			page.NextPageToken = placeOfTask(&page.Tasks[size-1]).token()
			break
		}
		if !p.IncludeArtifacts {
			t.Artifacts = nil
		}
		if p.HistoryLength == nil {
			t.History = nil
		}
		page.Tasks = append(page.Tasks, *trimmed(t, p.HistoryLength))
	}
	return page, nil
}

func placeOfTask(t *Task) place { return place{t.Status.Timestamp.Time, t.ID} }

// known reports whether s is a state that the protocol defines.
func (s TaskState) known() bool {
	switch s {
	case StateSubmitted, StateWorking, StateUnspecified:
		return true
	}
	return s.Rests()
}

// ofOwner returns the tasks of one caller that match p, in order.
func (s *Server) ofOwner(owner string, p *ListTasksRequest) []Task {
	s.mu.Lock()
	var mine []*work
	for key, w := range s.tasks {
		if key.owner == owner {
			mine = append(mine, w)
		}
	}
	s.mu.Unlock()
	var found []Task
	for _, w := range mine {
		w.mu.Lock()
		t := w.task
		if !p.IncludeArtifacts {
			t.Artifacts = nil // a page is one of many, and a task may have many artifacts
		}
		t = t.own()
		w.mu.Unlock()
		if p.ContextID != "" && t.ContextID != p.ContextID ||
			p.Status != "" && p.Status != StateUnspecified && t.Status.State != p.Status ||
			!p.StatusTimestampAfter.IsZero() && t.Status.Timestamp.Before(p.StatusTimestampAfter.Time) {
			continue
		}
		found = append(found, t)
	}
	slices.SortFunc(found, func(a, b Task) int { return placeOfTask(&a).compare(placeOfTask(&b)) })
	return found
}
