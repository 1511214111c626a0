package gateway

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// retireTime bounds how long a server that was removed or changed remains connected for the calls
// that began before.
const retireTime = 30 * time.Second

// Changes says what a reload changed. The lists have names of servers in the order of the file.
type Changes struct {
	Added   []string `json:"added"`
	Changed []string `json:"changed"`
	Removed []string `json:"removed"`

	// Waiting are new or changed programs that may not start yet: a reload with approval starts
	// them.
	Waiting []string `json:"waiting"`

	// Restart are members of the file whose new values apply after a restart.
	Restart []string `json:"restart"`
}

// ErrProblems is the error for a configuration that has problems. Nothing was changed.
var ErrProblems = errors.New("gateway: the configuration has problems")

// Reload replaces the configuration by file, which must be read like that of [New]. Requests in
// flight finish under the old one. Servers whose entries are equal keep their connections, programs
// and statistics; the others are closed when the calls to them are done, 30 s later at the latest.
//
// approved permits programs that are new or changed to start. Without it, calls to them fail with
// -31006 until a later Reload approves them.
//
// If file has problems, nothing changes, and the error is [ErrProblems].
func (g *Gateway) Reload(file *config.File, approved bool) (*Changes, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errClosed
	}
	if len(file.Problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrProblems, file.Problems[0])
	}
	old := g.state.Load()
	next, err := g.newState(file, old, approved)
	if err != nil {
		return nil, err
	}
	if err := g.pins.reload(file.Gateway.Pins, file.Gateway.Lock); err != nil {
		return nil, err
	}
	changes := g.compare(old, next)
	if err := g.mcp.apply(file, approved); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.state.Store(next)
	next.startChecks()
	g.metrics.know(file.Gateway)
	if own := file.Gateway; g.audit != nil {
		g.audit.reopen(own.Audit, own.AuditArguments, redactorOf(file))
	}
	next.earlier = make(chan struct{})
	go g.retire(old, next)
	return changes, nil
}

var errClosed = errors.New("gateway: closed")

// enter returns the present state for a request. The request calls leave when it has ended.
func (g *Gateway) enter() *state {
	for {
		s := g.state.Load()
		s.users.Add(1)
		if g.state.Load() == s {
			return s
		}
		s.leave() // it may be retired already
	}
}

func (s *state) leave() {
	if s.users.Add(-1) == 0 && s.retired.Load() {
		s.idleOnce.Do(func() { close(s.idle) })
	}
}

// retire closes the servers of old that next does not have, once no request uses old or a state
// before it.
func (g *Gateway) retire(old, next *state) {
	defer close(next.earlier)
	defer rescue.Catch(g.report, nil)
	old.retired.Store(true)
	idle := old.idle
	if old.users.Load() == 0 {
		idle = nil
	}
	timer := time.NewTimer(retireTime)
	defer timer.Stop()
	for _, done := range []chan struct{}{idle, old.earlier} {
		if done == nil {
			continue
		}
		select {
		case <-done:
		case <-timer.C:
			timer.Reset(0) // no time is left for the other either
		case <-g.ended:
		}
	}
	for _, u := range old.upstreams {
		if !slices.Contains(next.upstreams, u) {
			_ = u.close() // no call uses it
		}
	}
}

// compare returns what differs between two configurations.
func (g *Gateway) compare(old, next *state) *Changes {
	c := &Changes{}
	for _, u := range next.upstreams {
		before := old.byName[u.entry.Name]
		switch {
		case before == nil:
			c.Added = append(c.Added, u.entry.Name)
		case before != u:
			c.Changed = append(c.Changed, u.entry.Name)
		}
		if u.waiting {
			c.Waiting = append(c.Waiting, u.entry.Name)
		}
	}
	for _, u := range old.upstreams {
		if next.byName[u.entry.Name] == nil {
			c.Removed = append(c.Removed, u.entry.Name)
		}
	}
	a, b := old.file.Gateway, next.file.Gateway
	for _, m := range []struct {
		name string
		same bool
	}{
		{"listen", slices.Equal(a.Listen, b.Listen)},
		{"admin", a.Admin == b.Admin},
		{"tls", a.Cert == b.Cert && a.CertKey == b.CertKey},
		{"key", string(a.Key) == string(b.Key)},
		{"audit", a.Audit == b.Audit || g.audit != nil},
		{"capture", a.Capture == b.Capture},
	} {
		if !m.same {
			c.Restart = append(c.Restart, m.name)
		}
	}
	return c
}
