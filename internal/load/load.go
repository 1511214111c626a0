package load

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Options configure a Load.
type Options struct {
	// Callers is the number of calls at one time. With Rate it is a bound.
	Callers int

	// Rate is the number of calls per second: call n is due at a fixed time, and its duration
	// counts from then even if it was sent late. If zero, each caller calls again as soon as it has
	// its response.
	Rate float64

	// Ramp is the time in which the callers begin, or the rate rises from zero. Calls that begin in
	// it are not counted.
	Ramp time.Duration

	// Late bounds how long after a run calls are sent that are still due, with Rate. Later they are
	// not sent, and count as errors with the time since they were due. If zero, all are sent.
	Late time.Duration

	// Each is the number of calls of one Call. Zero means 1.
	Each int

	// Call makes one call, or one batch; caller is its number from 0. It returns the error of each
	// call.
	Call func(ctx context.Context, caller int) []error
}

// A Load has the results of its runs. It is safe for concurrent use.
type Load struct {
	Times Histogram

	opts   Options
	calls  atomic.Uint64
	counts atomic.Int64 // nanoseconds of the runs, without ramps

	mu     sync.Mutex // guards errors
	errors map[string]uint64
}

// New creates a Load. It calls nothing.
func New(o Options) *Load { return &Load{opts: o, errors: make(map[string]uint64)} }

// Calls returns the number of calls so far.
func (l *Load) Calls() uint64 { return l.calls.Load() }

// Seconds returns the duration of the runs, without ramps.
func (l *Load) Seconds() float64 { return time.Duration(l.counts.Load()).Seconds() }

// Errors returns the number of calls that failed, by code: that of an error response, or "timeout",
// "closed", "busy", "unsent" or "other".
func (l *Load) Errors() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.errors)
}

// due returns when call n of a run begins: the sum of a rate that rises during the ramp.
func (o *Options) due(n int) time.Duration {
	inRamp := o.Rate * o.Ramp.Seconds() / 2
	seconds := 0.0
	if float64(n) < inRamp {
		seconds = math.Sqrt(2 * float64(n) * o.Ramp.Seconds() / o.Rate)
	} else {
		seconds = o.Ramp.Seconds() + (float64(n)-inRamp)/o.Rate
	}
	return time.Duration(seconds * float64(time.Second))
}

// Run makes calls for the ramp and d, and waits for those that run, until ctx ends.
func (l *Load) Run(ctx context.Context, d time.Duration) {
	o := &l.opts
	begin := time.Now()
	counted := begin.Add(o.Ramp)
	end := counted.Add(d)
	var next atomic.Int64
	var callers sync.WaitGroup
	for i := range o.Callers {
		callers.Go(func() {
			defer rescue.Catch(nil, nil) // of Call
			if o.Rate == 0 && !until(ctx, begin.Add(o.Ramp*time.Duration(i)/time.Duration(o.Callers))) {
				return
			}
			for ctx.Err() == nil {
				from := time.Now()
				if o.Rate > 0 {
					from = begin.Add(o.due(int(next.Add(1) - 1)))
				}
				if !from.Before(end) || o.Rate > 0 && !until(ctx, from) {
					return
				}
				var errs []error
				if o.Late > 0 && time.Since(end) > o.Late {
					errs = slices.Repeat([]error{errUnsent}, max(o.Each, 1))
				} else {
					errs = o.Call(ctx, i)
				}
				if took := time.Since(from); !from.Before(counted) && ctx.Err() == nil {
					l.note(took, errs)
				}
			}
		})
	}
	callers.Wait()
	if now := time.Now(); now.After(counted) {
		l.counts.Add(int64(now.Sub(counted)))
	}
}

// errUnsent is the error of a call that was due and was not sent.
var errUnsent = errors.New("not sent")

func (l *Load) note(took time.Duration, errs []error) {
	for _, err := range errs {
		l.calls.Add(1)
		l.Times.Add(took)
		if err != nil {
			l.mu.Lock()
			l.errors[codeOf(err)]++
			l.mu.Unlock()
		}
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return strconv.FormatInt(e.Code, 10)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, jsonrpc.ErrClosed):
		return "closed"
	case errors.Is(err, jsonrpc.ErrBusy):
		return "busy"
	case errors.Is(err, errUnsent):
		return "unsent"
	}
	return "other"
}

// until waits until a time, and reports whether it has come before the end of ctx.
func until(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
