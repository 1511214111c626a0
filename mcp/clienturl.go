package mcp

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A server of 2025-11-25 may reject a call until the user has visited a URL (MCP 2025-11-25,
// Elicitation, URL Elicitation Required Error). The client then sends the user to the URL and
// repeats the call.

// A visitor stores, for one call, the URLs that the user has agreed to visit.
type visitor struct {
	c     *Client
	seen  map[string]*visit // by URL
	tries int
}

// A visit is one visit of the user to a URL. The server may report its completion more than once.
type visit struct {
	over chan struct{} // closed by end
	once sync.Once
}

func newVisit() *visit { return &visit{over: make(chan struct{})} }

// end marks the visit as complete. Further calls have no effect: a server may report one visit with
// several IDs, or twice.
func (v *visit) end() { v.once.Do(func() { close(v.over) }) }

// Delays before a call that needs a URL is repeated.
const (
	// after the second rejection; the delay then doubles each time
	firstReturn = 500 * time.Millisecond
	maxReturn   = 30 * time.Second
)

// again sends the user to the URLs in err, if err contains any, and reports whether to repeat the
// call. After the first visit to a URL the call is repeated at once. Otherwise again first waits
// until the server reports completion, or until a delay has passed.
func (v *visitor) again(ctx context.Context, err error) (bool, error) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != CodeURLElicitation || v.c.opts.Elicit == nil || !v.c.opts.ElicitURL || v.tries >= v.c.opts.Rounds {
		return false, err
	}
	var data URLElicitationData
	if e.Data.Decode(&data) != nil || len(data.Elicitations) == 0 || len(data.Elicitations) > maxQuestions {
		return false, err
	}
	v.tries++
	if v.seen == nil {
		v.seen = map[string]*visit{}
	}
	isNew := false
	var last *visit
	for _, at := range data.Elicitations {
		if at.Mode != ElicitURL {
			return false, err
		}
		if last = v.seen[at.URL]; last != nil {
			v.expect(at.ElicitationID, last) // the same visit, which may have a new ID
			continue
		}
		isNew = true
		last = newVisit()
		v.seen[at.URL] = last
		v.expect(at.ElicitationID, last)
		result, askErr := v.c.opts.Elicit(ctx, &at)
		switch {
		case askErr != nil:
			return false, ownError(at.URL, MethodElicit, askErr)
		case result == nil || result.Action != ActionAccept:
			return false, err // the user did not accept
		}
	}
	if isNew {
		return true, nil
	}
	wait := time.NewTimer(min(firstReturn<<min(v.tries-2, 10), maxReturn))
	defer wait.Stop()
	select {
	case <-last.over:
	case <-wait.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	for url, at := range v.seen { // the next rejection waits for another report
		select {
		case <-at.over:
			v.seen[url] = newVisit()
		default:
		}
	}
	return true, nil
}

// leave removes the visits that the call waited for.
func (v *visitor) leave() {
	if v.seen == nil {
		return
	}
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	maps.DeleteFunc(v.c.visits, func(_ string, at expected) bool { return at.by == v })
}

// An expected visit is a visit whose completion the server will report by ID.
type expected struct {
	at *visit
	by *visitor
}

// expect registers the ID with which the server will report the completion of a visit.
func (v *visitor) expect(id string, at *visit) {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	v.c.visits[id] = expected{at, v}
}

// visited completes the visit that the server reports as complete.
func (c *Client) visited(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, ok := c.visits[id]
	if !ok {
		return
	}
	maps.DeleteFunc(c.visits, func(_ string, other expected) bool { return other.at == done.at })
	done.at.end()
}
