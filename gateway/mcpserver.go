package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/mcp"
)

// An mcpServer is one MCP server of the configuration: what it offers, and how links to it are
// opened.
type mcpServer struct {
	name      string
	entry     config.Entry
	target    parley.Target
	isProgram bool
	isWeb     bool
	personal  bool // each principal has a token of its own, and so its own lists
	waiting   bool // a program that is not approved yet
	creds     *credentials
	transport *http.Transport // of a server over HTTP
	pool      *linkPool
	pins      *pins // nil permits everything
	report    func(what string, err error)
	removed   atomic.Bool // the configuration does not have it any more

	stop  context.CancelFunc // ends watch; nil before it begins
	wake  chan struct{}      // capacity 1: the lists may have changed
	heard chan struct{}      // closed when the lists were fetched once, or could not be fetched
	told  func()             // called when the lists have changed

	mu        sync.Mutex // guards the fields below
	offer     *offer     // nil if the server was not heard of
	down      bool       // the last fetch failed
	personals map[string]*personalOffer
}

// A personalOffer is what a server offers to one principal.
type personalOffer struct {
	fetching sync.Mutex // held while it is fetched
	offer    *offer
	used     time.Time
}

// maxPersonal is the maximum number of principals whose lists are stored, of one server.
const maxPersonal = 1000

func newMCPServer(e config.Entry, pool *linkPool, told func(*mcpServer), report func(what string, err error)) (*mcpServer, error) {
	t, err := e.Target()
	if err != nil {
		return nil, err
	}
	s := &mcpServer{name: e.Name, entry: e, target: t, pool: pool, report: report,
		wake: make(chan struct{}, 1), heard: make(chan struct{})}
	s.told = func() { told(s) }
	s.isProgram = len(e.Command) > 0
	switch t.Scheme {
	case "http", "https", "sse+http", "sse+https":
		s.isWeb = true
	}
	s.creds, s.transport = newCredentials(&s.entry, t.URL(), report), newTransport()
	s.personal = s.creds.personal()
	return s, nil
}

// dropped reports what the server sent and no client receives.
func (s *mcpServer) dropped(what string, err error) {
	s.report(what, fmt.Errorf("%s: %w", s.name, err))
}

// maxChildren bounds the programs of the server.
func (s *mcpServer) maxChildren() int {
	if n := s.entry.Upstream.MaxProcesses; n > 0 {
		return n
	}
	return 16
}

// idleTime is the time after which an unused link is closed.
func (s *mcpServer) idleTime() time.Duration {
	if d := s.entry.Upstream.Idle; d > 0 {
		return d
	}
	return 5 * time.Minute
}

// timeout bounds a call, without the time in which the client answers questions.
func (s *mcpServer) timeout() time.Duration {
	if d := s.entry.Upstream.Timeout; d > 0 {
		return d
	}
	return defaultTimeout
}

// changed is called with the changes that the server reports.
func (s *mcpServer) changed(ch mcp.Change) {
	switch ch.Method {
	case mcp.NotifyToolsChanged, mcp.NotifyPromptsChanged, mcp.NotifyResourcesChanged:
		s.look()
	}
}

// look fetches the lists again soon.
func (s *mcpServer) look() {
	select {
	case s.wake <- struct{}{}:
	default: // it will be done anyway
	}
}

// Times of the loop that fetches lists.
const (
	debounce   = 200 * time.Millisecond // changes often come together
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
	healthy    = 60 * time.Second // after it a failure is the first one again
	leastTTL   = 10 * time.Second // between two fetches of lists that may be stored for less
)

// watch fetches the lists of the server now, after changes and from time to time, until ctx ends.
func (s *mcpServer) watch(ctx context.Context) {
	retry := firstRetry
	var held *mcpLink // while the server reports changes on it
	var listening *listening
	letGo := func() {
		if held != nil {
			listening.stop()
			s.pool.keep(held, false)
			held = nil
		}
	}
	defer letGo()
	for ctx.Err() == nil {
		began := time.Now()
		link, o, err := s.fetch(ctx)
		s.keep(o, err)
		wait := refreshLists
		switch {
		case err != nil:
			letGo()
			wait = retry * time.Duration(80+rand.IntN(40)) / 100
			retry = min(2*retry, lastRetry)
		case !announces(o):
			letGo()
			s.pool.release(link)
			wait = min(max(o.ttl, leastTTL), refreshLists)
		case held == link && !listening.over():
			s.pool.release(link)
		default:
			letGo()
			held, listening = link, s.listen(ctx, link)
			s.pool.keep(link, true)
			s.pool.release(link)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-s.wake:
			pause := debounce
			if held != nil && (s.pool.hasEnded(held) || listening.over()) { // it may end again and again
				pause = max(pause, retry)
				retry = min(2*retry, lastRetry)
			}
			sleep(ctx, pause)
			select { // what came meanwhile is seen by the next fetch
			case <-s.wake:
			default:
			}
		}
		timer.Stop()
		if time.Since(began) > healthy {
			retry = firstRetry
		}
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// announces reports whether a server sends notifications about changes of its lists.
func announces(o *offer) bool {
	c := o.capabilities
	return c.Tools != nil && c.Tools.ListChanged || c.Prompts != nil && c.Prompts.ListChanged || c.Resources != nil && c.Resources.ListChanged
}

// fetch fetches the lists over the link for lists, which the caller releases.
func (s *mcpServer) fetch(ctx context.Context) (*mcpLink, *offer, error) {
	l, err := s.pool.acquire(ctx, linkKey{server: s, scope: forLists}, mcp.ClientCapabilities{})
	if err != nil {
		return nil, nil, err
	}
	o, err := fetchOffer(ctx, l.client, func(err error) { s.dropped(ReportLeftOut, err) })
	if err != nil {
		s.dropped(ReportUpstream, err)
		s.pool.release(l)
		return nil, nil, err
	}
	s.pins.learn(s.name, o.pinned(l.client.Instructions()), true)
	return l, o, nil
}

// A listening is a subscription to the changes of the lists of a modern server.
type listening struct {
	stop  context.CancelFunc // ends watch; nil before it begins
	ended chan struct{}      // nil if a legacy server reports changes without a subscription
}

func (l *listening) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// listen receives the changes that a modern server reports.
func (s *mcpServer) listen(ctx context.Context, l *mcpLink) *listening {
	ctx, stop := context.WithCancel(ctx)
	n := &listening{stop: stop}
	if !l.client.Version().Modern() {
		return n
	}
	n.ended = make(chan struct{})
	s.pool.run(func() {
		defer s.look()
		defer close(n.ended)
		filter := mcp.Filter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
		_ = l.client.Listen(ctx, filter, func(ch mcp.Change) error { // OnChange gets the changes
			if ch.Method == mcp.NotifyAcknowledged {
				s.look() // what changed before it was not heard
			}
			return nil
		})
	})
	return n
}

// keep stores the result of a fetch.
func (s *mcpServer) keep(o *offer, err error) {
	s.mu.Lock()
	before := s.offer
	first := true
	select {
	case <-s.heard:
		first = false
	default:
	}
	s.down = err != nil
	switch {
	case err != nil && before != nil && time.Since(before.at) > keepLists:
		s.offer = nil
	case err != nil:
	case before != nil && before.sum == o.sum && before.version == o.version:
		c := *before // the catalogue compares the content
		c.at, c.ttl, c.capabilities = o.at, o.ttl, o.capabilities
		s.offer = &c
	default:
		s.offer = o
	}
	changed := (before == nil) != (s.offer == nil) || before != nil && (before.sum != s.offer.sum || before.version != s.offer.version)
	s.mu.Unlock()
	if first {
		close(s.heard)
	}
	if changed && !first || changed && err == nil {
		_ = rescue.Run(s.report, s.told) // the lists are fetched again in any case
	}
}

// known returns what the server offers to the caller of ctx, or nil if it was not heard of.
func (s *mcpServer) known(ctx context.Context, principal string) *offer {
	if s.personal {
		return s.knownTo(ctx, principal)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offer
}

// dropOldest removes the entry that was used the longest time ago.
func dropOldest[T any](m map[string]T, used func(T) time.Time) {
	oldest, first := "", true
	for name, entry := range m {
		if first || used(entry).Before(used(m[oldest])) {
			oldest, first = name, false
		}
	}
	delete(m, oldest)
}

// knownTo is known for a server whose lists depend on the principal. They are fetched when they are
// needed.
func (s *mcpServer) knownTo(ctx context.Context, principal string) *offer {
	s.mu.Lock()
	if s.personals == nil {
		s.personals = map[string]*personalOffer{}
	}
	p := s.personals[principal]
	if p == nil {
		if len(s.personals) >= maxPersonal {
			dropOldest(s.personals, func(o *personalOffer) time.Time { return o.used })
		}
		p = &personalOffer{}
		s.personals[principal] = p
	}
	p.used = time.Now()
	s.mu.Unlock()

	p.fetching.Lock()
	defer p.fetching.Unlock()
	if o := p.offer; o != nil && time.Since(o.at) < min(max(o.ttl, leastTTL), refreshLists) {
		return o
	}
	l, err := s.pool.acquire(ctx, linkKey{server: s, scope: forPrincipal, principal: principal}, mcp.ClientCapabilities{})
	if err != nil {
		return p.offer
	}
	defer s.pool.release(l)
	o, err := fetchOffer(ctx, l.client, func(err error) { s.dropped(ReportLeftOut, err) })
	if err != nil {
		s.dropped(ReportUpstream, err)
		return p.offer
	}
	s.pins.learn(s.name, o.pinned(""), false)
	if p.offer == nil || p.offer.sum != o.sum || p.offer.version != o.version {
		p.offer = o
	} else {
		c := *p.offer
		c.at, c.ttl = o.at, o.ttl
		p.offer = &c
	}
	return p.offer
}
