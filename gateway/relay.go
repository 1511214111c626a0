package gateway

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// The flow of a call of an MCP client:
//
//	mcpSet.Call                the owner of the name, and the params that the server gets
//	└─ mcpPart.relay           policy, limits, queue
//	   ├─ linkFor, acquire     the link: shared, or of the principal, the session or the call
//	   ├─ relayToModern        rounds: the server returns questions, the client is asked, again
//	   ├─ relayToLegacy        the server's requests become requests to the client
//	   └─ relayParked          a modern client of a legacy server: the call waits for its next request

// Call implements [mcp.Source].
func (s *mcpSet) Call(ctx context.Context, r *mcp.Request) (jsonrpc.Raw, error) {
	c := s.catalogFor(ctx)
	a := &mcpAccess{id: r.ID(), method: r.Method, exposed: r.Name, arguments: r.Arguments}
	params := r.Params()
	var o owner
	var ok bool
	switch r.Method {
	case mcp.MethodToolsCall:
		if o, ok = s.own(ctx, c, mcp.ListOfTools, r.Name); !ok {
			if server, waits := c.unapproved[mcp.ListOfTools][r.Name]; waits {
				return nil, pinFault(server)
			}
			return nil, unknownName("tool", r.Name)
		}
		a.text = o.entry.text
		params = withMember(params, "name", quoted(o.name))
	case mcp.MethodPromptsGet:
		if o, ok = s.own(ctx, c, mcp.ListOfPrompts, r.Name); !ok {
			if server, waits := c.unapproved[mcp.ListOfPrompts][r.Name]; waits {
				return nil, pinFault(server)
			}
			return nil, unknownName("prompt", r.Name)
		}
		params = withMember(params, "name", quoted(o.name))
	case mcp.MethodResourcesRead:
		if o, ok = s.ownResource(ctx, r, c, r.Name); !ok {
			return nil, mcp.NoResource()
		}
		params = withMember(params, "uri", quoted(o.name))
	case mcp.MethodComplete:
		if o, ok = s.ownReference(ctx, r, c, &params); !ok {
			return nil, unknownName("reference", r.Name)
		}
	default:
		return nil, jsonrpc.ErrMethodNotFound
	}
	a.server, a.tool, a.params = o.server.name, o.name, params
	raw, err := s.part.relay(ctx, r, o, a, params)
	if err != nil {
		return nil, err
	}
	switch r.Method {
	case mcp.MethodToolsCall:
		s.part.seen.note(seenOwner(ctx, r), o.server.name, raw)
	case mcp.MethodResourcesRead:
		if r.Name != o.name {
			raw = wrapContents(raw, o.server.name)
		}
	}
	return raw, nil
}

// ownReference returns the owner of the prompt or resource of completion/complete, and translates
// it in params.
func (s *mcpSet) ownReference(ctx context.Context, r *mcp.Request, c *catalog, params *jsonrpc.Raw) (o owner, ok bool) {
	ref := memberIn(*params, "ref")
	kind, _ := stringIn(memberIn(ref, "type"))
	if kind == mcp.RefPrompt {
		if o, ok = s.own(ctx, c, mcp.ListOfPrompts, r.Name); ok {
			*params = withMember(*params, "ref", withMember(ref, "name", quoted(o.name)))
		}
		return o, ok
	}
	if o, ok = s.own(ctx, c, mcp.ListOfTemplates, r.Name); !ok {
		o, ok = s.ownResource(ctx, r, c, r.Name)
	}
	if ok {
		*params = withMember(*params, "ref", withMember(ref, "uri", quoted(o.name)))
	}
	return o, ok
}

// wrapContents returns the result of reading a resource by the URI that names its server, with such
// URIs.
func wrapContents(raw jsonrpc.Raw, server string) jsonrpc.Raw {
	contents := []byte{'['}
	for one := range memberIn(raw, "contents").Elements() {
		if uri, ok := stringIn(memberIn(one, "uri")); ok {
			one = withMember(one, "uri", quoted(wrapURI(server, uri)))
		}
		if len(contents) > 1 {
			contents = append(contents, ',')
		}
		contents = append(contents, one...)
	}
	return withMember(raw, "contents", append(contents, ']'))
}

// relay passes a call on to its server.
func (p *mcpPart) relay(ctx context.Context, r *mcp.Request, o owner, a *mcpAccess, params jsonrpc.Raw) (raw jsonrpc.Raw, err error) {
	x := &exchange{part: p, r: r, owner: o, method: r.Method, params: params}
	if p.hooks.enter != nil {
		leave, refused := p.hooks.enter(ctx, a)
		if refused != nil {
			return nil, refused
		}
		defer func() { leave(x.verdict.load(), raw, err) }()
	}
	if x.params = withoutMember(params, "task"); r.Method != mcp.MethodToolsCall {
		x.params = params
	}
	if kept := r.Kept(keptRound); kept != nil {
		if id, ok := stringIn(memberIn(kept, "parked")); ok {
			return x.goOn(ctx, id, kept)
		}
	}
	key, caps := p.linkFor(ctx, r, o)
	if !o.offer.version.Modern() && r.Version().Modern() && key.scope == forOneCall {
		return x.park(ctx, key, caps)
	}
	l, err := p.pool.acquire(ctx, key, caps)
	if err != nil {
		return nil, x.notOpened(err)
	}
	defer p.pool.release(l)
	if l.client.Version().Modern() {
		return x.toModern(ctx, l, caps)
	}
	return x.toLegacy(ctx, l)
}

// notOpened returns the response to a call whose link could not be acquired.
func (x *exchange) notOpened(err error) error {
	if _, ok := errors.AsType[*openError](err); ok {
		x.verdict.store(verdictFailure)
	}
	return answerOf(err)
}

// answerOf returns the response to a call whose link could not be acquired.
func answerOf(err error) error {
	if opened, ok := errors.AsType[*openError](err); ok {
		return opened.answer
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	return err
}

// A sharedVerdict is a verdict that may be set on another goroutine.
type sharedVerdict struct{ v atomic.Uint32 }

func (s *sharedVerdict) store(v verdict) { s.v.Store(uint32(v)) }
func (s *sharedVerdict) load() verdict   { return verdict(s.v.Load()) }

// linkFor returns which link a call uses, and what its client can do.
func (p *mcpPart) linkFor(ctx context.Context, r *mcp.Request, o owner) (linkKey, mcp.ClientCapabilities) {
	caps := capabilitiesOf(r)
	key := linkKey{server: o.server}
	mode := o.server.entry.Upstream.Connection
	if mode == "" || mode == config.ConnectionAuto {
		if mode = config.ConnectionSession; o.offer.version.Modern() {
			mode = config.ConnectionShared
		}
	}
	if mode == config.ConnectionShared && o.server.personal {
		mode = config.ConnectionPrincipal
	}
	switch mode {
	case config.ConnectionShared:
		key.scope = forAll
	case config.ConnectionPrincipal:
		key.scope, key.principal = forPrincipal, principal.Of(ctx)
	default:
		key.principal = principal.Of(ctx)
		if n := r.Session(); n != nil && n.Version() != 0 {
			key.scope, key.session = forSession, n
			break
		}
		text, err := jsonrpc.AppendValue(nil, caps)
		if err != nil {
			text = nil // it is a type of package mcp, which can always be encoded
		}
		key.scope, key.caps = forOneCall, string(text)
	}
	if key.scope != forSession && key.scope != forOneCall && !o.offer.version.Modern() {
		return key, mcp.ClientCapabilities{} // there is no client that a question could go to
	}
	return key, caps
}

// capabilitiesOf returns what the gateway declares for the client of a request: what the client can
// be asked. It answers questions about nothing else, and has no tasks.
func capabilitiesOf(r *mcp.Request) mcp.ClientCapabilities {
	c, v := r.Capabilities(), r.Version()
	if c == nil {
		return mcp.ClientCapabilities{}
	}
	own := mcp.ClientCapabilities{Roots: c.Roots, Sampling: c.Sampling, Experimental: c.Experimental}
	if v.HasElicitation() {
		own.Elicitation = c.Elicitation
	}
	if own.Sampling != nil && !v.HasSamplingTools() {
		own.Sampling = &mcp.SamplingCapability{}
	}
	if len(c.Extensions) > 0 {
		if own.Extensions = maps.Clone(c.Extensions); own.Extensions[mcp.ExtensionTasks] != nil {
			delete(own.Extensions, mcp.ExtensionTasks)
		}
	}
	return own
}

// An exchange is one call of a client on its way to a server.
type exchange struct {
	part   *mcpPart
	r      *mcp.Request
	owner  owner
	method string
	params jsonrpc.Raw

	verdict sharedVerdict // what the call shows about the server
}

// keptRound is the key of what the next round of a call needs: what was asked, and either the
// requestState of a modern server or the ID of a parked call.
const keptRound = "round"

// maxRounds is how often a server may ask in one call.
const maxRounds = 16

// A keptState is stored, sealed, at the client between two rounds.
type keptState struct {
	Ask    map[string]mcp.InputRequest `json:"ask,omitzero"`
	State  jsonrpc.Raw                 `json:"state,omitzero"`
	Parked string                      `json:"parked,omitzero"`
}

// toModern calls a modern server, and asks the client what the server returns as questions.
func (x *exchange) toModern(ctx context.Context, l *mcpLink, caps mcp.ClientCapabilities) (jsonrpc.Raw, error) {
	o := x.invokeOptions(ctx)
	o.Capabilities = &caps
	o.LogLevel = x.r.LogLevel()
	if o.LogLevel == mcp.LevelNone && !x.r.Version().Modern() {
		o.LogLevel = mcp.LevelInfo // as legacy clients expect
	}
	var round keptState
	if kept := x.r.Kept(keptRound); kept != nil {
		if err := kept.Decode(&round); err != nil {
			return nil, err
		}
	}
	for range maxRounds {
		if round.Ask != nil || round.State != nil {
			answers, err := x.r.AskRaw(ctx, round.Ask)
			if err != nil {
				return nil, x.refused(err)
			}
			o.InputResponses, o.RequestState = answers, round.State
		}
		raw, err := x.invoke(ctx, l, o)
		if err != nil {
			return nil, err
		}
		asks, err := mcp.ParseInputRequired(raw)
		if err != nil {
			return nil, x.failed(ctx, jsonrpcBad(err))
		}
		if asks == nil {
			return raw, nil
		}
		round = keptState{Ask: asks.InputRequests, State: asks.RequestState}
		kept, err := jsonrpc.AppendValue(nil, round)
		if err != nil {
			return nil, err
		}
		x.r.Keep(keptRound, kept) // before asking: it may end this run
	}
	return nil, unavailable(reasonBadAnswer, x.owner.server.name, false).error()
}

// jsonrpcBad marks an error as the fault of the server's answer.
func jsonrpcBad(err error) error { return errors.Join(jsonrpc.ErrBadResponse, err) }

// refused returns the response to a call whose client could not answer. A client that refuses one
// question gets its own error as the outcome of the call.
func (x *exchange) refused(err error) error {
	if answer, ok := errors.AsType[*mcp.AnswerError](err); ok {
		if e, ok := errors.AsType[*jsonrpc.Error](answer.Err); ok {
			return e
		}
	}
	return err
}

// toLegacy calls a legacy server on a link that belongs to the client. What the server asks
// meanwhile is asked on the stream of the client's request.
func (x *exchange) toLegacy(ctx context.Context, l *mcpLink) (jsonrpc.Raw, error) {
	l.setLevel(ctx, x.r.LogLevel())
	patience := newPatience(x.owner.server.timeout())
	call := &linkCall{
		ask: func(asking context.Context, in mcp.InputRequest) (jsonrpc.Raw, error) {
			defer patience.hold()()
			return x.askClient(asking, in)
		},
		log: func(p *mcp.LogParams) { x.log(ctx, x.r, p) },
	}
	defer l.begin(call)()
	return x.invokeWith(context.WithValue(ctx, linkCallKey{}, call), l, x.invokeOptions(ctx), patience)
}

// askClient asks a client of the legacy era one question.
func (x *exchange) askClient(ctx context.Context, in mcp.InputRequest) (jsonrpc.Raw, error) {
	answers, err := x.r.AskRaw(ctx, map[string]mcp.InputRequest{"q": in})
	if err == nil {
		return answers["q"], nil
	}
	if answer, ok := errors.AsType[*mcp.AnswerError](err); ok {
		if e, ok := errors.AsType[*jsonrpc.Error](answer.Err); ok {
			return nil, e
		}
	}
	if _, ok := errors.AsType[*mcp.CapabilityError](err); ok {
		return nil, jsonrpc.ErrMethodNotFound
	}
	return nil, err
}

// invokeOptions returns the options of a call: progress and log messages go to the client.
func (x *exchange) invokeOptions(ctx context.Context) *mcp.InvokeOptions {
	o := &mcp.InvokeOptions{Log: func(p *mcp.LogParams) { x.log(ctx, x.r, p) }, Meta: traceOf(x.r)}
	if x.owner.entry != nil && x.r.Method == mcp.MethodToolsCall {
		o.Headers = x.owner.entry.headers
	}
	if x.r.WantsProgress() {
		o.Progress = func(p mcp.Progress) { x.progress(ctx, x.r, p) }
	}
	return o
}

// traceOf returns the trace context of a request, which a server gets unchanged.
func traceOf(r *mcp.Request) mcp.Meta {
	var m mcp.Meta
	for _, key := range []string{mcp.MetaTraceparent, mcp.MetaTracestate, mcp.MetaBaggage} {
		if value, ok := r.Meta()[key]; ok {
			if m == nil {
				m = mcp.Meta{}
			}
			m[key] = value
		}
	}
	return m
}

func (x *exchange) progress(ctx context.Context, r *mcp.Request, p mcp.Progress) {
	_ = r.Progress(ctx, p.Progress, p.Total, p.Message) // the caller is gone, which ends the call
}

func (x *exchange) log(ctx context.Context, r *mcp.Request, p *mcp.LogParams) {
	p = x.owner.server.renamedLog(p)
	_ = r.Log(ctx, p.Level, p.Logger, p.Data) // likewise
}

// invoke calls the server within the time of a call.
func (x *exchange) invoke(ctx context.Context, l *mcpLink, o *mcp.InvokeOptions) (jsonrpc.Raw, error) {
	return x.invokeWith(ctx, l, o, newPatience(x.owner.server.timeout()))
}

func (x *exchange) invokeWith(ctx context.Context, l *mcpLink, o *mcp.InvokeOptions, p *patience) (jsonrpc.Raw, error) {
	ctx, stop := p.start(ctx)
	defer stop()
	if progress := o.Progress; progress != nil {
		o.Progress = func(n mcp.Progress) {
			p.renew()
			progress(n)
		}
		defer func() { o.Progress = progress }()
	}
	raw, err := x.send(ctx, l, o)
	if err != nil {
		return nil, x.failed(ctx, err)
	}
	x.verdict.store(verdictSuccess)
	return raw, nil
}

// send sends the call. A tool of 2025-11-25 that must be called as a task is called so, and its
// result is waited for: clients see no tasks.
func (x *exchange) send(ctx context.Context, l *mcpLink, o *mcp.InvokeOptions) (jsonrpc.Raw, error) {
	if x.owner.entry == nil || !x.owner.entry.asTask || !l.client.Version().HasCoreTasks() {
		return l.client.Invoke(ctx, x.method, x.params, o)
	}
	params := append(bytes.Clone(x.params[:len(x.params)-1]), `,"task":{"ttl":600000}}`...)
	raw, err := l.client.Invoke(ctx, x.method, params, o)
	if err != nil {
		return nil, err
	}
	id := memberIn(memberIn(raw, "task"), "taskId")
	if id == nil {
		return raw, nil // it has answered at once
	}
	task := jsonrpc.Raw(`{"taskId":` + string(id) + `}`)
	raw, err = l.client.Invoke(ctx, mcp.MethodTasksResult, task, nil)
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer cancel()
		_, _ = l.client.Invoke(last, mcp.MethodTasksCancel, task, nil) // nothing more can be done
	}
	return raw, err
}

// cancelTime bounds the cancellation of a task at a server.
const cancelTime = 2 * time.Second

// failed returns the response to a call that a server did not complete.
func (x *exchange) failed(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && cause == nil {
		x.verdict.store(verdictSuccess)
		if e.Code == mcp.CodeResourceNotFound && x.method == mcp.MethodResourcesRead {
			return mcp.NoResource()
		}
		return e
	}
	server := x.owner.server.name
	if cause != nil && !errors.Is(cause, jsonrpc.ErrTimeout) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause // the caller has gone
	}
	if _, ok := errors.AsType[*streamable.SessionError](err); ok && cause == nil {
		return unavailable(reasonSessionLost, server, true).error()
	}
	x.verdict.store(verdictFailure)
	switch {
	case cause != nil:
		return newFault(jsonrpc.CodeDeadline, "Deadline exceeded", reasonTimeout, server, true).error()
	case errors.Is(err, jsonrpc.ErrTooLarge):
		x.verdict.store(verdictSuccess) // it has responded
	case errors.Is(err, mcp.ErrUnknownResult), errors.Is(err, mcp.ErrTooManyRounds):
		err = jsonrpcBad(err)
	}
	return faultOf(server, err).error()
}

// A patience is the time of a call. It is suspended while the client answers a question, and begins
// again with each progress.
type patience struct {
	time time.Duration

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	held  int
}

func newPatience(d time.Duration) *patience { return &patience{time: d} }

// start returns a context that ends with errTimeout when the time has passed.
func (p *patience) start(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.time, func() { cancel(errTimeout) })
	return ctx, func() {
		p.mu.Lock()
		p.timer.Stop()
		p.mu.Unlock()
		cancel(nil)
	}
}

func (p *patience) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && p.held == 0 && p.timer.Stop() {
		p.timer.Reset(p.time)
	}
}

// hold suspends the time until the returned function is called.
func (p *patience) hold() (goOn func()) {
	p.mu.Lock()
	p.held++
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held--; p.held == 0 && p.timer != nil {
			p.timer.Reset(p.time)
		}
	}
}

// park begins a call of a modern client at a legacy server.
func (x *exchange) park(ctx context.Context, key linkKey, caps mcp.ClientCapabilities) (jsonrpc.Raw, error) {
	trace, wantsProgress := traceOf(x.r), x.r.WantsProgress()
	c, err := x.part.parked.begin(ctx, key.principal, x.r, x.part.pool.run, func(own context.Context, c *parkedCall) (jsonrpc.Raw, error) {
		l, err := x.part.pool.acquire(own, key, caps)
		if err != nil {
			return nil, x.notOpened(err)
		}
		defer x.part.pool.release(l)
		patience := newPatience(x.owner.server.timeout())
		call := &linkCall{
			ask: func(asking context.Context, in mcp.InputRequest) (jsonrpc.Raw, error) {
				defer patience.hold()()
				return c.ask(asking, in)
			},
			log: func(p *mcp.LogParams) {
				if r := c.request.Load(); r != nil {
					x.log(own, r, p)
				}
			},
		}
		defer l.begin(call)()
		o := &mcp.InvokeOptions{Log: call.log, Meta: trace}
		if wantsProgress {
			o.Progress = func(p mcp.Progress) {
				if r := c.request.Load(); r != nil {
					x.progress(own, r, p)
				}
			}
		}
		own = context.WithValue(own, linkCallKey{}, call)
		raw, err := x.invokeWith(own, l, o, patience)
		if visits := visitsOf(err); len(visits) > 0 && c.visit(own, visits) {
			return x.invokeWith(own, l, o, patience)
		}
		return raw, err
	})
	if err != nil {
		return nil, err
	}
	return x.attend(ctx, c)
}

// visitsOf returns the URLs that a user must visit before a server of 2025-11-25 accepts a call, as
// questions. A modern client has no such error.
func visitsOf(err error) (questions []mcp.InputRequest) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != mcp.CodeURLElicitation {
		return nil
	}
	for in := range memberIn(e.Data, "elicitations").Elements() {
		if len(questions) == maxOpenQuestions {
			return nil
		}
		questions = append(questions, mcp.InputRequest{Method: mcp.MethodElicit, Params: in.Clone()})
	}
	return questions
}

// visit asks the client to visit URLs, and reports whether the user has agreed to all.
func (c *parkedCall) visit(ctx context.Context, questions []mcp.InputRequest) bool {
	for _, in := range questions {
		raw, err := c.ask(ctx, in)
		if action, _ := stringIn(memberIn(raw, "action")); err != nil || action != mcp.ActionAccept {
			return false
		}
	}
	return true
}

// goOn continues a parked call with the answers of the client.
func (x *exchange) goOn(ctx context.Context, id string, kept jsonrpc.Raw) (jsonrpc.Raw, error) {
	var round keptState
	if err := kept.Decode(&round); err != nil {
		return nil, err
	}
	answers, err := x.r.AskRaw(ctx, round.Ask)
	if err != nil {
		return nil, err
	}
	c := x.part.parked.find(id, principal.Of(ctx), x.r)
	if c == nil {
		return nil, errCallLost(x.owner.server.name)
	}
	if !c.answer(answers) {
		c.leave()
		return nil, errCallLost(x.owner.server.name)
	}
	return x.attend(ctx, c)
}

// attend waits for the result of a parked call, or for its next questions. The request must be the
// one that waits for the call.
func (x *exchange) attend(ctx context.Context, c *parkedCall) (jsonrpc.Raw, error) {
	defer c.leave()
	for {
		select {
		case <-c.done:
			return c.raw, c.err
		case <-c.asked:
			asks := c.questions()
			if len(asks) == 0 {
				continue // the server has withdrawn them
			}
			kept, err := jsonrpc.AppendValue(nil, keptState{Ask: asks, Parked: c.id})
			if err != nil {
				return nil, err
			}
			x.r.Keep(keptRound, kept) // before asking, which ends this run
			answers, err := x.r.AskRaw(ctx, asks)
			if err != nil {
				if _, lacks := errors.AsType[*mcp.CapabilityError](err); lacks {
					c.cancel(jsonrpc.ErrCancelled)
				}
				return nil, err
			}
			c.answer(answers)
		case <-ctx.Done():
			c.cancel(context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
	}
}
