package playground

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/replay"
	sessionfiles "github.com/da1ed7bb/parley/capture/sessions"
	"github.com/da1ed7bb/parley/internal/x/private"
)

// This file lists the sessions that taps store in a folder, and opens them.

const (
	maxListed  = 200             // sessions that a page shows; live ones and the newest come first
	folderTime = 2 * time.Second // between two looks at the folder while a page is open
)

// A sessionFolder contains the sessions of taps. It is read for all pages together.
type sessionFolder struct {
	dir string // "" for none

	mu   sync.Mutex // guards the fields below, and is held while the folder is read
	at   time.Time  // when it was read
	seen []sessionfiles.Session
	err  error
}

// read returns the sessions of the folder: live ones first, then the newest.
func (s *sessionFolder) read() ([]sessionfiles.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir != "" && time.Since(s.at) > folderTime/2 {
		s.seen, s.err = sessionfiles.List(s.dir)
		s.at = time.Now()
	}
	return s.seen, s.err
}

// A storedSession is a session of the folder.
type storedSession struct {
	Session string    `json:"session"` // its ID
	Name    string    `json:"name"`
	Started time.Time `json:"started"`
	Changed time.Time `json:"changed"`
	Size    int64     `json:"size"`
	Live    bool      `json:"live"`
}

type storedSessions struct {
	Folder   string          `json:"folder"`
	Sessions []storedSession `json:"sessions"`
	Older    int             `json:"older"` // sessions that are not listed
	Problem  string          `json:"problem,omitzero"`
}

// storedSessions returns what the page shows of the folder.
func (p *Playground) storedSessions() storedSessions {
	out := storedSessions{Folder: p.folder.dir, Sessions: []storedSession{}}
	list, err := p.folder.read()
	if err != nil {
		out.Problem = bareError(err)
	}
	for _, s := range list[:min(len(list), maxListed)] {
		out.Sessions = append(out.Sessions, storedSession{s.ID, orDefault(s.Name, s.ID), s.Started, s.Changed, s.Size, s.Live})
	}
	out.Older = len(list) - len(out.Sessions)
	return out
}

// bareError returns the text of an error without the path in front of it.
func bareError(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func (p *Playground) sessionsList(context.Context, none) (storedSessions, error) {
	return p.storedSessions(), nil
}

type sessionID struct {
	Session string `json:"session"`
}

// sessionsOpen opens a session of the folder. A live one is read while it is written.
func (p *Playground) sessionsOpen(_ context.Context, in sessionID) (logView, error) {
	if id, o := p.sessions.stored(in.Session); o != nil {
		return o.view(id), nil
	}
	list, err := sessionfiles.List(p.folder.dir)
	if p.folder.dir == "" {
		list, err = nil, nil
	}
	if err != nil {
		return logView{}, badParam("/session", "cannot read the folder of sessions: %s", bareError(err))
	}
	i := slices.IndexFunc(list, func(s sessionfiles.Session) bool { return s.ID == in.Session })
	if i < 0 {
		return logView{}, badParam("/session", "the session %q does not exist any more", in.Session)
	}
	s := list[i]
	if s.Size > maxSession {
		return logView{}, badParam("/session", "the session is longer than 2 GiB")
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return logView{}, badParam("/session", "cannot open the session: %s", bareError(err))
	}
	o := &opened{name: orDefault(s.Name, s.ID), session: s.ID, file: f, live: s.Live}
	var rest func(context.Context) error
	if s.Live {
		o.log, rest, err = capture.FollowFile(f, func() bool {
			held, err := private.Held(s.Path)
			return held && err == nil
		}, p.judges()...)
	} else {
		o.log, rest, err = capture.BeginFile(f, p.judges()...)
	}
	if err != nil {
		o.remove()
		return logView{}, badParam("/session", "not a session: %v", err)
	}
	id, err := p.keep(o, rest)
	if err != nil {
		o.remove()
		return logView{}, badParam("/session", "%v", err)
	}
	return o.view(id), nil
}

const (
	maxDifferences = 1000    // that a comparison returns
	maxCompared    = 100_000 // rows of a recording that is compared
)

type compareParams struct {
	Old    string   `json:"old"` // names of recordings, as in session/list
	New    string   `json:"new"`
	Ignore []string `json:"ignore,omitempty"` // members that may differ at any position
}

// A sessionDifference is one difference of two recordings.
type sessionDifference struct {
	Change string `json:"change"` // removed, added or changed
	Kind   string `json:"kind"`   // call or tool
	Name   string `json:"name"`
	Path   string `json:"path,omitzero"`
	Then   string `json:"then,omitzero"` // of a changed one: JSON, or what was there instead
	Now    string `json:"now,omitzero"`
	OldRef string `json:"oldRef,omitzero"` // the recorded request
	NewRef string `json:"newRef,omitzero"`
}

type compareResult struct {
	Differences []sessionDifference `json:"differences"`
	Total       int                 `json:"total"`
	Compared    int                 `json:"compared"` // calls and tools of the old recording
}

// sessionsCompare compares the calls and the tools of two recordings.
func (p *Playground) sessionsCompare(ctx context.Context, in compareParams) (compareResult, error) {
	out := compareResult{Differences: []sessionDifference{}}
	var sides [2]*replay.Session
	for i, name := range []string{in.Old, in.New} {
		log, err := p.log(name)
		if err != nil {
			return out, err
		}
		if log == p.rec.Log {
			p.rec.Flush()
		}
		if n := log.Len(); n > maxCompared {
			return out, badParam("", "a session with %d rows is too long for the page; use parley diff OLD NEW", n)
		}
		if sides[i], err = replay.ReadSession(ctx, log); err != nil {
			return out, err
		}
	}
	for _, list := range []struct {
		kind     string
		old, new []replay.Entry
	}{{"tool", sides[0].Tools, sides[1].Tools}, {"call", sides[0].Calls, sides[1].Calls}} {
		out.Compared += len(list.old)
		for _, c := range replay.Changes(list.old, list.new, in.Ignore) {
			if out.Total++; out.Total > maxDifferences {
				continue
			}
			d := sessionDifference{Change: c.Kind, Kind: list.kind, Name: c.Name, Path: strings.TrimPrefix(c.Value.Path, "."), Then: c.Value.Then, Now: c.Value.Now}
			if !c.Old.IsZero() {
				d.OldRef = c.Old.String()
			}
			if !c.New.IsZero() {
				d.NewRef = c.New.String()
			}
			out.Differences = append(out.Differences, d)
		}
	}
	return out, nil
}
