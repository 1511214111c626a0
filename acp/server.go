package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// An Agent is something that can be asked to run.
type Agent struct {
	// Manifest presents the agent. Content types that are left out become "*/*".
	Manifest AgentManifest

	// Run does the work of one run and returns when it is done. It runs on a goroutine of its own, many of them at once. ctx ends when
	// the run is cancelled ([ErrCancelled]), its question stays unanswered ([ErrUnanswered]) or the server closes
	// ([ErrShutdown]); until Run returns, a cancelled run is cancelling. A returned [*Error] is what the run failed with; of any
	// other error callers learn nothing, it goes to Options.Report.
	Run func(ctx context.Context, j *Job) error
}

// Limits bound what a [Server] keeps. In each field zero means the default.
type Limits struct {
	Active   int // runs that have not ended; 1,000. More are refused with ErrBusy
	Input    int // bytes of the input of all runs that have not ended; 256 MiB. More are refused with ErrBusy
	Runs     int // runs that are kept; 10,000. For one more the run that ended first is forgotten
	Sessions int // sessions that are kept; 10,000. For one more the session that was used longest ago is forgotten, with its messages
	Owned    int // runs, and sessions, of one principal; 1,000. Does not count where callers have no name

	Bytes    int64 // of the events of all runs that have ended; 128 MiB. For more the runs that ended first are forgotten
	Events   int   // events kept of one run; 10,000. For more its oldest are forgotten, and whoever asks for them gets ErrNotKept
	LogBytes int64 // bytes of the events kept of one run; 10 MiB. The same
	Part     int   // bytes of one part, or of a generic event; 1 MiB. More are ErrTooLarge
	Output   int   // bytes of the output of one run; 4 MiB. More are ErrTooLarge
	History  int   // messages of one session; 1,000. Then runs in it are refused
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
	if l.LogBytes <= 0 {
		l.LogBytes = 10 << 20
	}
	return l
}

// StoreLimits are the limits that a [store.Store] needs for the default Limits of a [Server]: one event holds the whole output of a run,
// and one value a message. With less room, what does not fit fails its run.
func StoreLimits() store.Limits {
	return store.Limits{EventBytes: 8 << 20, LogBytes: 16 << 20, ValueBytes: 8 << 20}
}

// Options tune a [Server]. The zero value is ready for use.
type Options struct {
	// Store keeps runs, sessions and their messages. Nil means memory. What ended before a restart is found after it; what was under way has
	// failed then. No two servers use one Store at once. It stays open when the server closes.
	Store store.Store

	// Principal names who asks: runs and sessions are found by whom they belong to alone. Nil means that all callers are one.
	Principal func(ctx context.Context) string

	// ResourceURL is where the resource with an id can be had, if anywhere: usually the address of the REST binding and "/resources/ID".
	// Nil means urn:uuid:ID, which nobody can fetch.
	ResourceURL func(id string) string

	// Fetch gets the JSON text of a message that is kept by another server, for sessions that began there. Nil: such a history cannot be
	// read. It must not be led to addresses inside the network that callers could not reach by themselves.
	Fetch func(ctx context.Context, url string) (jsonrpc.Raw, error)

	// CancelOnDisconnect cancels a run when the caller who waits for its end or its events, since it created or resumed it, goes away.
	CancelOnDisconnect bool

	// AwaitTime is how long a run waits for an answer to its question; then it fails. Zero means 24 h.
	AwaitTime time.Duration

	Limits Limits

	// Report gets what must not go out: private errors and panics of agents, runs and sessions that were forgotten. Nil drops it. It is
	// called from many goroutines.
	Report func(what string, err error)
}

// A Server runs agents. It is a [jsonrpc.Handler] of the JSON-RPC binding, and what package acphttp stands on. It is safe for concurrent
// use. Make it with [NewServer].
type Server struct {
	opts  Options
	store store.Store
	own   bool // the store is ours to close

	ctx     context.Context // of all runs
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	index index
	loads loader

	mu     sync.RWMutex // guards what follows
	agents []*Agent
}

// NewServer makes a server without agents. It starts nothing. Nil options are the zero Options.
func NewServer(o *Options) *Server {
	if o == nil {
		o = &Options{}
	}
	s := &Server{opts: *o, store: o.Store}
	s.opts.Limits = s.opts.Limits.withDefaults()
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
	s.index.init(s.opts.Limits)
	s.loads.turn = make(chan struct{}, 1)
	s.loads.done.Store(s.own)
	return s
}

// Add makes an agent available, at any time. It panics if the name is none, or taken, or there is nothing to run.
func (s *Server) Add(a Agent) {
	name := a.Manifest.Name
	if !isName(name) {
		panic(fmt.Sprintf("acp: %q is not the name of an agent: a DNS label is", name))
	}
	if a.Run == nil {
		panic(fmt.Sprintf("acp: agent %s has no Run", name))
	}
	a.Manifest = a.Manifest.completed()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.agentLocked(name) != nil {
		panic(fmt.Sprintf("acp: agent %s is there already", name))
	}
	s.agents = append(s.agents, &a)
}

// Remove makes an agent unavailable, and reports whether it was there. Its runs go on.
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

// Agents returns the manifests in the order they were added: up to limit of them, all for 0, without the first offset. Limits go up
// to 1,000.
func (s *Server) Agents(limit, offset int) ([]AgentManifest, error) {
	if limit < 0 || limit > 1000 {
		return nil, invalid("The limit is a number from 1 to 1000.")
	}
	if offset < 0 {
		return nil, invalid("The offset is not negative.")
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

// Shutdown takes no more runs and waits until those under way have ended; then it closes. Runs that await an answer are not waited for. When ctx
// ends first, the rest is cut off, and Shutdown returns ctx's cause.
func (s *Server) Shutdown(ctx context.Context) error {
	s.index.close()
	err := s.index.idle(ctx, true)
	return errors.Join(err, s.Close())
}

// Close ends all runs, which have then failed, and waits until their agents have returned.
func (s *Server) Close() error {
	s.index.close()
	s.cancel(ErrShutdown)
	_ = s.index.idle(context.Background(), false) // has no end; those that begin at this moment are among them
	s.running.Wait()
	if s.own {
		return s.store.Close()
	}
	return nil
}

func (s *Server) report(what string, err error) {
	if s.opts.Report != nil {
		s.opts.Report(what, err)
	}
}

// owner tells whose runs and sessions a request is about: a short form of the principal's name, for keys.
func (s *Server) owner(ctx context.Context) string {
	if s.opts.Principal == nil {
		return nobody
	}
	return ownerOf(s.opts.Principal(ctx))
}
