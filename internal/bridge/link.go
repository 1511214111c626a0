package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds of restarts. The wait before the next start doubles with each failure, from firstWait to
// longestWait, and begins again once a server was up for healthy. After mostFailures within
// failWindow there is no start for failTime.
const (
	firstWait    = 250 * time.Millisecond
	longestWait  = 30 * time.Second
	healthy      = time.Minute
	mostFailures = 5
	failWindow   = time.Minute
	failTime     = time.Minute

	// patientFor is how long a call waits for the next start before it fails.
	patientFor = time.Second
)

// A link is a server and the clients that use it.
type link struct {
	b         *Bridge
	exclusive bool // one client, whose IDs and progress tokens are sent unchanged
	ctx       context.Context
	cancel    context.CancelCauseFunc

	mu      sync.Mutex // guards the fields below
	clients map[*client]struct{}
	now     *server // nil before it is started, and after it has ended
	dialing *dialing
	isMCP   bool // the clients speak MCP
	hello   hello
	lastID  int64
	tokens  map[string]*run // progress tokens that replace those of clients; not if exclusive
	newest  uint64          // of all runs

	failures []time.Time // of servers, newest last
	next     time.Time   // before it no server is started
}

// A dialing is a start of a server for which several calls may wait.
type dialing struct {
	done chan struct{}
	s    *server
	err  error
}

// An unavailable is the reason why there is no server.
type unavailable struct {
	reason string
	after  time.Duration // when to try again; 0 if unknown
	err    error
}

func (u *unavailable) Error() string {
	if u.err != nil {
		return u.reason + ": " + u.err.Error()
	}
	return u.reason
}
func (u *unavailable) Unwrap() error { return u.err }

func (l *link) join(c *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients[c] = struct{}{}
}

// leave ends the server of a client that has left, unless others share it.
func (l *link) leave(c *client) {
	l.mu.Lock()
	delete(l.clients, c)
	l.mu.Unlock()
	if l.exclusive {
		l.b.mu.Lock()
		delete(l.b.links, l)
		l.b.mu.Unlock()
		l.close()
	}
}

// close ends the server. It does not wait.
func (l *link) close() {
	l.cancel(jsonrpc.ErrClosed)
	l.mu.Lock()
	s := l.now
	l.now = nil
	l.mu.Unlock()
	if s != nil {
		s.end()
	}
}

// server returns the server, and starts it if needed. greet means that a client of MCP that has
// greeted an earlier server greets the new one before anything else.
func (l *link) server(ctx context.Context, greet bool) (*server, error) {
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		return nil, jsonrpc.ErrClosed
	}
	if s := l.now; s != nil {
		if !s.gone() {
			l.mu.Unlock()
			return s, nil
		}
		l.lostLocked(s)
	}
	d := l.dialing
	if d == nil {
		wait := time.Until(l.next)
		if wait > patientFor {
			l.mu.Unlock()
			return nil, &unavailable{reason: "the server has ended repeatedly", after: wait}
		}
		d = &dialing{done: make(chan struct{})}
		l.dialing = d
		go l.start(d, wait, greet)
	}
	l.mu.Unlock()
	select {
	case <-d.done:
		return d.s, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// start starts a server after a wait, for all calls that wait for d.
func (l *link) start(d *dialing, wait time.Duration, greet bool) {
	err := rescue.Call(l.b.report, func() (err error) {
		if wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-l.ctx.Done():
				return jsonrpc.ErrClosed
			}
		}
		if d.s, err = l.dial(l.ctx); err != nil {
			return err
		}
		if greet {
			err = l.greet(d.s)
		}
		return err
	})
	l.mu.Lock()
	l.dialing = nil
	switch {
	case err == nil && l.ctx.Err() != nil:
		err = jsonrpc.ErrClosed
	case err == nil:
		l.now = d.s
	case !errors.Is(err, jsonrpc.ErrClosed):
		l.failedLocked(time.Now())
	}
	l.mu.Unlock()
	if err != nil {
		if d.s != nil {
			d.s.end()
		}
		d.s, d.err = nil, err
	}
	close(d.done)
}

// lost forgets a server that has ended.
func (l *link) lost(s *server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lostLocked(s)
}

func (l *link) lostLocked(s *server) {
	if l.now != s {
		return
	}
	l.now = nil
	now := time.Now()
	if now.Sub(s.since) >= healthy {
		l.failures = nil
	}
	l.failedLocked(now)
}

// failedLocked notes the failure of a server and decides when the next one starts.
func (l *link) failedLocked(now time.Time) {
	l.failures = append(l.failures, now)
	if n := len(l.failures) - mostFailures; n >= 0 {
		l.failures = l.failures[n:]
		if now.Sub(l.failures[0]) <= failWindow {
			// one failure counts when the time is over: a trial start that fails has the whole time
			// before the next one
			l.next = now.Add(failTime)
			return
		}
	}
	wait := min(firstWait<<(len(l.failures)-1), longestWait)
	l.next = now.Add(wait + time.Duration((rand.Float64()-0.5)*0.4*float64(wait)))
}

// nextID returns an ID for a call to a server that several clients share.
func (l *link) nextID() jsonrpc.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastID++
	return jsonrpc.IntID(l.lastID)
}

// fault returns the error response for a call that got none.
func (l *link) fault(err error) *jsonrpc.Error {
	e := jsonrpc.NewError(jsonrpc.CodeUnavailable, "Server unavailable")
	data := jsonrpc.FaultData{Reason: "unavailable", Retryable: jsonrpc.NotSent(err)}
	if u, ok := errors.AsType[*unavailable](err); ok {
		data.Retryable, data.RetryAfterMs = true, u.after.Milliseconds()
	}
	switch {
	case errors.Is(err, errFull), errors.Is(err, jsonrpc.ErrBusy):
		e.Code, e.Message, data.Reason, data.Retryable = jsonrpc.CodeBusy, "Busy", "busy", true
	case errors.Is(err, jsonrpc.ErrTimeout):
		e.Code, e.Message, data.Reason = jsonrpc.CodeDeadline, "Deadline exceeded", "deadline"
	case errors.Is(err, jsonrpc.ErrTooLarge):
		e.Code, e.Message, data.Reason = jsonrpc.CodeResponseTooLarge, "Response too large", "response_too_large"
	default:
		l.b.report(ReportServer, fmt.Errorf("no response: %w", err))
	}
	return e.WithData(data)
}
