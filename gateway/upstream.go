package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley"
	"github.com/da1ed7bb/parley/config"
	"github.com/da1ed7bb/parley/internal/x/origin"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// maxAnswer bounds one response of an upstream, in bytes.
const maxAnswer = 16 << 20

// dialTime bounds connecting to an upstream, and starting a program.
const dialTime = 5 * time.Second

// An upstream is one server of the configuration. Its connection is made at the first call, shared
// by all callers, and made again when it has ended.
type upstream struct {
	entry  config.Entry
	target parley.Target
	isHTTP bool
	report func(what string, err error)

	singles  atomic.Bool // it takes no arrays
	member   *member[*upstream]
	alone    *group[*upstream] // of member only: for calls that name the server
	creds    *credentials      // of requests over HTTP
	endpoint http.Handler      // of /s/NAME; nil if it has none
	agent    http.Handler      // of /a2a/NAME; nil if it is no such agent
	waiting  bool              // a program that is not approved yet

	mu      sync.Mutex // guards the fields below
	caller  parley.Caller
	dialing *dialing
	closed  bool
}

// A dialing is a connection attempt for which several calls may wait.
type dialing struct {
	done   chan struct{}
	caller parley.Caller
	err    error
}

func newUpstream(e config.Entry, report func(what string, err error)) (*upstream, error) {
	t, err := e.Target()
	if err != nil {
		return nil, err
	}
	u := &upstream{entry: e, target: t, isHTTP: t.Scheme == "http" || t.Scheme == "https", report: report}
	u.creds = newCredentials(&u.entry, t.URL(), report)
	u.protect()
	return u, nil
}

// protect makes the mechanisms that protect the server and those who wait for it.
func (u *upstream) protect() {
	o := &u.entry.Upstream
	var checks *health
	broken := breakerOptions{Off: o.Breaker == nil, Report: u.report}
	if b := o.Breaker; b != nil {
		broken.Failures, broken.Ratio, broken.Window, broken.Open, broken.Max = b.Failures, b.Ratio, b.Window, b.Open, b.Max
	}
	if o.Health != nil && len(u.target.Argv) == 0 {
		broken.Check = func() { checks.kick() }
	}
	b := newBreaker(broken)
	if broken.Check != nil {
		checks = newHealth(healthOptions{
			Probe: u.probe, Every: o.Health.Every, Timeout: o.Health.Timeout, Report: u.report,
			Checked: func(err error) { b.checked(err == nil, time.Now()) },
			Changed: func(up bool) {
				if up {
					b.recovered(time.Now())
				}
			},
		})
	}
	q := newQueue(queueOptions{Inflight: o.Inflight, Queue: o.Queue, Wait: o.Wait})
	u.member = newMember(u.entry.Name, u, b, q, checks)
	u.alone = groupOf(u.entry.Name, u.member)
	u.alone.report = u.report
}

// probe is the active check of a server that is not a program.
func (u *upstream) probe(ctx context.Context) error {
	if method := u.entry.Upstream.Health.Method; method != "" {
		err := u.do(ctx, &jsonrpc.Item{Method: method, Result: new(jsonrpc.Raw)})
		if isAnswer(err) {
			return nil // it is able to respond
		}
		return err
	}
	network, address := "tcp", u.target.Address
	if u.target.Scheme == "unix" {
		network = "unix"
	}
	if _, _, err := net.SplitHostPort(address); err != nil && network == "tcp" {
		port := "80"
		if u.target.Scheme == "https" || u.target.Scheme == "wss" {
			port = "443"
		}
		address = net.JoinHostPort(address, port)
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	return c.Close()
}

// timeout returns the time of a call if its route has none.
func (u *upstream) timeout() time.Duration { return cmp.Or(u.entry.Upstream.Timeout, defaultTimeout) }

// do sends one message. An error that is not the upstream's own is mapped by faultOf.
func (u *upstream) do(ctx context.Context, item *jsonrpc.Item) error {
	c, err := u.connect(ctx)
	if err != nil {
		item.Err = err
		return err
	}
	return c.Do(ctx, item)
}

// batch sends items in one array. [jsonrpc.ErrBatchRefused] means that the upstream takes no
// arrays, and that none of the items was run.
func (u *upstream) batch(ctx context.Context, items []jsonrpc.Item) error {
	c, err := u.connect(ctx)
	if err != nil {
		return err
	}
	return c.Batch(ctx, items)
}

// errNotApproved is the error of calls to a program that was added to the file while the gateway
// ran.
var errNotApproved = jsonrpc.AsNotSent(errors.New("the program is new or changed in the file; reload with the signal HUP or gateway.reload to approve it"))

// connect returns the connection. It makes one at first, and after the last one has ended.
func (u *upstream) connect(ctx context.Context) (parley.Caller, error) {
	if u.waiting {
		return nil, errNotApproved
	}
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return nil, jsonrpc.AsNotSent(jsonrpc.ErrClosed)
	}
	if c := u.caller; c != nil {
		if !hasEnded(c) {
			u.mu.Unlock()
			return c, nil
		}
		u.caller = nil
		u.letGo(c)
	}
	d := u.dialing
	if d == nil {
		d = &dialing{done: make(chan struct{})}
		u.dialing = d
		go u.dial(d)
	}
	u.mu.Unlock()
	select {
	case <-d.done:
		return d.caller, d.err
	case <-ctx.Done():
		return nil, jsonrpc.AsNotSent(context.Cause(ctx))
	}
}

// hasEnded reports whether a connection can carry no more calls.
func hasEnded(c parley.Caller) bool {
	conn, ok := c.(interface{ Err() error })
	return ok && conn.Err() != nil
}

// letGo closes a connection that is not used any more, without waiting.
func (u *upstream) letGo(c parley.Caller) {
	go func() {
		defer rescue.Catch(u.report, nil)
		_ = c.Close() // no call uses it
	}()
}

// dial connects for all calls that wait for d. It does not depend on the context of one of them.
func (u *upstream) dial(d *dialing) {
	err := rescue.Call(u.report, func() (err error) {
		d.caller, err = u.open()
		return err
	})
	if err != nil {
		d.err = jsonrpc.AsNotSent(err)
		u.report(ReportUpstream, fmt.Errorf("%s: %w", u.entry.Name, err))
	}
	u.mu.Lock()
	u.dialing = nil
	switch {
	case err != nil:
	case u.closed:
		u.letGo(d.caller)
		d.caller, d.err = nil, jsonrpc.AsNotSent(jsonrpc.ErrClosed)
	default:
		u.caller = d.caller
	}
	u.mu.Unlock()
	close(d.done)
}

// open makes a connection, or starts the program.
func (u *upstream) open() (parley.Caller, error) {
	if u.isHTTP {
		client, closeIdle := origin.Client(nil, nil)
		client.Transport = traceTrip{client.Transport}
		if u.creds.dynamic() {
			client.Transport = u.creds.trip(client.Transport, nil)
		}
		return httpCaller{httprpc.NewClient(u.target.URL(), &httprpc.Options{
			HTTP:       client,
			Header:     u.entry.Header,
			MaxMessage: maxAnswer,
			Version:    u.target.Version,
			CallTime:   -1, // calls have a context with a deadline
			Parallel:   -1, // members of a batch keep their order
			Report:     u.dropped,
		}), closeIdle}, nil
	}
	dialer := &parley.Dialer{
		Header:     u.entry.Header,
		MaxMessage: maxAnswer,
		Limits:     jsonrpc.Limits{CallTime: -1},
		Timeout:    dialTime,
		Report:     u.dropped,
		Stderr:     func(line string) { u.report(ReportStderr, fmt.Errorf("%s: %s", u.entry.Name, line)) },
	}
	c, err := dialer.Dial(context.Background(), u.target)
	if err != nil {
		return nil, err
	}
	return c.Caller, nil
}

// dropped reports what the upstream sent and no caller receives.
func (u *upstream) dropped(what string, err error) {
	u.report(what, fmt.Errorf("%s: %w", u.entry.Name, err))
}

// An httpCaller is a Caller over HTTP.
type httpCaller struct {
	*httprpc.Client
	closeIdle func() // closes the idle connections of its transport
}

// Close ends the calls in flight.
func (c httpCaller) Close() error {
	err := c.Client.Close()
	c.closeIdle()
	return err
}

func (c httpCaller) Pending() []jsonrpc.ID          { return nil }
func (c httpCaller) Drain(context.Context) error    { return nil }
func (c httpCaller) Shutdown(context.Context) error { return c.Close() }

// close ends the connection. Calls in flight fail.
func (u *upstream) close() error {
	u.mu.Lock()
	c := u.caller
	u.caller, u.closed = nil, true
	u.mu.Unlock()
	u.creds.close()
	u.member.retired.Store(true)
	u.member.breaker.close()
	if u.member.health != nil {
		u.member.health.close()
	}
	if c == nil {
		return nil
	}
	return c.Close()
}

// errTimeout is the cause of the end of a call whose time has passed.
var errTimeout = fmt.Errorf("gateway: %w", jsonrpc.ErrTimeout)

// isAnswer reports whether err is the upstream's own error. It passes on unchanged.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}
