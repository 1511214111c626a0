package gateway

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
)

// healthOptions describe the active checks of one upstream. Probe is required; other zero values
// are the defaults.
type healthOptions struct {
	// Probe checks the upstream once. Any error is a failure. It must return when ctx ends.
	Probe func(ctx context.Context) error

	// Every is the time between two checks, which differs by up to 10 % at random. The default is
	// 10 s.
	Every time.Duration

	// Timeout is the time of one check. The default is 2 s.
	Timeout time.Duration

	// Checked is called after each check, on the goroutine of the checks. It may be nil.
	Checked func(err error)

	// Changed is called after Checked when the upstream is down, or up again. It may be nil.
	Changed func(up bool)

	// Report gets panics of the functions above.
	Report func(what string, err error)
}

const (
	healthDown   = 2           // failures in a row
	healthKicked = time.Second // the least time between checks that kick causes
	healthJitter = 0.1
)

// A health checks one upstream again and again: two failures in a row mean that it is down, one
// success that it is up. Until then it is up.
//
// Call start once, and close at the end, which waits for a check that runs. kick requests a check
// before the next one is due: the breaker calls it when it becomes half-open, and a group when it
// finds an upstream down. All methods are safe for concurrent use.
type health struct {
	o      healthOptions
	ctx    context.Context // of all checks; ended by close
	cancel context.CancelFunc
	kicks  chan struct{}
	work   sync.WaitGroup
	down   atomic.Bool

	mu       sync.Mutex // guards the fields below
	started  bool
	checks   uint64
	failures int // in a row
	last     time.Time
	err      error // of the last check
}

// A healthStatus is a snapshot for the status and for metrics.
type healthStatus struct {
	Up       bool
	Checks   uint64
	Failures int       // in a row
	Last     time.Time // of the last check; zero before the first
	Err      error     // of the last check
}

func newHealth(o healthOptions) *health {
	if o.Every <= 0 {
		o.Every = 10 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	h := &health{o: o, kicks: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// start begins the checks, the first one at once. It has no effect after close, or a second time.
func (h *health) start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started || h.ctx.Err() != nil {
		return
	}
	h.started = true
	h.work.Go(h.checkRepeatedly)
}

// close ends the checks and waits for one that runs.
func (h *health) close() {
	h.mu.Lock()
	h.cancel()
	h.mu.Unlock()
	h.work.Wait()
}

// up reports whether the upstream is up.
func (h *health) up() bool { return !h.down.Load() }

// kick requests a check at once, or one second after the last one. It does not wait.
func (h *health) kick() {
	select {
	case h.kicks <- struct{}{}:
	default:
	}
}

func (h *health) status() healthStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return healthStatus{h.up(), h.checks, h.failures, h.last, h.err}
}

// checkRepeatedly is the goroutine of the checks.
func (h *health) checkRepeatedly() {
	defer rescue.Catch(h.o.Report, nil)
	timer := time.NewTimer(h.o.Every)
	defer timer.Stop()
	for {
		select {
		case <-h.kicks: // the check below is the one that was requested
		default:
		}
		h.check()
		last := time.Now()
		timer.Reset(time.Duration(float64(h.o.Every) * (1 - healthJitter + 2*healthJitter*rand.Float64())))
		select {
		case <-timer.C:
			continue
		case <-h.ctx.Done():
			return
		case <-h.kicks:
		}
		timer.Reset(max(min(healthKicked, h.o.Every)-time.Since(last), 0))
		select {
		case <-timer.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// check runs one check and takes its result.
func (h *health) check() {
	ctx, cancel := context.WithTimeout(h.ctx, h.o.Timeout)
	defer cancel()
	err := rescue.Call(h.o.Report, func() error { return h.o.Probe(ctx) })
	if h.ctx.Err() != nil {
		return // closed: the result is not about the upstream
	}
	if err == nil {
		err = ctx.Err() // too late
	}
	h.mu.Lock()
	h.checks++
	h.last, h.err = time.Now(), err
	if err == nil {
		h.failures = 0
	} else {
		h.failures++
	}
	was := h.down.Load()
	down := h.failures >= healthDown
	if err == nil || down {
		h.down.Store(down)
	}
	h.mu.Unlock()
	_ = rescue.Run(h.o.Report, func() { // a panic is reported
		if h.o.Checked != nil {
			h.o.Checked(err)
		}
		if h.o.Changed != nil && h.down.Load() != was {
			h.o.Changed(was)
		}
	})
}
