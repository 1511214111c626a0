package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/glob"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// A router passes JSON-RPC requests to the upstreams of their methods. It is the Handler of the
// endpoint /rpc, and that of a single server.
type router struct {
	gateway *Gateway
	only    *route // for all methods, in place of the configured routes; usually nil
}

// A route is a route of the configuration with its upstreams.
type route struct {
	config.Route
	to    *group[*upstream]
	rules callRules
}

// newRoute returns a route to a group.
func newRoute(r config.Route, to *group[*upstream]) *route {
	rules := callRules{Timeout: r.Timeout, Attempts: max(r.Attempts, 1), Backoff: r.Backoff}
	if rules.Timeout <= 0 {
		rules.Timeout = to.members[0].value.timeout()
	}
	if h := r.Hedge; h != nil {
		rules.Hedge, rules.HedgeAfter, rules.HedgeQuantile, rules.HedgeMin = true, h.After, h.Quantile, h.Min
	}
	return &route{Route: r, to: to, rules: rules}
}

// A passage is a request that passed all checks, and where it goes.
type passage struct {
	route     *route
	req       *jsonrpc.Request
	method    string // as the upstream knows it
	principal string
	account   *account // nil for a call on behalf of several callers
}

// pass checks a request, and finds its route. The error is the response.
func (r router) pass(ctx context.Context, s *state, req *jsonrpc.Request) (passage, *jsonrpc.Error) {
	to := r.only
	if to == nil {
		to = s.routeOf(req.Method)
	}
	if to == nil {
		return passage{}, jsonrpc.ErrMethodNotFound
	}
	a := &access{server: to.To, method: req.Method, params: req.Params}
	x := r.gateway.account(ctx, a, config.JSONRPC, req.ID)
	if e := s.check(ctx, a); e != nil {
		x.deny(e)
		return passage{}, e
	}
	return passage{route: to, req: req, method: strings.TrimPrefix(req.Method, to.Strip), principal: principal.Of(ctx), account: x}, nil
}

// routeOf returns the first route that matches a method, or nil.
func (s *state) routeOf(method string) *route {
	for _, r := range s.routes {
		if glob.Any(r.Method, method) {
			return r
		}
	}
	return nil
}

// Handle passes on one request or notification.
func (r router) Handle(ctx context.Context, req *jsonrpc.Request) (any, error) {
	s := r.gateway.enter()
	defer s.leave()
	if r.only == nil && r.gateway.controls(s, req.Method) {
		return r.gateway.control.Handle(ctx, req)
	}
	p, e := r.pass(ctx, s, req)
	if e != nil {
		return nil, e
	}
	result, err := r.send(ctx, &p, req.Peer())
	p.account.end(len(result), err)
	return r.result(result, err)
}

// result returns what a Handler returns: a Raw as any, without one that holds nil.
func (r router) result(result jsonrpc.Raw, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return result, nil
}

// send sends a request to a member of its group, with retries and hedges as its route permits.
// peer gets the notifications about the call; it may be nil. The error is the response: an error
// of the upstream passes unchanged.
func (r router) send(ctx context.Context, p *passage, peer jsonrpc.Peer) (jsonrpc.Raw, error) {
	key, ok := p.cacheKey()
	if !ok {
		return r.dispatch(ctx, p, peer)
	}
	if result, ok := r.gateway.cache.get(key); ok {
		r.gateway.metrics.cache.add(1, p.route.To, cacheHit.String())
		return result, nil
	}
	c := p.route.Cache
	if c.Coalesce { // the call may outlive this request
		p = p.clone()
		p.account = nil
	}
	result, use, err := r.gateway.cache.do(ctx, key, c.TTL, c.Coalesce, func(ctx context.Context) (jsonrpc.Raw, error) {
		return r.dispatch(ctx, p, peer)
	})
	r.gateway.metrics.cache.add(1, p.route.To, use.String())
	return result, err
}

// cacheKey returns the key of the request in the cache. It reports false if its result is not
// stored.
func (p *passage) cacheKey() (cacheKey, bool) {
	c := p.route.Cache
	if c == nil || p.req.IsNotification() || !glob.Any(c.Methods, p.req.Method) {
		return cacheKey{}, false
	}
	owner := p.principal
	if c.Shared {
		owner = ""
	}
	return cacheKeyOf(p.route.to.cacheName, p.method, owner, p.req.Params)
}

// clone returns a passage that remains valid after the handler has returned.
func (p *passage) clone() *passage {
	own := *p
	own.req = p.req.Clone()
	return &own
}

// A reply is what an upstream responded: one of its members is set.
type reply struct {
	result jsonrpc.Raw
	err    *jsonrpc.Error
}

func (r router) dispatch(ctx context.Context, p *passage, peer jsonrpc.Peer) (jsonrpc.Raw, error) {
	info := p.info()
	if p.route.rules.Hedge && info.idempotent { // the slower attempt may outlive this request
		p = p.clone()
	}
	req := p.req
	// the attempt whose notifications pass on, by its result
	var speaker atomic.Pointer[jsonrpc.Raw]
	d, err := dispatch(ctx, p.route.to, &p.route.rules, info, func(ctx context.Context, m *member[*upstream]) outcome[reply] {
		result := new(jsonrpc.Raw)
		item := jsonrpc.Item{Method: p.method, Params: rawOrNil(req.Params), Notify: req.IsNotification()}
		if !item.Notify {
			item.Result = result
		}
		if peer != nil && !item.Notify {
			item.On = func(n *jsonrpc.Request) error {
				if speaker.CompareAndSwap(nil, result) || speaker.Load() == result {
					// the client cannot receive it, or has left
					_ = peer.Notify(ctx, n.Method, rawOrNil(n.Params))
				}
				return nil
			}
		}
		defer r.gateway.metrics.attempted(m.name, time.Now())
		err := m.value.do(ctx, &item)
		if p.route.to.isDeclined(err) {
			return outcome[reply]{kind: notSent, err: err}
		}
		return outcomeOf(m.name, err, result)
	})
	p.account.sent(d.upstream, d.attempts, d.hedges)
	if err == nil {
		if d.value.err != nil {
			return nil, d.value.err
		}
		return d.value.result, nil
	}
	return nil, r.failed(p, err)
}

// info describes the call for the choice of its member and for the queue.
func (p *passage) info() callInfo {
	return callInfo{
		principal: p.principal, bytes: int64(len(p.req.Params)),
		idempotent: !p.req.IsNotification() && glob.Any(p.route.Idempotent, p.req.Method),
	}
}

// isDeclined reports whether an upstream has rejected a call because it stops, and another one
// could run it: CodeShuttingDown says that the call was not run.
func (g *group[T]) isDeclined(err error) bool {
	return len(g.members) > 1 && errors.Is(err, errStops)
}

var errStops = &jsonrpc.Error{Code: jsonrpc.CodeShuttingDown}

// outcomeOf classifies the end of an attempt. result is that of a call without an error.
func outcomeOf(name string, err error, result *jsonrpc.Raw) outcome[reply] {
	if err == nil {
		return outcome[reply]{value: reply{result: *result}}
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return outcome[reply]{value: reply{err: e}}
	}
	if errors.Is(err, jsonrpc.ErrTooLarge) || isRejection(err) { // the upstream has responded
		return outcome[reply]{value: reply{err: faultOf(name, err).error()}}
	}
	if status, ok := errors.AsType[*httprpc.StatusError](err); ok {
		wait := retryAfter(status.Header, time.Now())
		if status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable && wait > 0 {
			return outcome[reply]{kind: paused, err: err, retryAfter: wait}
		}
	}
	if jsonrpc.NotSent(err) {
		return outcome[reply]{kind: notSent, err: err}
	}
	return outcome[reply]{kind: failed, err: err}
}

// isRejection reports whether the HTTP layer of an upstream rejected a request for what the client
// sent. That is not a failure: one client must not open the breaker for the others.
func isRejection(err error) bool {
	e, ok := errors.AsType[*httprpc.StatusError](err)
	if !ok {
		return false
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// failed returns the error response for a call that no upstream has responded to.
func (r router) failed(p *passage, err error) error {
	e, ok := errors.AsType[*callError](err)
	if !ok {
		return err // the caller has left
	}
	if p.req.IsNotification() {
		r.gateway.report(ReportUndelivered, fmt.Errorf("notification %s: %w", p.req.Method, err))
		return nil
	}
	return e.fault().error()
}

// rawOrNil returns params as a value: nil without params.
func rawOrNil(params jsonrpc.Raw) any {
	if params == nil {
		return nil
	}
	return params
}
