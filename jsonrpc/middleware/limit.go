package middleware

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Budget bounds a set of methods together. The zero value bounds nothing.
type Budget struct {
	// Methods share the budget. If empty, all methods share it, including unknown ones.
	Methods []string

	// Running bounds the requests that run at once. Zero means no bound.
	Running int

	// PerSecond bounds the rate of requests. Zero means no bound.
	PerSecond float64

	// Burst is how many requests may arrive at once after a pause. Zero means as many as in one
	// second, at least one.
	Burst int
}

// Limit refuses requests that exceed any of the budgets, immediately, with [jsonrpc.CodeBusy] and a
// [jsonrpc.FaultData]: its reason is "busy" for too many running requests or "rate" for too many
// per second, and retryAfterMs is when to try again. A refused request uses no budget. Refused
// notifications are dropped, because they have no response.
//
// All handlers wrapped by one returned Middleware share the budgets. In a batch each request
// counts.
func Limit(budgets ...Budget) jsonrpc.Middleware {
	gates := make([]*gate, 0, len(budgets))
	for _, b := range budgets {
		gates = append(gates, newGate(b))
	}
	return func(next jsonrpc.Handler) jsonrpc.Handler {
		return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
			leave, refused := enter(gates, req.Method)
			if refused != nil {
				return nil, refused
			}
			defer leave()
			return next.Handle(ctx, req)
		})
	}
}

// busyRetry estimates when a running request will have finished; the engine uses the same value.
const busyRetry = 100 * time.Millisecond

type gate struct {
	methods []string
	max     int64
	running atomic.Int64
	rate    *rate.Limiter // nil for no bound
}

func newGate(b Budget) *gate {
	g := &gate{methods: slices.Clone(b.Methods), max: int64(b.Running)}
	if b.PerSecond > 0 {
		burst := b.Burst
		if burst <= 0 {
			burst = int(min(max(math.Ceil(b.PerSecond), 1), math.MaxInt32))
		}
		g.rate = rate.NewLimiter(rate.Limit(b.PerSecond), burst)
	}
	return g
}

func (g *gate) covers(method string) bool {
	return len(g.methods) == 0 || slices.Contains(g.methods, method)
}

// start takes a place if there is a free one. It does not increment and decrement again, because
// other requests would be refused in between.
func (g *gate) start() bool {
	for {
		n := g.running.Load()
		if n >= g.max {
			return false
		}
		if g.running.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// enter passes all gates or none. It checks places before rates, so that little has to be returned.
func enter(gates []*gate, method string) (leave func(), refused *jsonrpc.Error) {
	held := make([]*gate, 0, len(gates))
	leave = func() {
		for _, g := range held {
			g.running.Add(-1)
		}
	}
	for _, g := range gates {
		if g.max <= 0 || !g.covers(method) {
			continue
		}
		if !g.start() {
			leave()
			return nil, busy("busy", busyRetry)
		}
		held = append(held, g)
	}
	now := time.Now()
	taken := make([]*rate.Reservation, 0, len(gates))
	for _, g := range gates {
		if g.rate == nil || !g.covers(method) {
			continue
		}
		r := g.rate.ReserveN(now, 1)
		taken = append(taken, r)
		if wait := r.DelayFrom(now); wait > 0 {
			for _, r := range slices.Backward(taken) {
				r.CancelAt(now)
			}
			leave()
			return nil, busy("rate", wait)
		}
	}
	return leave, nil
}

func busy(reason string, wait time.Duration) *jsonrpc.Error {
	ms := int64((wait + time.Millisecond - 1) / time.Millisecond)
	return jsonrpc.NewError(jsonrpc.CodeBusy, "Busy").
		WithData(jsonrpc.FaultData{Reason: reason, Retryable: true, RetryAfterMs: ms})
}
