package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// An Answerer is the serving half: it takes a payload, sends messages about it through a [Sink],
// and returns one response. It needs no transport. Each connection has one; an endpoint without
// connections has one for all. The zero Answerer responds "Method not found" to every request. Set
// its fields before its first use, and do not copy it afterwards.
type Answerer struct {
	// Handler handles the requests, usually a *Mux. If nil, every request gets "Method not found".
	Handler Handler

	// Mode returns what the engine may assume of a method; it is usually the Mux's. If nil, nothing
	// is assumed.
	Mode func(method string) Mode

	// Limits bound one connection. After the first use they hold the effective limits, with the
	// defaults filled in.
	Limits Limits

	// Gate bounds the requests of many connections together. If nil, there is no such bound.
	Gate *Gate

	// Version is the version of JSON-RPC. Version1 accepts messages of both versions.
	Version Version

	// NoBatch means that the protocol has no batches: an array gets -32600.
	NoBatch bool

	// NoNull means that the protocol does not allow the id null: a request with it gets -32600.
	NoNull bool

	// Cancellation makes running requests cancellable by the peer. Without it, [Answerer.Cancel]
	// still works.
	Cancellation Cancellation

	// Convert, if not nil, returns the error that is sent in place of e, such as one whose data has
	// the form that a protocol requires. It is called for each error response, by many goroutines
	// at once, and must not change e.
	Convert func(e *Error) *Error

	// Report receives what must not be sent to the peer: panics as *PanicError, errors of handlers
	// as *HandlerError, and dropped messages. what is [ReportPanic] or another constant of that
	// group, and err is not nil. If Report is nil, panics and errors of handlers are logged with
	// slog's default logger, each as one escaped line, and the rest is ignored. Report is called on
	// the goroutine that found the problem, and must not wait. middleware.Report makes one that
	// logs.
	Report func(what string, err error)

	setup sync.Once
	tick  time.Duration
	names nameTable

	active   atomic.Int64 // payloads in progress
	watched  atomic.Int32 // the number of goroutines that wait for active to be zero
	draining atomic.Bool

	mu      sync.Mutex // guards the fields below
	newest  *running   // requests whose handlers run, newest first
	sweeper *time.Timer
	armed   bool
	now     int64 // in ticks
	idle    []chan struct{}
}

// A HandlerError is an error of a handler that was not sent to the peer.
type HandlerError struct {
	Method string
	Err    error
}

func (e *HandlerError) Error() string {
	return "jsonrpc: handler of " + e.Method + ": " + e.Err.Error()
}
func (e *HandlerError) Unwrap() error { return e.Err }

// A PanicError is a panic of a handler, or of the encoder of its result. The peer receives only the
// Reference.
type PanicError struct {
	Method    string
	Value     any
	Stack     []byte
	Reference int64 // counts the panics of this process
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("jsonrpc: handler of %s panicked (reference %d): %v\n%s", e.Method, e.Reference, e.Value, e.Stack)
}

var panics atomic.Int64 // gives each panic its own reference

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

// converted returns what is sent in place of an error.
func (a *Answerer) converted(e *Error) *Error {
	if a.Convert == nil {
		return e
	}
	sent := e
	_ = rescue.Run(a.report, func() { sent = a.Convert(e) }) // it is reported, and e is sent
	return sent
}

func (a *Answerer) report(what string, err error) {
	if a.Report != nil {
		report.Call(a.Report, "jsonrpc", what, err)
		return
	}
	switch what {
	case ReportEncode, ReportHandler, ReportPanic: // of our own code; any peer can cause the rest
		report.Log("jsonrpc", what, err)
	}
}

// A job is the working memory for one payload, or for one request of it. It is reused.
type job struct {
	parser  parser
	*asked        // the handler's request; nil before prepare
	own     asked // the same, for a handler that cannot retain it
	mode    Mode
	handler Handler        // of the method; if nil, the Answerer's is used
	recent  *budget.Recent // of the method
	unknown method         // a method that is not in the table of names
	ctx     context.Context
	run     *running // nil for a quick request
	out     []byte   // the response
	place   place    // at the Gate, while the handler runs
	member  *Member  // of a BatchHandler, with its result; nil otherwise

	// On a Conn, where the payload outlives the read.
	task    task
	payload []byte
}

// An asked is a request and its origin. It is reused only if its handler is a Function, which never
// sees the Request: another handler may retain the pointer, and must not find another caller's
// request there later.
type asked struct {
	req    Request
	origin origin
}

// An origin is what a Request stores about where it came from.
type origin struct {
	a       *Answerer
	x       *Exchange
	run     *running
	quick   atomic.Pointer[boundPeer] // of a quick request; others store it in run
	after   []func()
	batched bool

	delays    bool        // InOrder, on a Conn
	proceeded atomic.Bool // the messages after it may start
}

var jobs = sync.Pool{New: func() any { return new(job) }}

// tooBigToKeep is the size of a buffer that is left to the garbage collector instead of being
// pooled. The collector empties the pool too.
const tooBigToKeep = 2 << 20

// free returns a job to the pool.
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
	if j.task.job != nil { // of a Conn
		j.task = task{}
	}
	jobs.Put(j)
}

// clear prepares a job for the next request.
func (j *job) clear() {
	if j.asked == &j.own {
		j.own = asked{}
	}
	j.asked = nil
	j.ctx, j.run, j.mode, j.handler, j.recent, j.member = nil, nil, 0, nil, nil, nil
	if j.unknown.name != "" {
		j.unknown = method{}
	}
}

// Answer handles one payload on the calling goroutine and appends the response to dst. It appends
// nothing if there is no response. The *Error is the error response to a single message, for
// transports that also send it as a status. ctx is the parent of the handlers' contexts. Responses
// among the messages go to x.Asker. Answer is safe for concurrent use.
func (a *Answerer) Answer(ctx context.Context, dst, payload []byte, x *Exchange) ([]byte, *Error) {
	a.init()
	a.active.Add(1)
	defer a.done() // also if Mode panics
	j := jobs.Get().(*job)
	out, e := a.answer(ctx, j, dst, payload, x)
	j.free()
	return out, e
}

// answer is the path of a payload without a Conn; the tree of functions in receive.go shows the
// path on a Conn.
func (a *Answerer) answer(ctx context.Context, j *job, dst, payload []byte, x *Exchange) ([]byte, *Error) {
	p := &j.parser
	if e := a.parse(p, payload); e != nil {
		return a.appendError(dst, a.Version, NullID, e)
	}
	if p.batch {
		return a.answerBatch(ctx, dst, payload, p.msgs, x), nil
	}
	m := &p.msgs[0]
	switch m.kind {
	case kindResponse, kindBadResponse:
		a.takeResponse(x.Asker, m, payload, false)
		return dst, nil
	case kindBadRequest:
		if x.Asker.takeMalformed(m, payload) {
			return dst, nil
		}
		return a.appendError(dst, m.version, m.id, m.bad)
	}
	return a.answerRequest(ctx, j, dst, payload, m, x)
}

// answerRequest is answer for a request that is parsed.
func (a *Answerer) answerRequest(ctx context.Context, j *job, dst, payload []byte, m *message, x *Exchange) ([]byte, *Error) {
	a.prepare(j, m, payload, x)
	if e := a.refuse(&j.req); e != nil {
		return a.appendRefusal(dst, &j.req, m.version, e)
	}
	if a.isCancel(&j.req) {
		a.cancelNamed(j.req.Params)
		return dst, nil
	}
	j.ctx = ctx
	if j.mode&Quick == 0 {
		a.admit(ctx, j, m, x)
	}
	out, e := a.executeExpected(j, m.version, dst, x)
	if !j.run.take() || a.silent(j.run) {
		out, e = out[:len(dst)], nil
	}
	a.finish(j)
	return out, e
}

// mostExpectedHTTP bounds the responses that handlers without a Conn will probably make at once, in
// bytes.
const mostExpectedHTTP = 192 << 20

// executeExpected is execute for a request that may come without a Conn, as over HTTP. There it is
// rejected if too many handlers of methods with long responses run: their responses count only once
// they are made. On a Conn the lane decides when a request starts.
func (a *Answerer) executeExpected(j *job, v Version, dst []byte, x *Exchange) ([]byte, *Error) {
	n := int64(0)
	if _, local := x.Sink.(*localSink); x.lane == nil && !local && j.mode&Quick == 0 && !j.req.IsNotification() {
		n = j.recent.Get()
	}
	if n == 0 {
		return a.execute(j, v, dst)
	}
	all := budget.ExpectedHTTP.Add(n)
	defer budget.ExpectedHTTP.Add(-n)
	if all > mostExpectedHTTP && all > n {
		return a.appendRefusal(dst, &j.req, v, faultBusy)
	}
	return a.execute(j, v, dst)
}

// parse parses a payload under the effective limits.
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

// takeResponse delivers a response to the call that waits for it.
func (a *Answerer) takeResponse(k *Asker, m *message, payload []byte, inArray bool) {
	if k == nil || !k.deliver(m, payload, inArray) {
		a.report(ReportDropped, fmt.Errorf("jsonrpc: a response without a waiting call, id %.64s", m.id))
	}
}

// prepare turns a parsed message into the request of j.
func (a *Answerer) prepare(j *job, m *message, payload []byte, x *Exchange) {
	text := m.method.of(payload)
	to := a.names.find(unquoted(text))
	if to == nil {
		j.unknown = a.method(textOf(text), isEscaped(text))
		to = &j.unknown
	}
	j.begin(to.handler, x)
	j.req.Method, j.mode, j.handler, j.recent = to.name, to.mode, to.handler, to.recent
	if m.kind != kindNotification {
		j.req.ID, j.req.idText = m.id, m.idText.of(payload)
	}
	j.req.Params = m.params.of(payload)
	j.req.origin = &j.origin
	j.origin.a, j.origin.x = a, x // the other fields are empty
}

// begin sets an empty request in the job.
func (j *job) begin(h Handler, x *Exchange) {
	if _, keepsNothing := h.(*Function); keepsNothing && x.Check == nil {
		j.asked = &j.own
	} else {
		j.asked = new(asked)
	}
}

// refuse returns the error for a request that is rejected whatever its method is, or nil.
func (a *Answerer) refuse(req *Request) *Error {
	switch {
	case a.NoNull && req.ID.IsNull():
		return errInvalid
	case a.draining.Load():
		return faultStopping
	}
	return nil
}

// execute runs the handler of j and appends its response to dst; for a notification it appends
// nothing.
func (a *Answerer) execute(j *job, v Version, dst []byte) ([]byte, *Error) {
	if j.req.IsNotification() {
		// they get no response, but a report
		if _, e := a.result(j, nil); e != nil && e.Code != CodeMethodNotFound && e.Code != CodeInternalError {
			a.report(ReportNotification, &HandlerError{j.req.Method, e})
		}
		return dst, nil
	}
	out, e := a.result(j, appendResultHead(dst, v))
	j.recent.Note(len(out) - len(dst))
	if e != nil {
		return a.appendError(dst, v, j.req.ID, e)
	}
	return append(append(appendResultTail(out, v), j.req.idText...), '}'), nil
}

// result runs the handler of j and appends its encoded result to dst. Handler and encoder may
// panic.
func (a *Answerer) result(j *job, dst []byte) (out []byte, e *Error) {
	defer func() {
		if value := recover(); value != nil {
			a.settle(j)
			out, e = dst, a.panicked(j.req.Method, value)
		}
	}()
	if m := j.member; m != nil { // it is handled
		return a.handled(j, dst, m.result, m.err)
	}
	if j.run != nil && a.Gate != nil {
		if !a.enterGate(j) {
			return dst, faultBusy
		}
		defer j.leaveGate()
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
	return a.handled(j, dst, result, err)
}

// handled appends the encoded result of the handler of j.
func (a *Answerer) handled(j *job, dst []byte, result any, err error) ([]byte, *Error) {
	a.settle(j)
	if err != nil {
		return dst, a.outcome(j, err)
	}
	if j.req.IsNotification() {
		return dst, nil
	}
	out, err := appendValue(dst, result)
	if err != nil {
		a.report(ReportEncode, &HandlerError{j.req.Method, err})
		return dst, ErrInternal
	}
	return out, nil
}

// settle closes the peer of a request before the response is queued, so that the handler cannot
// send a message after it.
func (a *Answerer) settle(j *job) {
	if j.asked == &j.own {
		if p := j.origin.peer().Load(); p != nil {
			p.settle()
		}
		return
	}
	// also a peer that the handler creates later from a retained request
	settlePeer(j.origin.peer())
}

// finish removes a request whose response is being sent.
func (a *Answerer) finish(j *job) {
	if r := j.run; r != nil {
		a.mu.Lock()
		a.unlist(r)
		a.mu.Unlock()
		r.endBy(&handlerReturned)
	}
	if len(j.origin.after) > 0 {
		a.runAfter(j)
	}
}

// runAfter runs the functions that the handler registered to run after its response.
func (a *Answerer) runAfter(j *job) {
	defer func() {
		if value := recover(); value != nil {
			_ = a.panicked(j.req.Method, value) // it is reported; the response has been sent
		}
	}()
	for _, f := range j.origin.after {
		f()
	}
}

// silent reports whether a request gets no response because its caller cancelled it and the
// protocol requires that.
func (a *Answerer) silent(r *running) bool {
	return a.Cancellation.Silent && r != nil && errors.Is(r.ended(), ErrPeerCancelled)
}

// outcome returns the error response for a handler's error.
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
	a.report(ReportHandler, &HandlerError{j.req.Method, err})
	if errors.Is(err, errManyWait) {
		return faultBusy
	}
	return ErrInternal
}

// appendError appends an error response, and returns the error that it contains. All error
// responses of an Answerer are made here, so that each of them is converted.
func (a *Answerer) appendError(dst []byte, v Version, id ID, e *Error) ([]byte, *Error) {
	e = a.converted(e)
	return AppendError(dst, v, id, e), e
}

// appendRefusal is appendError for req, whose handler is not run. For a notification it appends
// nothing.
func (a *Answerer) appendRefusal(dst []byte, req *Request, v Version, e *Error) ([]byte, *Error) {
	if req.IsNotification() {
		return dst, a.converted(e)
	}
	return a.appendError(dst, v, req.ID, e)
}

// panicked reports a panic and returns the error for the peer.
func (a *Answerer) panicked(method string, value any) *Error {
	p := &PanicError{Method: method, Value: value, Stack: debug.Stack(), Reference: panics.Add(1)}
	a.report(ReportPanic, p)
	return ErrInternal.WithData(struct {
		Reference int64 `json:"reference"`
	}{p.Reference})
}

// guarded calls f, and returns the error for the peer if f panics.
func (a *Answerer) guarded(method string, f func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = a.panicked(method, value)
		}
	}()
	return f()
}

// done marks a payload as completed.
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

// Drain responds to new requests with -31004 from now on and waits for the running ones. If ctx
// ends first, it cancels their contexts and returns ctx's cause.
func (a *Answerer) Drain(ctx context.Context) error {
	a.init()
	a.draining.Store(true)
	err := a.waitIdle(ctx)
	if err != nil {
		a.endAll(errStopping)
	}
	return err
}

// waitIdle waits until no payload is in progress. If ctx ends first, it returns ctx's cause.
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
