package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// An Agent is a named function that a [Server] runs on request.
type Agent struct {
	// Manifest describes the agent. Missing content types become "*/*".
	Manifest AgentManifest

	// Run executes one run and returns when it is done. Each call has its own goroutine, and many
	// run at once. ctx is canceled when the run is cancelled ([ErrCancelled]), its question is not
	// answered in time ([ErrUnanswered]) or the server closes ([ErrShutdown]). Until Run returns,
	// the status of a cancelled run is cancelling. A returned [*Error] is the error of the failed
	// run. Any other error is not sent to callers; it is passed to Options.Report.
	Run func(ctx context.Context, j *Job) error
}

// Limits bound what a [Server] stores. For each field, zero means the default.
type Limits struct {
	// Active bounds the active runs. The default is 1,000. Beyond it, requests get ErrBusy.
	Active int
	// Input bounds the input of all active runs, in bytes. The default is 256 MiB. Beyond it,
	// requests get ErrBusy.
	Input int
	// Runs bounds the stored runs. The default is 10,000. Beyond it, the run that ended first is
	// removed.
	Runs int
	// Sessions bounds the stored sessions. The default is 10,000. Beyond it, the least recently
	// used session is removed with its messages.
	Sessions int
	// SessionBytes bounds the stored sessions with their messages, in bytes. The default is 64 MiB.
	// Beyond it, the least recently used sessions without active runs are removed: those of the
	// caller if it has a principal and holds more than a quarter. If that is not enough, requests
	// get ErrBusy, and a run whose messages find no room fails.
	SessionBytes int64
	// Owned bounds the runs, and the sessions, of one principal. The default is 1,000. It does not
	// apply to callers without a principal.
	Owned int

	// Bytes bounds the events of all ended runs, in bytes. The default is 128 MiB. Beyond it, the
	// runs that ended first are removed.
	Bytes int64
	// Events bounds the stored events of one run. The default is 10,000. Beyond it, its oldest
	// events are removed; requests for them get ErrNotKept.
	Events int
	// LogBytes bounds the stored events of one run, in bytes. The default is 10 MiB. Beyond it,
	// events are removed as for Events.
	LogBytes int64
	// Part bounds one part, or a generic event, in bytes. The default is 1 MiB. A larger one is
	// ErrTooLarge.
	Part int
	// Output bounds the output of one run, in bytes. The default is 4 MiB. More is ErrTooLarge.
	Output int
	// History bounds the messages of one session. The default is 1,000. Beyond it, runs in the
	// session are rejected.
	History int
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	set(&l.Active, 1000)
	set(&l.Input, 256<<20)
	set(&l.Runs, 10_000)
	set(&l.Sessions, 10_000)
	set(&l.Owned, 1000)
	set(&l.Events, 10_000)
	set(&l.Part, 1<<20)
	set(&l.Output, 4<<20)
	set(&l.History, 1000)
	if l.Bytes <= 0 {
		l.Bytes = 128 << 20
	}
	if l.SessionBytes <= 0 {
		l.SessionBytes = 64 << 20
	}
	if l.LogBytes <= 0 {
		l.LogBytes = 10 << 20
	}
	return l
}

// StoreLimits returns the limits that a [store.Store] needs for the default Limits of a [Server]:
// one event holds the whole output of a run, and one value holds a message. With lower limits, a
// run whose data is too large fails.
func StoreLimits() store.Limits {
	return store.Limits{EventBytes: 8 << 20, LogBytes: 16 << 20, ValueBytes: 8 << 20}
}

// Options configures a [Server]. The zero value is ready to use.
type Options struct {
	// Store stores runs, sessions and their messages. If nil, they are in memory. Runs that ended
	// before a restart are available after it; runs that were active have failed. Two servers must
	// not use one Store at once. The server does not close it.
	Store store.Store

	// Principal returns the caller's identity: runs and sessions are visible to their owner only.
	// If nil, all callers share one identity.
	Principal func(ctx context.Context) string

	// ResourceURL returns the URL of the resource with an id, usually the URL of the REST binding
	// and "/resources/ID". If nil, it is urn:uuid:ID, which cannot be fetched.
	ResourceURL func(id string) string

	// Fetch returns the JSON text of a message that another server stores, for sessions that began
	// there. If nil, such a history cannot be read. Fetch must not access internal addresses that
	// callers could not reach themselves.
	Fetch func(ctx context.Context, url string) (jsonrpc.Raw, error)

	// CancelOnDisconnect cancels a run when the caller that created or resumed it, and waits for
	// its end or its events, disconnects.
	CancelOnDisconnect bool

	// AwaitTime is how long a run waits for the answer to its question; then it fails. If zero, it
	// is 24 h.
	AwaitTime time.Duration

	Limits Limits

	// Report gets what must not go out: private errors and panics of agents, runs and sessions that
	// were forgotten. If nil, slog's default logger gets it, as one escaped line each. It is called
	// from many goroutines.
	Report func(what string, err error)
}

// A Server runs agents. It is a [jsonrpc.Handler] of the JSON-RPC binding, and package acphttp is
// based on it. It is safe for concurrent use. Create it with [NewServer].
type Server struct {
	opts  Options
	store store.Store
	own   bool // Close closes the store

	ctx     context.Context // parent of the contexts of all runs
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	index index
	loads loader

	mu     sync.RWMutex // guards the fields below
	agents []*Agent
}

// NewServer returns a server without agents. It starts nothing. If o is nil, the zero Options are
// used.
func NewServer(o *Options) *Server {
	if o == nil {
		o = &Options{}
	}
	s := &Server{opts: *o, store: o.Store}
	s.opts.Limits = s.opts.Limits.withDefaults()
	s.opts.Report = report.Or(s.opts.Report, "acp")
	if s.opts.AwaitTime <= 0 {
		s.opts.AwaitTime = 24 * time.Hour
	}
	if s.opts.ResourceURL == nil {
		s.opts.ResourceURL = func(id string) string { return "urn:uuid:" + id }
	}
	if s.store == nil {
		s.store, s.own = store.NewMemory(StoreLimits()), true
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.index.initIndex(s.opts.Limits)
	s.loads.turn = make(chan struct{}, 1)
	s.loads.done.Store(s.own)
	return s
}

// Add makes an agent available, at any time. It panics if the name is invalid or in use, or if Run
// is nil.
func (s *Server) Add(a Agent) {
	name := a.Manifest.Name
	if !isName(name) {
		panic(fmt.Sprintf("acp: %q is not a valid agent name: it must be a DNS label", name))
	}
	if a.Run == nil {
		panic(fmt.Sprintf("acp: agent %s has no Run", name))
	}
	a.Manifest = a.Manifest.completed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agentLocked(name) != nil {
		panic(fmt.Sprintf("acp: duplicate agent %s", name))
	}
	s.agents = append(s.agents, &a)
}

// Remove makes an agent unavailable, and reports whether it existed. Its runs continue.
func (s *Server) Remove(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.agents)
	s.agents = slices.DeleteFunc(s.agents, func(a *Agent) bool { return a.Manifest.Name == name })
	return len(s.agents) < before
}

func (s *Server) agentLocked(name string) *Agent {
	for _, a := range s.agents {
		if a.Manifest.Name == name {
			return a
		}
	}
	return nil
}

func (s *Server) agent(name string) (*Agent, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if a := s.agentLocked(name); a != nil {
		return a, nil
	}
	return nil, notFound("agent")
}

// Agents returns the manifests in the order in which they were added: up to limit of them, or all
// if limit is 0, without the first offset. The maximum limit is 1,000.
func (s *Server) Agents(limit, offset int) ([]AgentManifest, error) {
	if limit < 0 || limit > 1000 {
		return nil, invalid("The limit must be a number from 1 to 1000.")
	}
	if offset < 0 {
		return nil, invalid("The offset must not be negative.")
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := s.agents[min(offset, len(s.agents)):]
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	out := make([]AgentManifest, len(all))
	for i, a := range all {
		out[i] = a.Manifest
	}
	return out, nil
}

// Agent returns the manifest of one agent, or [ErrNotFound].
func (s *Server) Agent(name string) (AgentManifest, error) {
	a, err := s.agent(name)
	if err != nil {
		return AgentManifest{}, err
	}
	return a.Manifest, nil
}

// Shutdown accepts no new runs and waits until the active runs have ended; then it closes the
// server. It does not wait for runs that await input. If ctx is canceled first, the remaining runs
// are stopped, and Shutdown returns ctx's cause.
func (s *Server) Shutdown(ctx context.Context) error {
	s.index.closeIndex()
	err := s.index.idle(ctx, true)
	return errors.Join(err, s.Close())
}

// Close stops all runs, which then have failed, and waits until their agents have returned.
func (s *Server) Close() error {
	s.index.closeIndex()
	s.cancel(ErrShutdown)
	ctx, cancel := context.WithTimeout(context.Background(), grace.Time)
	defer cancel()
	// Includes runs that begin at this moment.
	if s.index.idle(ctx, false) != nil || !grace.Wait(&s.running, grace.Time) {
		s.report(jsonrpc.ReportStuck, jsonrpc.ErrStillRunning)
		return jsonrpc.ErrStillRunning // the store stays open for agents that still run
	}
	if s.own {
		return s.store.Close()
	}
	return nil
}

func (s *Server) report(what string, err error) {
	s.opts.Report(what, err)
}

// owner returns the owner of a request's runs and sessions: a short form of the principal, for
// keys.
func (s *Server) owner(ctx context.Context) string {
	if s.opts.Principal == nil {
		return anonymousOwner
	}
	return ownerOf(s.opts.Principal(ctx))
}
