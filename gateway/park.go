package gateway

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// A legacy server asks its questions in the middle of a call, and a modern client answers them with
// another call. In between the call at the server is parked: it continues on a goroutine of its
// own, and the client's next call finds it by an ID in its sealed state, which only the same
// principal can send, for the same method and the same params.

// Bounds of parked calls.
const (
	parkedTime   = 10 * time.Minute // since the call began
	maxParked    = 1000
	maxParkedPer = 16 // of one principal
)

// A parkedCall is a call at a legacy server for a modern client.
type parkedCall struct {
	id        string
	principal string
	cancel    context.CancelCauseFunc
	done      chan struct{} // closed when raw and err are set
	raw       jsonrpc.Raw
	err       error
	asked     chan struct{} // capacity 1: there are new questions

	// the request of the client that waits for the call; nil between two requests
	request atomic.Pointer[mcp.Request]

	mu   sync.Mutex // guards the fields below
	last int        // of questions
	open map[string]*parkedQuestion
}

// A parkedQuestion waits for the client's answer.
type parkedQuestion struct {
	in     mcp.InputRequest
	answer chan jsonrpc.Raw // capacity 1
}

// parking has the parked calls. The zero value is ready for use.
type parking struct {
	mu     sync.Mutex // guards the fields below
	calls  map[string]*parkedCall
	per    map[string]int
	closed bool
}

// errParkingFull is the response if too many calls wait for their clients.
var errParkingFull = newFault(jsonrpc.CodeBusy, "Too many calls wait for answers", reasonTooManyCalls, "", true).error()

// errCallLost is the response to the answers to a call that does not wait for them any more.
func errCallLost(server string) error { return unavailable(reasonCallLost, server, false).error() }

// begin runs a call apart from r, the request of its client, which waits for it. start runs it on
// another goroutine; if it returns false, the gateway is closed. run gets a context that ends after
// 10 minutes, and the values of ctx. It must not use the request's buffers.
func (p *parking) begin(ctx context.Context, who string, r *mcp.Request, start func(func()) bool, run func(context.Context, *parkedCall) (jsonrpc.Raw, error)) (*parkedCall, error) {
	c := &parkedCall{id: rand.Text(), principal: who, done: make(chan struct{}), asked: make(chan struct{}, 1), open: map[string]*parkedQuestion{}}
	c.request.Store(r) // the server may report progress at once
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	c.cancel = cancel // before close can find the call
	p.mu.Lock()
	if p.closed || len(p.calls) >= maxParked || p.per[who] >= maxParkedPer {
		p.mu.Unlock()
		cancel(nil)
		return nil, errParkingFull
	}
	if p.calls == nil {
		p.calls, p.per = map[string]*parkedCall{}, map[string]int{}
	}
	p.calls[c.id] = c
	p.per[who]++
	p.mu.Unlock()

	own, stop := context.WithTimeoutCause(own, parkedTime, errTimeout)
	over := func() {
		stop()
		cancel(nil)
		p.mu.Lock()
		delete(p.calls, c.id)
		if p.per[who]--; p.per[who] == 0 {
			delete(p.per, who)
		}
		p.mu.Unlock()
		close(c.done)
	}
	c.err = jsonrpc.ErrInternal // if run panics
	if !start(func() {
		defer over()
		c.raw, c.err = run(own, c)
	}) {
		over()
		return nil, jsonrpc.ErrClosed
	}
	return c, nil
}

// find returns the call of an ID and a principal, for which r waits from now on. It returns nil if
// there is no such call, or if another request waits for it.
func (p *parking) find(id, who string, r *mcp.Request) *parkedCall {
	p.mu.Lock()
	c := p.calls[id]
	p.mu.Unlock()
	if c == nil || c.principal != who || !c.request.CompareAndSwap(nil, r) {
		return nil
	}
	return c
}

// leave means that no request waits for the call.
func (c *parkedCall) leave() { c.request.Store(nil) }

// ask waits for the client's answer to a question of the server.
func (c *parkedCall) ask(ctx context.Context, in mcp.InputRequest) (jsonrpc.Raw, error) {
	q := &parkedQuestion{in, make(chan jsonrpc.Raw, 1)}
	c.mu.Lock()
	if len(c.open) >= maxOpenQuestions {
		c.mu.Unlock()
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeBusy, Message: "Too many questions"}
	}
	c.last++
	key := "q" + strconv.Itoa(c.last)
	c.open[key] = q
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.open, key)
		c.mu.Unlock()
	}()
	select {
	case c.asked <- struct{}{}:
	default: // one signal is sufficient
	}
	select {
	case raw := <-q.answer:
		return raw, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// maxOpenQuestions is the maximum number of questions of one call that wait for answers.
const maxOpenQuestions = 100

// questions returns the questions that wait for answers.
func (c *parkedCall) questions() map[string]mcp.InputRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]mcp.InputRequest, len(c.open))
	for key, q := range c.open {
		all[key] = q.in
	}
	return all
}

// answer delivers answers. It reports whether the call waits for all of them.
func (c *parkedCall) answer(answers map[string]jsonrpc.Raw) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range answers {
		if c.open[key] == nil {
			return false
		}
	}
	for key, raw := range answers {
		c.open[key].answer <- raw
		delete(c.open, key)
	}
	return true
}

// close ends all calls.
func (p *parking) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.calls {
		c.cancel(jsonrpc.ErrClosed)
	}
}
