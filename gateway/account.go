package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// An account is one call of a client, from its arrival to its response: a line of the audit log,
// and a value of the metrics. Its methods are safe for concurrent use, and have no effect on a nil
// account.
type account struct {
	gateway *Gateway

	mu       sync.Mutex // guards the fields below
	entry    auditEntry
	ended    bool
	rejected bool // by a check

	toolError bool // a tool of MCP says that it failed
}

// account begins the account of a call. end or rejectedBy ends it.
func (g *Gateway) account(ctx context.Context, a *access, protocol string, id jsonrpc.ID) *account {
	x := &account{gateway: g, entry: auditEntry{
		time: time.Now(), request: id, protocol: protocol, server: a.server, method: a.method, tool: a.tool,
		principal: principal.Of(ctx), params: a.params, bytesIn: int64(len(a.params)), trace: traceIDIn(ctx, a.params),
	}}
	if x.entry.principal == "" {
		x.entry.principal = localName
	}
	x.entry.address = parley.RemoteAddr(ctx)
	return x
}

// deny ends the account of a call that a check has rejected.
func (x *account) deny(e *jsonrpc.Error) {
	if e.Code == jsonrpc.CodeBusy {
		x.gateway.metrics.limited.add(1, x.entry.server)
	}
	x.rejected = true
	x.end(0, e)
}

// sent adds attempts of the call, of which some are hedges. upstream is the one that responded, or
// "".
func (x *account) sent(upstream string, attempts, hedges int) {
	if x == nil || attempts == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	again := attempts - hedges - 1
	if x.entry.attempts > 0 {
		again++
	}
	x.entry.attempts += attempts
	if upstream != "" {
		x.entry.server = upstream
	}
	if hedges > 0 {
		x.gateway.metrics.hedges.add(uint64(hedges), x.entry.server)
	}
	if again > 0 {
		x.gateway.metrics.retries.add(uint64(again), x.entry.server)
	}
}

// endTool is end for a call of MCP: a result may say that the tool failed.
func (x *account) endTool(result jsonrpc.Raw, err error) {
	x.mu.Lock()
	x.toolError = err == nil && string(memberIn(result, "isError")) == "true"
	x.mu.Unlock()
	x.end(len(result), err)
}

// end ends the account; a second call has no effect. bytes is the length of the result. err is nil,
// an *Error, or the cause of the end of the caller's context.
func (x *account) end(bytes int, err error) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return
	}
	x.ended = true
	e := &x.entry
	e.duration, e.bytesOut, e.outcome = time.Since(e.time), int64(bytes), outcomeOK
	if err != nil {
		e.outcome = outcomeError
		if answer, ok := errors.AsType[*jsonrpc.Error](err); ok {
			e.code = answer.Code
		} else {
			e.code, e.outcome = jsonrpc.CodeCancelled, outcomeCancelled
		}
	}
	switch {
	case x.rejected:
		e.outcome = outcomeDenied
	case x.toolError:
		e.outcome = outcomeToolError
	}
	g := x.gateway
	g.metrics.request(e.server, e.protocol, g.metrics.method(e.protocol, e.method), e.outcome, e.duration)
	if g.audit != nil {
		g.audit.record(e)
	}
}

// collect sets the gauges of the metrics.
func (g *Gateway) collect(to *gauges) {
	s := g.enter()
	defer s.leave()
	m := g.metrics
	for _, u := range s.upstreams {
		status := u.status()
		to.set(m.state, 1, status.Name, status.State)
		to.set(m.inflight, float64(status.Inflight), status.Name)
		to.set(m.queue, float64(status.Waiting), status.Name)
	}
}
