package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// An Answerer is the answering half: a payload goes in, messages about it leave through a [Sink], and one response comes out. It
// needs no transport. There is one for each conversation, or one for an endpoint that has none. The zero Answerer answers
// "Method not found" to all. Set its fields before its first use, and do not copy it afterwards.
type Answerer struct {
	Handler Handler

	// Mode tells what may be assumed of a method, usually the Mux's. Nil: nothing.
	Mode func(method string) Mode

	Limits  Limits  // holds the limits in force after the first use
	Gate    *Gate   // bounds the requests of many conversations together; nil for no bound
	Version Version // Version1 takes messages of both versions
	NoBatch bool    // the protocol has no batches: an array is answered -32600
	NoNull  bool    // the protocol has no id null: it is answered -32600

	// Cancellation makes running requests cancellable by the peer. Without one there is still Cancel.
	Cancellation Cancellation

	// Report gets what must not go out: panics as *PanicError, errors of handlers as *HandlerError, messages that were
	// dropped. Nil drops it. It is called on the goroutine that noticed, and must not wait.
	Report func(what string, err error)

	setup sync.Once
	tick  time.Duration
	names nameTable

	active   atomic.Int64 // payloads that are being answered
	watched  atomic.Int32 // how many wait for there to be none
	draining atomic.Bool

	mu      sync.Mutex // guards what follows
	newest  *running   // requests whose handlers run, newest first
	sweeper *time.Timer
	armed   bool
	now     int64 // in ticks
	idle    []chan struct{}
}

// A HandlerError is an error that a handler returned and that did not go out.
type HandlerError struct {
	Method string
	Err    error
}

func (e *HandlerError) Error() string {
	return "jsonrpc: handler of " + e.Method + ": " + e.Err.Error()
}
func (e *HandlerError) Unwrap() error { return e.Err }

// A PanicError is a panic of a handler, or of the encoder of its result. The peer gets only the Reference.
type PanicError struct {
	Method    string
	Value     any
	Stack     []byte
	Reference int64 // counts the panics of this process
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("jsonrpc: handler of %s panicked (reference %d): %v\n%s", e.Method, e.Reference, e.Value, e.Stack)
}

var panics atomic.Int64 // only to give each a reference of its own

var errStopping = errors.New("jsonrpc: shutting down")

func (a *Answerer) init() {
	a.setup.Do(func() {
		a.Limits = a.Limits.withDefaults()
		a.tick = tickOf(a.Limits.Deadline)
		if a.Limits.Deadline < 0 {
			a.tick = time.Second
		}
		if a.Handler == nil {
			a.Handler = new(Mux)
		}
	})
}

func (a *Answerer) report(what string, err error) {
	if a.Report != nil {
		a.Report(what, err)
	}
}

// A job is what one payload, or one request of it, needs while it is answered. It is reused.
type job struct {
	parser  parser
	req     Request
	origin  origin
	mode    Mode
	handler Handler // of the method; nil asks the Answerer's
	unknown method  // a method that is not in the table of names
	ctx     context.Context
	run     *running // nil for a quick request
	out     []byte   // the response

	// On a Conn, where the payload outlives the read.
	task    task
	payload []byte
}

// origin is what a Request knows of where it came from.
type origin struct {
	a       *Answerer
	x       *Exchange
	run     *running
	peer    atomic.Pointer[boundPeer] // made when asked for, by any goroutine of the handler
	after   []func()
	batched bool
}

var jobs = sync.Pool{New: func() any { return new(job) }}

// tooBigToKeep is the size of a buffer that goes to the collector instead of a pool, which the collector empties too.
const tooBigToKeep = 8 << 20

// free gives a job back.
func (j *job) free() {
	poison(j.payload)
	if cap(j.payload) > tooBigToKeep {
		j.payload = nil
	}
	if cap(j.out) > tooBigToKeep {
		j.out = nil
	}
	if cap(j.parser.msgs) > 256 {
		j.parser.msgs = nil
	}
	j.clear()
	j.task = task{}
	jobs.Put(j)
}

// clear makes a job ready for the next request.
func (j *job) clear() {
	j.req = Request{}
	j.origin = origin{}
	j.ctx, j.run, j.mode, j.handler = nil, nil, 0, nil
	if j.unknown.name != "" {
		j.unknown = method{}
	}
}

// Answer handles one payload on the calling goroutine and appends the response to dst; nothing is appended when there is nothing
// to say. The *Error is the one that went out for a single message, for carriers that mirror it in a status. ctx is the parent of
// the handlers' contexts. A response among the messages goes to x.Asker. It is safe for concurrent use.
func (a *Answerer) Answer(ctx context.Context, dst, payload []byte, x *Exchange) ([]byte, *Error) {
	a.init()
	a.active.Add(1)
	j := jobs.Get().(*job)
	out, e := a.answer(ctx, j, dst, payload, x)
	j.free()
	a.done()
	return out, e
}

func (a *Answerer) answer(ctx context.Context, j *job, dst, payload []byte, x *Exchange) ([]byte, *Error) {
	p := &j.parser
	if e := a.parse(p, payload); e != nil {
		return AppendError(dst, a.Version, NullID, e), e
	}
	if p.batch {
		return a.answerBatch(ctx, dst, payload, p.msgs, x), nil
	}
	m := &p.msgs[0]
	switch m.kind {
	case kindResponse, kindBadResponse:
		a.takeResponse(x.Asker, m, payload)
		return dst, nil
	case kindBadRequest:
		if x.Asker.spoilt(m, payload) {
			return dst, nil
		}
		return AppendError(dst, m.version, m.id, m.bad), m.bad
	}
	a.prepare(j, m, payload, x)
	if e := a.refuse(&j.req); e != nil {
		return appendRefusal(dst, &j.req, m.version, e), e
	}
	if a.isCancel(&j.req) {
		a.cancelNamed(j.req.Params)
		return dst, nil
	}
	j.ctx = ctx
	if j.mode&Quick == 0 {
		a.admit(ctx, j, m, x)
	}
	out, e := a.execute(j, m.version, dst)
	if a.silent(j.run) {
		out, e = out[:len(dst)], nil
	}
	a.finish(j)
	return out, e
}

// parse reads a payload by the limits in force.
func (a *Answerer) parse(p *parser, payload []byte) *Error {
	p.maxBatch, p.version = a.Limits.Batch, a.Version
	if e := p.parse(payload, a.Limits.Depth, a.Limits.Tokens); e != nil {
		return e
	}
	if p.batch && a.NoBatch {
		return errInvalid
	}
	return nil
}

// takeResponse hands a response to whoever waits for it.
func (a *Answerer) takeResponse(k *Asker, m *message, payload []byte) {
	if k == nil || !k.deliver(m, payload) {
		a.report("dropped", fmt.Errorf("jsonrpc: a response that nobody waits for, id %.64s", m.id))
	}
}

// prepare turns a parsed message into the request of j.
func (a *Answerer) prepare(j *job, m *message, payload []byte, x *Exchange) {
	text := m.method.of(payload)
	to := a.names.find(text)
	if to == nil {
		j.unknown = a.method(text)
		to = &j.unknown
	}
	j.req.Method, j.mode, j.handler = to.name, to.mode, to.handler
	if m.kind != kindNotification {
		j.req.ID, j.req.idText = m.id, m.idText.of(payload)
	}
	j.req.Params = m.params.of(payload)
	j.req.origin = &j.origin
	j.origin.a, j.origin.x = a, x // the rest is empty
}

// refuse returns why a request is not even looked at.
func (a *Answerer) refuse(req *Request) *Error {
	switch {
	case a.NoNull && req.ID.IsNull():
		return errInvalid
	case a.draining.Load():
		return faultStopping
	}
	return nil
}

// execute runs the handler of j and appends its response to dst, nothing for a notification.
func (a *Answerer) execute(j *job, v Version, dst []byte) ([]byte, *Error) {
	if j.req.IsNotification() {
		if _, e := a.result(j, nil); e != nil && e.Code != CodeMethodNotFound && e.Code != CodeInternalError { // those are ignored, and reported
			a.report("notification", &HandlerError{j.req.Method, e})
		}
		return dst, nil
	}
	out, e := a.result(j, appendResultHead(dst, v))
	if e != nil {
		return AppendError(dst, v, j.req.ID, e), e
	}
	return append(append(appendResultTail(out, v), j.req.idText...), '}'), nil
}

// result runs the handler of j and appends its encoded result to dst. Handler and encoder may panic.
func (a *Answerer) result(j *job, dst []byte) (out []byte, e *Error) {
	defer func() {
		if value := recover(); value != nil {
			a.settle(j)
			out, e = dst, a.panicked(j.req.Method, value)
		}
	}()
	if j.run != nil && a.Gate != nil {
		if !a.Gate.enter() {
			return dst, faultBusy
		}
		defer a.Gate.leave()
	}
	if x := j.origin.x; x.Check != nil {
		if err := x.Check(j.ctx, &j.req); err != nil {
			return dst, a.outcome(j, err)
		}
	}
	h := j.handler
	if h == nil {
		h = a.Handler
	}
	result, err := h.Handle(j.ctx, &j.req)
	a.settle(j)
	if err != nil {
		return dst, a.outcome(j, err)
	}
	if j.req.IsNotification() {
		return dst, nil
	}
	if out, err = appendValue(dst, result); err != nil {
		a.report("encode", &HandlerError{j.req.Method, err})
		return dst, ErrInternal
	}
	return out, nil
}

// settle ends the peer of a request before the answer is queued, so that nothing the handler sends can follow it.
func (a *Answerer) settle(j *job) {
	if p := j.origin.peer.Load(); p != nil {
		p.settle()
	}
}

// finish forgets a request whose response is on its way.
func (a *Answerer) finish(j *job) {
	if r := j.run; r != nil {
		a.mu.Lock()
		a.unlist(r)
		a.mu.Unlock()
		r.end(context.Canceled)
	}
	if len(j.origin.after) > 0 {
		a.runAfter(j)
	}
}

// runAfter runs what the handler left for the time after its answer.
func (a *Answerer) runAfter(j *job) {
	defer func() {
		if value := recover(); value != nil {
			_ = a.panicked(j.req.Method, value) // it is reported; the answer is out
		}
	}()
	for _, f := range j.origin.after {
		f()
	}
}

// silent reports whether a request gets no answer, since its caller cancelled it and the protocol wants it so.
func (a *Answerer) silent(r *running) bool {
	return a.Cancellation.Silent && r != nil && errors.Is(r.ended(), ErrPeerCancelled)
}

// outcome decides what a handler's error is on the wire.
func (a *Answerer) outcome(j *job, err error) *Error {
	if e, ok := err.(*Error); ok && e != nil { //nolint:errorlint // what is wrapped stays here
		return e
	}
	if j.run != nil {
		switch cause := j.run.ended(); {
		case errors.Is(cause, ErrPeerCancelled):
			return faultCancelled
		case errors.Is(cause, ErrTimeout):
			return faultDeadline
		case errors.Is(cause, errStopping):
			return faultStopping
		}
	}
	a.report("handler", &HandlerError{j.req.Method, err})
	return ErrInternal
}

// appendRefusal appends the error that answers req without a look at its method, nothing for a notification.
func appendRefusal(dst []byte, req *Request, v Version, e *Error) []byte {
	if req.IsNotification() {
		return dst
	}
	return AppendError(dst, v, req.ID, e)
}

// panicked reports a panic and returns what the peer learns of it.
func (a *Answerer) panicked(method string, value any) *Error {
	p := &PanicError{Method: method, Value: value, Stack: debug.Stack(), Reference: panics.Add(1)}
	a.report("panic", p)
	return ErrInternal.WithData(struct {
		Reference int64 `json:"reference"`
	}{p.Reference})
}

// done counts a payload as answered.
func (a *Answerer) done() {
	if a.active.Add(-1) == 0 && a.watched.Load() > 0 {
		a.mu.Lock()
		for _, c := range a.idle {
			close(c)
		}
		a.idle = nil
		a.mu.Unlock()
	}
}

// Drain answers new requests with -31004 from now on and waits for the running ones. When ctx ends first, their
// contexts end, and Drain returns ctx's cause.
func (a *Answerer) Drain(ctx context.Context) error {
	a.init()
	a.draining.Store(true)
	err := a.waitIdle(ctx)
	if err != nil {
		a.endAll(errStopping)
	}
	return err
}

// waitIdle waits until no payload is being answered, or returns ctx's cause.
func (a *Answerer) waitIdle(ctx context.Context) error {
	a.watched.Add(1)
	defer a.watched.Add(-1)
	for {
		a.mu.Lock()
		if a.active.Load() == 0 {
			a.mu.Unlock()
			return nil
		}
		quiet := make(chan struct{})
		a.idle = append(a.idle, quiet)
		a.mu.Unlock()
		select {
		case <-quiet:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
