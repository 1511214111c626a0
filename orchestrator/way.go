package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/acp"
	"github.com/da1ed7bb/parley/agent"
	"github.com/da1ed7bb/parley/agent/acpagent"
	bound "github.com/da1ed7bb/parley/internal/x/grace"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A way is a connection to one program or address, shared by its members. If the connection has
// ended, the next use opens it again. It implements [agent.Link] and [jsonrpc.Peer].
type way struct {
	d       *dialing
	names   []string // of the members
	unnamed bool     // a member names no agent

	life  context.Context // ends with Close
	end   context.CancelCauseFunc
	tries sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	there  *opened    // nil until opened
	try    *try       // the running try, or nil
	err    error      // the error of the last try
	failed int        // consecutive failed tries
	next   time.Time  // the earliest time of the next try
	starts []time.Time
}

// opened is the open connection of a way.
type opened struct {
	agents *agent.Client // nil for methods
	acp    *acp.Client   // nil for other protocols
	only   string        // the agent for members that name none
	calls  *calls        // nil for agents
	ended  *ending
	close  func() error
}

// over returns why the connection ended, or nil while it is open.
func (o *opened) over() error {
	if o.calls != nil {
		o.ended.note(o.calls.err())
	}
	return o.ended.cause()
}

// An ending records why something ended.
type ending struct{ why atomic.Pointer[error] }

func (e *ending) note(err error) {
	if err != nil {
		e.why.CompareAndSwap(nil, &err)
	}
}

func (e *ending) cause() error {
	if err := e.why.Load(); err != nil {
		return *err
	}
	return nil
}

// watched is a transport that records its end.
type watched struct {
	jsonrpc.Transport
	ended *ending
}

func (w *watched) Read() ([]byte, bool, error) {
	payload, more, err := w.Transport.Read()
	if e, ok := errors.AsType[*jsonrpc.FrameError](err); err != nil && (!ok || e.Final) {
		w.ended.note(err)
	}
	return payload, more, err
}

func (w *watched) Close() error {
	w.ended.note(jsonrpc.ErrClosed)
	return w.Transport.Close()
}

// A try is one attempt to open a way, shared by all waiters.
type try struct {
	over  chan struct{} // closed when the fields below are set
	there *opened
	err   error
}

// Bounds of retries.
const (
	// againFirst is the pause after the first failed try. It doubles after each further one.
	againFirst    = 250 * time.Millisecond
	againMost     = 30 * time.Second
	startsIn      = 10 * time.Minute // the period to which DialOptions.Restarts applies
	defaultStarts = 5
)

func newWay(ctx context.Context, d *dialing, names []string, unnamed bool) *way {
	w := &way{d: d, names: names, unnamed: unnamed}
	w.life, w.end = context.WithCancelCause(context.WithoutCancel(ctx))
	return w
}

// use returns the connection and opens it if necessary. ctx bounds only the wait. Between two tries
// it returns the error of the last one.
func (w *way) use(ctx context.Context) (*opened, error) {
	w.mu.Lock()
	if w.life.Err() != nil {
		w.mu.Unlock()
		return nil, jsonrpc.ErrClosed
	}
	var why error
	if w.there != nil {
		if why = w.there.over(); why == nil {
			defer w.mu.Unlock()
			return w.there, nil
		}
	}
	t := w.try
	if t == nil {
		if w.err != nil && time.Now().Before(w.next) {
			defer w.mu.Unlock()
			return nil, w.err
		}
		t = &try{over: make(chan struct{})}
		w.try = t
		old := w.there
		w.tries.Go(func() { w.open(t, old, why) })
	}
	w.mu.Unlock()
	select {
	case <-t.over:
		return t.there, t.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// open makes one try: it closes the old connection and opens a new one.
func (w *way) open(t *try, old *opened, why error) {
	if old != nil {
		_ = rescue.Call(w.d.o.Report, old.close) // it has already ended; why has the reason
		report.Call(w.d.o.Report, "orchestrator", ReportMemberLost, fmt.Errorf("%s: %w", w.called(), why))
	}
	ctx, cancel := context.WithTimeout(w.life, w.d.o.Timeout)
	defer cancel()
	t.err = rescue.Call(w.d.o.Report, func() (err error) { // of a Dialer's functions
		if err = w.start(why); err != nil {
			return err
		}
		if t.there, err = w.d.open(ctx); err == nil && w.unnamed && t.there.acp != nil {
			t.there.only = w.d.only(ctx, t.there.agents)
		}
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if final, no := errors.AsType[*StepError](t.err); no {
		w.err, w.failed = final, w.failed+1
	} else if t.err != nil {
		// Only its text: a handshake timeout must not count as a timeout of the step.
		t.err = errors.New(w.d.m.where() + ": " + t.err.Error())
		w.err, w.next = t.err, time.Now().Add(min(againFirst<<min(w.failed, 10), againMost))
		w.failed++
	} else {
		w.err, w.failed, w.there = nil, 0, t.there
	}
	if old != nil && t.err != nil {
		w.there = nil
	}
	w.try = nil
	close(t.over)
}

// start counts the starts of a program and returns an error if there were too many.
func (w *way) start(why error) error {
	if len(w.d.m.Command) == 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.starts = slices.DeleteFunc(w.starts, func(at time.Time) bool { return now.Sub(at) >= startsIn })
	if most := 1 + max(w.d.o.Restarts, 0); len(w.starts) >= most {
		if why == nil {
			why = w.err
		}
		w.next = w.starts[0].Add(startsIn)
		text := fmt.Sprintf("%s: it was started %d times within %v, and is not started again before %s", w.d.m.where(), most, startsIn, w.next.Format(time.TimeOnly))
		if why != nil {
			text += "; the last time: " + why.Error()
		}
		return &StepError{Kind: KindUnreachable, Text: text}
	}
	w.starts = append(w.starts, now)
	return nil
}

func (w *way) called() string { return strings.Join(w.names, ", ") }

// heard records the end of the connection if a call's error shows it.
func (o *opened) heard(err error) {
	if _, answered := errors.AsType[*jsonrpc.Error](err); !answered && errors.Is(err, jsonrpc.ErrClosed) {
		o.ended.note(err)
	}
}

// Agents implements [agent.Link].
func (w *way) Agents(ctx context.Context) ([]agent.Card, error) {
	o, err := w.use(ctx)
	if err != nil {
		return nil, err
	}
	cards, err := o.agents.Agents(ctx)
	o.heard(err)
	return cards, err
}

// named returns the cards of the named agents: in one batch for ACP over JSON-RPC; by concurrent
// calls if the peer refuses batches or uses REST; and by listing all in other protocols, whose
// endpoints have one agent or one list.
func (w *way) named(ctx context.Context, names ...string) ([]agent.Card, error) {
	o, err := w.use(ctx)
	if err != nil {
		return nil, err
	}
	if o.acp == nil {
		cards, err := o.agents.Agents(ctx)
		o.heard(err)
		return cards, err
	}
	found, err := o.acp.AgentsNamed(ctx, names...)
	if err != nil {
		o.heard(err)
		return nil, err
	}
	var (
		cards []agent.Card
		errs  []error
	)
	for i := range found {
		if err := found[i].Err; err != nil {
			o.heard(err)
			errs = append(errs, fmt.Errorf("%s: %w", names[i], err))
			continue
		}
		cards = append(cards, acpagent.CardOf(&found[i].Manifest))
	}
	return cards, errors.Join(errs...)
}

// Do implements [agent.Link].
func (w *way) Do(ctx context.Context, req *agent.Request, c agent.Caller) (*agent.Result, error) {
	o, err := w.use(ctx)
	if err != nil {
		return nil, err
	}
	if req.Agent == "" && o.only != "" {
		own := *req
		own.Agent = o.only
		req = &own
	}
	res, err := o.agents.Link.Do(ctx, req, c)
	o.heard(err)
	return res, err
}

// Attach implements [agent.Link].
func (w *way) Attach(ctx context.Context, id string, c agent.Caller) (*agent.Result, error) {
	o, err := w.use(ctx)
	if err != nil {
		return nil, err
	}
	res, err := o.agents.Link.Attach(ctx, id, c)
	o.heard(err)
	return res, err
}

// Close closes the way permanently.
func (w *way) Close() error {
	w.mu.Lock()
	w.end(jsonrpc.ErrClosed)
	w.mu.Unlock()
	if !bound.Wait(&w.tries, bound.Time) {
		return errStuck
	}
	if w.there == nil {
		return nil
	}
	return w.there.close()
}

// call calls a method; by receives the questions. If by is nil, questions cannot be answered.
func (w *way) call(ctx context.Context, item *jsonrpc.Item, by agent.Caller) error {
	o, err := w.use(ctx)
	if err != nil {
		return err
	}
	err = o.calls.do(ctx, item, by)
	o.heard(err)
	return err
}

// Call implements [jsonrpc.Peer].
func (w *way) Call(ctx context.Context, method string, params, result any) error {
	return w.call(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result}, nil)
}

// Stream implements [jsonrpc.Peer].
func (w *way) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return w.call(ctx, &jsonrpc.Item{Method: method, Params: params, Result: result, On: on}, nil)
}

// Notify implements [jsonrpc.Peer].
func (w *way) Notify(ctx context.Context, method string, params any) error {
	return w.call(ctx, &jsonrpc.Item{Method: method, Params: params, Notify: true}, nil)
}
