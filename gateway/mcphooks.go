package gateway

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// mcpHooks returns what protects servers from MCP calls: the checks, the breaker and the queue.
func (g *Gateway) mcpHooks() mcpHooks {
	return mcpHooks{
		enter: g.enterMCP,
		pins:  g.pins,
		filters: func() bool {
			p := g.state.Load().checks.policy
			return p != nil && len(p.rules) > 0
		},
		sees: func(ctx context.Context, a *mcpAccess) bool {
			s := g.state.Load()
			c := a.access()
			c.caller, c.members = callerOf(ctx), s.members[a.server]
			return s.checks.policy.visible(c)
		},
	}
}

// access returns what the policy knows of a call.
func (a *mcpAccess) access() *access {
	c := &access{server: a.server, method: a.method, params: a.params}
	if a.method == mcp.MethodToolsCall || a.method == mcp.MethodPromptsGet {
		c.tool, c.named = a.tool, true
		if a.exposed != a.tool {
			c.exposed = a.exposed
		}
		c.annotations = memberIn(a.text, "annotations")
	}
	return c
}

// enterMCP checks a call of MCP, and waits for its turn at its server.
func (g *Gateway) enterMCP(ctx context.Context, a *mcpAccess) (leave func(verdict, jsonrpc.Raw, error), err error) {
	s := g.enter()
	c := a.access()
	x := g.account(ctx, c, config.MCP, a.id)
	defer func() {
		if err != nil {
			x.end(0, err)
			s.leave()
		}
	}()
	if e := s.check(ctx, c); e != nil {
		x.deny(e)
		return nil, e
	}
	u := s.byName[a.server]
	if u == nil { // it was removed, and running sessions still know it
		return nil, unavailable(reasonUnreachable, a.server, false).error()
	}
	var tried memberSet
	l, err := u.alone.acquire(ctx, callInfo{principal: principal.Of(ctx), bytes: int64(len(a.params))}, &tried, true)
	if err != nil {
		return nil, answerOfCall(err)
	}
	x.sent("", 1, 0)
	return func(v verdict, result jsonrpc.Raw, err error) {
		now := time.Now()
		took := now.Sub(l.start)
		l.end(v, took, now)
		g.metrics.attempt(a.server, took)
		if ctx.Err() == nil && !isAnswer(err) {
			err = nil // it asks the client, and the next request goes on
		}
		x.endTool(result, err)
		s.leave()
	}, nil
}

// answerOfCall returns the error response for a call that was not sent.
func answerOfCall(err error) error {
	if e, ok := err.(*callError); ok { //nolint:errorlint // it is never wrapped
		return e.fault().error()
	}
	return err
}
