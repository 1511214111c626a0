package mcp

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A server of 2025-11-25 may refuse a call until the user has been to a URL (MCP 2025-11-25, Elicitation, URL Elicitation Required Error). The client
// sends them there and calls again.

// A visitor remembers, for one call, where the user has agreed to go.
type visitor struct {
	c     *Client
	seen  map[string]chan struct{} // by URL; closed when the server says that it is done there
	tries int
}

// How a call that needs a URL is made again.
const (
	firstReturn = 500 * time.Millisecond // when the server says no a second time, then twice as long each time
	maxReturn   = 30 * time.Second
)

// again sends the user to the URLs in err, if that is what it says, and reports whether the call is to be made again: at once after a visit that is
// new, otherwise when the server says that it is done, or after a while.
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
		v.seen = map[string]chan struct{}{}
	}
	isNew := false
	var done chan struct{}
	for _, at := range data.Elicitations {
		if at.Mode != ElicitURL {
			return false, err
		}
		if done = v.seen[at.URL]; done != nil {
			v.c.expect(at.ElicitationID, done) // the same visit, which may have another id by now
			continue
		}
		isNew = true
		done = make(chan struct{})
		v.seen[at.URL] = done
		v.c.expect(at.ElicitationID, done)
		result, askErr := v.c.opts.Elicit(ctx, &at)
		switch {
		case askErr != nil:
			return false, ownError(at.URL, MethodElicit, askErr)
		case result == nil || result.Action != ActionAccept:
			return false, err // the user does not want to
		}
	}
	if isNew {
		return true, nil
	}
	wait := time.NewTimer(min(firstReturn<<min(v.tries-2, 10), maxReturn))
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	for url, ended := range v.seen { // what is done is not waited for again
		select {
		case <-ended:
			v.seen[url] = make(chan struct{})
		default:
		}
	}
	return true, nil
}

// leave forgets what the call waited for.
func (v *visitor) leave() {
	if v.seen == nil {
		return
	}
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	for id, done := range v.c.visits {
		for _, own := range v.seen {
			if own == done {
				delete(v.c.visits, id)
			}
		}
	}
}

// expect has done closed when the server says that an elicitation is complete.
func (c *Client) expect(id string, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.visits[id] = done
}

// visited tells whoever waits that an elicitation is complete.
func (c *Client) visited(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done, ok := c.visits[id]
	if !ok {
		return
	}
	maps.DeleteFunc(c.visits, func(_ string, other chan struct{}) bool { return other == done })
	close(done)
}
