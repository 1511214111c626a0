package streamable

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

var errClientNobody = errors.New("nobody is there for it")

// heard takes in one payload of the stream of the session.
func (c *Client) heard(ctx context.Context, text []byte) {
	fault := jsonrpc.Scan(text, func(m *jsonrpc.Message) {
		switch {
		case m.Bad != nil:
			c.report("message of the server", m.Bad)
		case m.Request && m.ID.IsZero():
			c.notification(ctx, nil, m)
		case m.Request:
			if err := c.answerBack(ctx, m); err != nil {
				c.report("request of the server: "+m.Method, err)
			}
		default:
			// No answer belongs here, but some servers put it where they put all.
			if k := c.waiting(m.ID); k != nil && k.takes(m) {
				k.cancel(errClientAnswered)
				return
			}
			c.report("answer that nobody waits for", nil)
		}
	})
	if fault != nil {
		c.report("message of the server", fault)
	}
}

// waiting finds the call with an id.
func (c *Client) waiting(id jsonrpc.ID) *clientCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.calls {
		if !k.id.IsZero() && id.Names(k.id) {
			return k
		}
	}
	return nil
}

// notification hands a notification to the call that it is about, and all others to Back, on the goroutine that reads and so in order. k is
// the call in whose answer it came, if it came in one.
func (c *Client) notification(ctx context.Context, k *clientCall, m *jsonrpc.Message) {
	req := &jsonrpc.Request{Method: m.Method, Params: m.Params}
	if k == nil && c.o.Related != nil {
		if id, ok := c.o.Related(req); ok {
			k = c.waiting(id)
		}
	}
	if k != nil {
		k.renew()
		if k.hears(req) {
			return
		}
	}
	if c.o.Back == nil {
		c.report("notification of the server: "+m.Method, errClientNobody)
		return
	}
	payload, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, m.Method, m.Params)
	if err != nil {
		c.report("notification of the server: "+m.Method, err)
		return
	}
	_, _ = c.o.Back.Answer(ctx, nil, payload, &jsonrpc.Exchange{Sink: clientPoster{c}}) // it has no answer
}

// answerBack answers a request of the server by a POST of its own, on a goroutine of its own, which Close waits for. It waits for a free
// place until ctx ends.
func (c *Client) answerBack(ctx context.Context, m *jsonrpc.Message) error {
	payload, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, m.ID, m.Method, m.Params)
	if err != nil {
		return fmt.Errorf("streamable: %w", err)
	}
	select {
	case c.back <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// The request outlives the stream that it came on; what ctx carries besides, such as a trace, stays.
	ctx = context.WithoutCancel(ctx)
	c.wg.Go(func() { // whoever reads is counted, so Close is still waiting
		defer func() { <-c.back }()
		if err := c.reply(ctx, payload); err != nil {
			c.report("answer to a request of the server", err)
		}
	})
	return nil
}

func (c *Client) reply(ctx context.Context, payload []byte) error {
	k, err := c.begin(ctx, -1) // how long a handler may take is Back's to say
	if err != nil {
		return err
	}
	defer k.end()
	back := c.o.Back
	if back == nil {
		back = new(jsonrpc.Answerer)
	}
	out, _ := back.Answer(k.ctx, nil, payload, &jsonrpc.Exchange{Sink: clientPoster{c}})
	if len(out) == 0 {
		return nil
	}
	return clientPoster{c}.Send(k.ctx, out)
}

// A clientPoster sends what needs no answer: what handlers of ours notify the server that asked them, and what they answer.
type clientPoster struct{ client *Client }

func (p clientPoster) Send(ctx context.Context, payload []byte) error {
	k, err := p.client.begin(ctx, p.client.o.CallTime)
	if err != nil {
		return err
	}
	defer k.end()
	k.bond = Within
	return k.notified(p.client.post(k, payload, p.client.streamHeader()))
}
