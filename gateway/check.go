package gateway

import (
	"context"
	"reflect"
	"slices"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/a2a"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/glob"
	"github.com/da1ed7bb/parley/internal/x/principal"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// checks are the policy and the rate limits of one configuration.
type checks struct {
	policy  *policy
	limits  []config.Limit
	limiter *limiter
}

// newChecks compiles the checks. The buckets of old remain if its limits are the same.
func newChecks(g *config.Gateway, old *checks) (*checks, error) {
	p, err := newPolicy(g.Policy)
	if err != nil {
		return nil, err
	}
	c := &checks{policy: p, limits: g.Limits}
	if old != nil && sameLimits(old.limits, g.Limits) {
		c.limiter = old.limiter
		return c, nil
	}
	rates := make([]limitRate, len(g.Limits))
	for i, l := range g.Limits {
		rates[i] = limitRate{Count: l.Rate.Count, Per: l.Rate.Per, Burst: l.Burst}
	}
	c.limiter = newLimiter(rates, max(g.Replicas, 1))
	return c, nil
}

func sameLimits(a, b []config.Limit) bool {
	return slices.EqualFunc(a, b, func(x, y config.Limit) bool {
		x.Line, x.Column, y.Line, y.Column = 0, 0, 0, 0
		return reflect.DeepEqual(x, y)
	})
}

// check returns why a call is rejected, or nil. Every call of a client passes it once, before
// anything is sent: first the policy, then the rate limits. A caller that may not know of a method
// gets the error for one that does not exist.
func (s *state) check(ctx context.Context, a *access) *jsonrpc.Error {
	a.caller, a.address = s.identity.current(callerOf(ctx)), parley.RemoteAddr(ctx)
	if a.caller == nil { // its token was valid when the connection began
		return newFault(jsonrpc.CodeUnauthorized, "Unauthenticated", "invalid_token", "", false).error()
	}
	a.members = s.members[a.server]
	if !s.offers(a) {
		return notThere(a)
	}
	if u := s.byName[a.server]; u != nil && u.entry.Protocol == config.A2A && !u.entry.Upstream.DirectPush && asksForPush(a) {
		return a2a.ErrPushNotSupported
	}
	if v := s.checks.policy.decide(a); !v.allowed {
		if v.err == nil && !s.checks.policy.visible(a) {
			return notThere(a)
		}
		return newFault(jsonrpc.CodeDenied, "Denied by policy", "denied", a.server, false).error()
	}
	return s.checks.limit(ctx, a)
}

// offers reports whether the settings of the server let its tool be called.
func (s *state) offers(a *access) bool {
	if a.tool == "" || a.method != "tools/call" {
		return true
	}
	u := s.byName[a.server]
	if u == nil {
		return true
	}
	o := &u.entry.Upstream
	return (o.AllowTools == nil || glob.Any(o.AllowTools, a.tool)) && !glob.Any(o.DenyTools, a.tool)
}

// notThere is the error for a method or tool that does not exist.
func notThere(a *access) *jsonrpc.Error {
	if a.tool != "" {
		return jsonrpc.NewError(jsonrpc.CodeInvalidParams, "Unknown tool")
	}
	return jsonrpc.ErrMethodNotFound
}

// limit takes one token of each limit that applies to the call.
func (c *checks) limit(ctx context.Context, a *access) *jsonrpc.Error {
	if len(c.limits) == 0 {
		return nil
	}
	var few [8]charge
	charges := few[:0]
	for i := range c.limits {
		l := &c.limits[i]
		s := selector{l.Principal, l.Group, l.Server, l.Method, l.Tool}
		if !s.selects(a, true) {
			continue
		}
		charge := charge{rule: i, subject: principal.Of(ctx)}
		if l.PerServer {
			charge.subject = a.server
		}
		switch {
		case l.Tool != nil:
			charge.name = a.server + "\x00" + a.tool
		case l.Method != nil:
			charge.name = a.method
		}
		charges = append(charges, charge)
	}
	if len(charges) == 0 {
		return nil
	}
	wait, over := c.limiter.take(charges, time.Now())
	if over < 0 {
		return nil
	}
	f := newFault(jsonrpc.CodeBusy, "Busy", reasonRateLimited, "", true)
	f.data.RetryAfterMs = retryMs(wait)
	return f.error()
}
