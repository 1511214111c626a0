package a2a

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// ServerOptions configures a [Server]. The zero value is ready to use.
type ServerOptions struct {
	Versions []Version // supported protocol versions; nil means all

	// ExtendedCard returns the card for authenticated callers. The public card must declare it. If
	// nil, there is no extended card.
	ExtendedCard func(ctx context.Context, s Service) (*AgentCard, error)

	// Push delivers notifications. The public card must declare the capability. If nil, push
	// notifications are not supported. Package a2ahttp has an implementation.
	Push Pusher

	// Principal returns the identity of the peer of a conversation that [Server.Serve] handles. If
	// nil, all callers share one identity. A custom transport sets it with [WithService].
	Principal func(ctx context.Context) string

	// Store stores tasks beyond the life of the process. The Server does not close it. If nil,
	// tasks are in memory only. [Server.Load] reads the stored tasks.
	Store store.Log

	// MaxTasks bounds the stored tasks. The default is 10,000. A finished task of the caller that
	// holds the most is removed to make room; if all are running, new ones get a -31001 error.
	MaxTasks int
	// MaxRunning bounds the agents that run at once. The default is 1,000. Further messages get a
	// -31001 error.
	MaxRunning int
	// MaxTask bounds the bytes of all events and messages of one task. The default is 64 MiB.
	// Beyond it, the agent gets ErrTooLarge and messages are rejected.
	MaxTask int
	// MaxBytes bounds the bytes that all tasks hold in memory. The default is 96 MiB. Beyond it,
	// the agent gets ErrTooLarge and messages get a -31001 error.
	MaxBytes int64
	// MaxKept bounds the bytes of the tasks that are over. The default is 16 MiB. Beyond it, tasks
	// that are over are removed, except the newest.
	MaxKept int64
	// TaskTTL is how long a task is stored after it is over. The default is 24 h.
	TaskTTL time.Duration

	// Repeat is how long a message's id is stored, so that the same message sent again joins the
	// first one's task and does not start a new one. The default is 24 h, for at most 10,000
	// messages. If negative, messages with equal ids are different messages.
	Repeat time.Duration

	// CancelWait is how long an agent may take to return after its task is canceled; the default is
	// 5 s. Then the task is canceled without waiting for it.
	CancelWait time.Duration

	// Limits of each conversation that [Server.Serve] opens.
	Limits jsonrpc.Limits

	// Report gets what must not go out: errors of agents whole, pushes that failed, and what
	// [jsonrpc.Answerer.Report] gets. If nil, slog's default logger gets it, as one escaped line
	// each.
	Report func(what string, err error)
}

func (o *ServerOptions) defaults() {
	if o.Versions == nil {
		o.Versions = Versions()
	}
	standard(&o.MaxTasks, 10000)
	standard(&o.MaxRunning, 1000)
	standard(&o.MaxTask, 64<<20)
	standard(&o.MaxBytes, 96<<20)
	standard(&o.MaxKept, 16<<20)
	standard(&o.TaskTTL, 24*time.Hour)
	standard(&o.CancelWait, 5*time.Second)
	if o.Repeat == 0 {
		o.Repeat = 24 * time.Hour
	}
}

func standard[T int | int64 | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// A Server assigns tasks to one [Agent] and stores them. It is a [jsonrpc.Handler] for both
// versions of the protocol. Tasks are looked up by principal and id, so a caller cannot see another
// principal's tasks. It is safe for concurrent use.
type Server struct {
	agent Agent
	opts  ServerOptions
	card  atomic.Pointer[AgentCard]

	base     context.Context // of all agents
	stop     context.CancelCauseFunc
	stopping chan struct{}
	closing  sync.Once
	serving  sync.WaitGroup // agents, deliveries
	running  atomic.Int64
	held     atomic.Int64 // bytes of all tasks

	mu     sync.Mutex // guards the fields below
	tasks  map[taskKey]*work
	owners map[string]*holding
	over   *list.List // of *work: the tasks that are over, oldest first
	kept   int64      // bytes of the tasks in over
	talks  int        // entries of over that became a message and not a task
	ended  bool
	seen   seen // has its own lock
}

// A taskKey identifies a task: the id alone does not.
type taskKey struct{ owner, id string }

var (
	errStopping = errors.New("a2a: the server is closing")
	errBusy     = jsonrpc.NewError(jsonrpc.CodeBusy, "Too many requests")
	errLagging  = jsonrpc.NewError(jsonrpc.CodeBusy, "The client reads too slowly; subscribe again")
	errStopped  = jsonrpc.NewError(jsonrpc.CodeShuttingDown, "The server is shutting down")
)

// NewServer returns a server for an agent that card describes. It starts nothing.
func NewServer(card AgentCard, agent Agent, o *ServerOptions) *Server {
	s := &Server{agent: agent, stopping: make(chan struct{}), tasks: map[taskKey]*work{}, owners: map[string]*holding{}, over: list.New()}
	if o != nil {
		s.opts = *o
	}
	s.opts.defaults()
	s.opts.Report = report.Or(s.opts.Report, "a2a")
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.seen.init(s.opts.Repeat)
	s.card.Store(&card)
	return s
}

// Card returns the public card. It must not be modified.
func (s *Server) Card() *AgentCard { return s.card.Load() }

// SetCard replaces the public card.
func (s *Server) SetCard(card AgentCard) { s.card.Store(&card) }

// Speaks reports whether the server supports a version.
func (s *Server) Speaks(v Version) bool {
	for _, one := range s.opts.Versions {
		if one == v {
			return true
		}
	}
	return false
}

// Configure sets the fields of an Answerer that a transport uses for this server.
func (s *Server) Configure(a *jsonrpc.Answerer) {
	a.Handler, a.Mode, a.Cancellation = s, Mode, Cancellation
	if a.Report == nil {
		a.Report = s.opts.Report
	}
}

// pipeGrace is how long running requests may continue after the client has closed its side, so that
// a program at the other end of a pipe receives its responses.
const pipeGrace = 15 * time.Second

// Serve handles one conversation in [BindingStream] until the client disconnects, ctx is canceled,
// or the server closes. Requests that run when the client has sent its last byte have 15 s to
// finish.
func (s *Server) Serve(ctx context.Context, t jsonrpc.Transport) error {
	conn := jsonrpc.NewConn(t)
	conn.Limits, conn.Grace = s.opts.Limits, pipeGrace
	return s.ServeConn(ctx, conn)
}

// ServeConn is [Server.Serve] for a Conn that is not served yet. It uses the Limits and the Grace
// of conn.
func (s *Server) ServeConn(ctx context.Context, conn *jsonrpc.Conn) error {
	s.Configure(&conn.Answerer)
	served := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-s.stopping:
			conn.Hangup(errStopping)
		case <-served:
		}
	})
	err := conn.Serve(ctx)
	close(served)
	watch.Wait()
	if errors.Is(err, errStopping) {
		return nil
	}
	return err
}

// Close stops all agents and all deliveries, and waits for them. The tasks of these agents fail,
// except that with a Store those whose agents wait in [Run.Ask] continue to wait: see
// [Server.Load]. Later requests get a -31004 error.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
		s.stop(errStopping) // first: an agent in Ask reads the cause when stopping wakes it
		close(s.stopping)
	})
	if !grace.Wait(&s.serving, grace.Time) {
		s.report(jsonrpc.ReportStuck, jsonrpc.ErrStillRunning)
	}
}

func (s *Server) report(what string, err error) {
	if err != nil {
		s.opts.Report(what, err)
	}
}

// Handle handles one request of either version.
func (s *Server) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	svc := s.service(ctx, req)
	v, name := VersionOf(req.Method), req.Method
	if err := s.gate(name, svc.Version); err != nil {
		return nil, err
	}
	if v == V03 {
		var ok bool
		if name, ok = names10[req.Method]; !ok {
			return nil, jsonrpc.ErrMethodNotFound
		}
	}
	if name != MethodExtendedCard && name != MethodCard {
		if err := s.needsExtensions(svc.Extensions); err != nil {
			return nil, err
		}
	}
	params, err := s.params(v, req)
	if err != nil {
		return nil, err
	}
	c := &call{s: s, req: req, v: v, svc: svc}
	result, err := c.dispatch(ctx, name, params)
	switch {
	case err != nil:
		return nil, public(err)
	case v == V03:
		if raw, ok := result.(jsonrpc.Raw); ok {
			return raw, nil // an event of a stream
		}
		return resultTo03(result), nil
	}
	return result, nil
}

// params decodes the params of a method into the types of v1.0.
func (s *Server) params(v Version, req *jsonrpc.Request) (any, error) {
	if v == V03 {
		return paramsOf03(req.Method, req.Params)
	}
	var p any
	switch req.Method {
	case MethodSend, MethodStreamSend:
		p = new(SendRequest)
	case MethodGetTask:
		p = new(GetTaskRequest)
	case MethodListTasks:
		p = new(ListTasksRequest)
	case MethodCancelTask, MethodSubscribe:
		p = new(TaskRequest)
	case MethodCreatePush:
		p = new(PushConfig)
	case MethodGetPush, MethodListPush, MethodDeletePush:
		p = new(PushRequest)
	case MethodExtendedCard, MethodCard:
		return nil, nil
	default:
		return nil, jsonrpc.ErrMethodNotFound
	}
	return p, decodeParams(camel(req.Params), p)
}

// A call is one request while it is handled.
type call struct {
	s   *Server
	req *jsonrpc.Request
	v   Version
	svc Service
}

func (c *call) dispatch(ctx context.Context, name string, params any) (any, error) {
	switch p := params.(type) {
	case *SendRequest:
		return c.send(ctx, p, name == MethodStreamSend)
	case *GetTaskRequest:
		return c.getTask(p)
	case *ListTasksRequest:
		return c.listTasks(p)
	case *TaskRequest:
		if name == MethodSubscribe {
			return c.subscribe(ctx, p)
		}
		return c.cancel(ctx, p)
	case *PushConfig:
		return c.createPush(ctx, p)
	case *PushRequest:
		switch name {
		case MethodGetPush:
			return c.getPush(p)
		case MethodListPush:
			return c.listPush(p)
		}
		return c.deletePush(ctx, p)
	}
	if name == MethodCard {
		return c.s.spokenCard(), nil
	}
	return c.extendedCard(ctx)
}

// spokenCard returns the card for a conversation that is not HTTP. It omits interfaces whose URL is
// a path: they are for the HTTP server that serves the card, which prepends its host (an interface
// has an absolute URL: A2A 1.0.1, section 4.4.6).
func (s *Server) spokenCard() *AgentCard {
	card := *s.Card()
	card.SupportedInterfaces = slices.DeleteFunc(slices.Clone(card.SupportedInterfaces), func(i AgentInterface) bool {
		return strings.HasPrefix(i.URL, "/")
	})
	return &card
}

// public converts our own errors to errors of the protocol. Others are returned unchanged, and
// become "Internal error".
func public(err error) error {
	if f, ok := errors.AsType[*store.Fault](err); ok {
		code, message, data := f.Public()
		return Reshape(&jsonrpc.Error{Code: code, Message: message, Data: data})
	}
	switch {
	case errors.Is(err, errStopping):
		return Fault(errStopped, "")
	case errors.Is(err, ErrTaskOver):
		return Fault(ErrUnsupportedOperation, "The task has ended")
	}
	return err
}

func (c *call) extendedCard(ctx context.Context) (any, error) {
	switch {
	case !c.s.Card().Capabilities.ExtendedAgentCard && c.v == V10:
		return nil, Fault(ErrUnsupportedOperation, "")
	case !c.s.Card().Capabilities.ExtendedAgentCard, c.s.opts.ExtendedCard == nil: // 0.3 has one code for both
		return nil, Fault(ErrNoExtendedCard, "")
	}
	card, err := c.s.opts.ExtendedCard(ctx, c.svc)
	if err == nil && card == nil {
		err = Fault(ErrNoExtendedCard, "")
	}
	return card, err
}

// find returns a task of the caller. Another principal's task is reported as not found.
func (c *call) find(id string) (*work, error) {
	if id == "" {
		return nil, BadParams("id", "is required")
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if w := c.s.tasks[taskKey{c.svc.Principal, id}]; w != nil {
		return w, nil
	}
	return nil, Fault(ErrTaskNotFound, "", "taskId", id)
}

// list adds a task to the task list.
func (s *Server) list(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[taskKey{w.owner, w.id}] = w
}
