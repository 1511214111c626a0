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

// A Budget bounds some methods together. The zero value bounds nothing.
type Budget struct {
	// Methods share the budget. None: all methods do, also unknown ones.
	Methods []string

	// Running bounds the requests that run at once. Zero: no bound.
	Running int

	// PerSecond bounds the rate of requests. Zero: no bound.
	PerSecond float64

	// Burst is how many may come at once after a pause. Zero: as many as in one second, at least one.
	Burst int
}

// Limit refuses what is over any of the budgets, at once, with [jsonrpc.CodeBusy] and a [jsonrpc.FaultData]: reason "busy" for
// too many running, "rate" for too many per second, and in retryAfterMs when to try again. A refused request costs no
// budget. Refused notifications are dropped: nobody waits for an answer.
//
// All handlers that one returned Middleware wraps share the budgets. A batch counts each of its requests.
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

// busyRetry is when a place may be free again: a guess, the engine's own.
const busyRetry = 100 * time.Millisecond

type gate struct {
	methods []string
	max     int64
	running atomic.Int64
	rate    *rate.Limiter // nil: no bound
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

// start takes a place if there is one. Counting up first and back down would refuse others in between.
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

// enter passes all gates or none. Places come before rates, so that little has to be given back.
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
