package a2a

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/store"
)

// ServerOptions tune a [Server]. The zero value is ready for use.
type ServerOptions struct {
	Versions []Version // which are spoken; nil means all

	// ExtendedCard makes the card for callers that have said who they are. The public card must say that there is one. Nil: none.
	ExtendedCard func(ctx context.Context, s Service) (*AgentCard, error)

	// Push delivers notifications; the public card must say that there are some. Nil: none. Package a2ahttp has one.
	Push Pusher

	// Principal tells who is at the other end of a conversation that [Server.Serve] holds. Nil: all callers are one. A carrier of its own
	// says it by [WithService].
	Principal func(ctx context.Context) string

	// Store keeps tasks for longer than the process lives; the Server does not close it. Nil: memory alone. [Server.Load] reads what it has.
	Store store.Log

	MaxTasks   int           // kept at once; 10,000. The one that was over first goes; if all are at work, new ones are answered -31001
	MaxRunning int           // agents at work at once; 1,000. More messages are answered -31001
	MaxTask    int           // bytes of all events of one task; 64 MiB. More fail the agent with ErrTooLarge
	TaskTTL    time.Duration // how long a task is kept when it is over; 24 h

	// Repeat is how long a message's id is remembered, so that the same message sent again joins the first instead of starting anew; 24 h,
	// of at most 10,000 messages. Negative: messages with equal ids are different ones.
	Repeat time.Duration

	// CancelWait is how long an agent has to end when its task is canceled; 5 s. Then the task is canceled without it.
	CancelWait time.Duration

	// Limits of each conversation that [Server.Serve] opens.
	Limits jsonrpc.Limits

	// Report gets what must not go out: errors of agents whole, pushes that failed, and what [jsonrpc.Answerer.Report] gets. Nil drops it.
	Report func(what string, err error)
}

func (o *ServerOptions) defaults() {
	if o.Versions == nil {
		o.Versions = Versions()
	}
	standard(&o.MaxTasks, 10000)
	standard(&o.MaxRunning, 1000)
	standard(&o.MaxTask, 64<<20)
	standard(&o.TaskTTL, 24*time.Hour)
	standard(&o.CancelWait, 5*time.Second)
	if o.Repeat == 0 {
		o.Repeat = 24 * time.Hour
	}
}

func standard[T int | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}

// A Server gives tasks to one [Agent] and keeps them: it is a [jsonrpc.Handler] for both versions of the protocol. Tasks are looked up by
// who made them and id, so nobody sees another's. It is safe for concurrent use.
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

	mu    sync.Mutex // guards what follows
	tasks map[taskKey]*work
	over  []*work // tasks that are over, oldest first
	ended bool
	seen  seen
}

// A taskKey finds a task: never by id alone.
type taskKey struct{ owner, id string }

var (
	errStopping = errors.New("a2a: the server is closing")
	errBusy     = jsonrpc.NewError(jsonrpc.CodeBusy, "Too many requests")
	errLagging  = jsonrpc.NewError(jsonrpc.CodeBusy, "The stream fell behind; subscribe again")
	errStopped  = jsonrpc.NewError(jsonrpc.CodeShuttingDown, "The server is shutting down")
)

// NewServer makes a server for an agent that card describes. It starts nothing.
func NewServer(card AgentCard, agent Agent, o *ServerOptions) *Server {
	s := &Server{agent: agent, stopping: make(chan struct{}), tasks: map[taskKey]*work{}}
	if o != nil {
		s.opts = *o
	}
	s.opts.defaults()
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.seen.init(s.opts.Repeat)
	s.card.Store(&card)
	return s
}

// Card returns the public card. It must not be changed.
func (s *Server) Card() *AgentCard { return s.card.Load() }

// SetCard replaces the public card.
func (s *Server) SetCard(card AgentCard) { s.card.Store(&card) }

// Speaks reports whether a version is spoken.
func (s *Server) Speaks(v Version) bool {
	for _, one := range s.opts.Versions {
		if one == v {
			return true
		}
	}
	return false
}

// Configure sets the fields of an Answerer that a carrier uses for this server.
func (s *Server) Configure(a *jsonrpc.Answerer) {
	a.Handler, a.Mode, a.Cancellation = s, Mode, Cancellation
	if a.Report == nil {
		a.Report = s.opts.Report
	}
}

// pipeGrace is how long what runs may go on after the client has said its last word, so that a program at the other end of a pipe gets its
// answers.
const pipeGrace = 15 * time.Second

// Serve holds one conversation by [BindingStream] until the client hangs up, ctx ends, or the server closes. What runs when the client has
// sent its last byte has 15 s to finish.
func (s *Server) Serve(ctx context.Context, t jsonrpc.Transport) error {
	conn := jsonrpc.NewConn(t)
	conn.Limits, conn.Grace = s.opts.Limits, pipeGrace
	return s.ServeConn(ctx, conn)
}

// ServeConn is Serve on a Conn that nobody serves yet, with the limits and the grace that it has.
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

// Close ends all agents, whose tasks fail, and all deliveries, and waits for them. What is asked afterwards is answered -31004.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.mu.Lock()
		s.ended = true
		s.mu.Unlock()
		close(s.stopping)
		s.stop(errStopping)
	})
	s.serving.Wait()
}

func (s *Server) report(what string, err error) {
	if s.opts.Report != nil && err != nil {
		s.opts.Report(what, err)
	}
}

// Handle answers one request of either version.
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

// params reads the params of a method, in the shape of v1.0.
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

// A call is one request that is being answered.
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

// spokenCard is the card as it is told in a conversation. It names no paths: they are for the HTTP server that serves the card, which puts its host
// before them (an interface has an absolute URL: A2A 1.0.1, section 4.4.6).
func (s *Server) spokenCard() *AgentCard {
	card := *s.Card()
	card.SupportedInterfaces = slices.DeleteFunc(slices.Clone(card.SupportedInterfaces), func(i AgentInterface) bool {
		return strings.HasPrefix(i.URL, "/")
	})
	return &card
}

// public makes of our own errors what the protocol has for them. Others stay as they are, and become "Internal error".
func public(err error) error {
	if f, ok := errors.AsType[*store.Fault](err); ok {
		code, message, data := f.Public()
		return Reshape(&jsonrpc.Error{Code: code, Message: message, Data: data})
	}
	switch {
	case errors.Is(err, errStopping):
		return Fault(errStopped, "")
	case errors.Is(err, ErrTaskOver):
		return Fault(ErrUnsupportedOperation, "The task is over")
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

// find returns a task of the caller. One of somebody else is as unknown as one that never was.
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

// list makes a task known.
func (s *Server) list(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks[taskKey{w.owner, w.id}] = w
}

// finished notes that a task is over, so that it may make room for others.
func (s *Server) finished(w *work) {
	s.mu.Lock()
	s.over = append(s.over, w)
	s.mu.Unlock()
	s.expire(w)
}

// room makes room for one more task.
func (s *Server) room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return errStopping
	}
	oldest := time.Now().Add(-s.opts.TaskTTL)
	for len(s.over) > 0 {
		w := s.over[0]
		t, _ := w.snapshot()
		if len(s.tasks) < s.opts.MaxTasks && t.Status.Timestamp.After(oldest) {
			break
		}
		s.over = s.over[1:]
		delete(s.tasks, taskKey{w.owner, w.id})
		s.seen.forget(w)
		s.serving.Go(func() { s.drop(w) })
	}
	if len(s.tasks) >= s.opts.MaxTasks || s.running.Load() >= int64(s.opts.MaxRunning) {
		return Fault(errBusy, fmt.Sprintf("Too many tasks: %d are kept, %d agents are at work", len(s.tasks), s.running.Load()))
	}
	return nil
}
