package gateway

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// hedgeAfter returns how long the first attempt of a call may take before a second one begins, and
// whether there may be one.
func (g *group[T]) hedgeAfter(o *callRules, c callInfo) (time.Duration, bool) {
	if !o.Hedge || !c.idempotent || len(g.members) < 2 {
		return 0, false
	}
	if o.HedgeAfter > 0 {
		return max(o.HedgeAfter, o.HedgeMin), true
	}
	q := o.HedgeQuantile
	if q <= 0 || q > 1 {
		q = defaultQuantile
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.recent.count < hedgeKnown {
		return 0, false
	}
	if g.stale >= hedgeStale || len(g.sorted) < hedgeKnown {
		g.sorted, g.stale = g.recent.sorted(g.sorted[:0]), 0
	}
	return max(quantile(g.sorted, q), o.HedgeMin), true
}

// record adds the latency of an attempt with a response to those that the quantile is computed
// from.
func (g *group[T]) record(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.recent.add(took)
	g.stale++
}

// race runs an attempt on the member of first, and another one on a different member if the first
// has not ended after some time. It returns the first response and cancels the other attempt; if
// neither responds, it returns the outcome of the attempt that ended last.
func race[T, R any](ctx context.Context, g *group[T], o *callRules, c callInfo, first lease[T], after time.Duration, d *delivery[R],
	attempt func(context.Context, *member[T]) outcome[R]) (outcome[R], lease[T]) {
	type arrival struct {
		out    outcome[R]
		l      lease[T]
		hedged bool
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the loser
	arrivals := make(chan arrival, 2)
	begin := func(l lease[T], hedged bool) {
		d.attempts++
		g.losers.Go(func() {
			a := arrival{outcome[R]{kind: failed}, l, hedged}
			if err := rescue.Run(g.report, func() { a.out = run(ctx, g, o, l, attempt) }); err != nil {
				a.out.err = err
			}
			arrivals <- a
		})
	}
	begin(first, false)
	timer := time.NewTimer(after)
	defer timer.Stop()
	running := 1
	for {
		select {
		case <-timer.C:
			var tried memberSet
			tried.add(first.index)
			now := time.Now()
			if ctx.Err() != nil || !g.another(now, &tried) || !g.hedges.take(now) {
				continue
			}
			if l, err := g.acquire(ctx, c, &tried, false); err == nil {
				g.hedged.Add(1)
				d.hedges++
				running++
				begin(l, true)
			}
		case a := <-arrivals:
			if running--; a.out.kind != answered && running > 0 {
				continue // the other attempt may still succeed
			}
			if a.hedged && a.out.kind == answered {
				g.hedgesWon.Add(1)
			}
			return a.out, a.l
		}
	}
}
