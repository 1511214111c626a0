package httprpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
)

var errNobody = errors.New("nobody is there for it")

// answerBack answers a request that came in a stream by a POST of its own, on a goroutine of its own, which Close waits for.
// It waits for a free place until the call ends.
func (c *Client) answerBack(k *call, m *jsonrpc.Message) error {
	payload, err := jsonrpc.AppendRequest(nil, c.o.Version, m.ID, m.Method, m.Params)
	if err != nil {
		return fmt.Errorf("httprpc: %w", err)
	}
	if c.o.Back == nil {
		c.report("request of the server: "+m.Method, errNobody)
	}
	select {
	case c.back <- struct{}{}:
	case <-k.ctx.Done():
		return k.failed(k.ctx.Err())
	}
	c.wg.Go(func() { // the call is counted, so Close is still waiting
		defer func() { <-c.back }()
		// The request outlives the call that it came with; what it carries besides, such as a trace, stays.
		if err := c.reply(context.WithoutCancel(k.ctx), payload); err != nil {
			c.report("answer to a request of the server", err)
		}
	})
	return nil
}

func (c *Client) reply(ctx context.Context, payload []byte) error {
	k, err := c.begin(ctx, true) // how long a handler may take is Back's to say
	if err != nil {
		return err
	}
	defer k.end()
	var out []byte
	if c.o.Back == nil {
		out, _ = new(jsonrpc.Answerer).Answer(k.ctx, nil, payload, new(jsonrpc.Exchange))
	} else {
		out, _ = c.o.Back.Answer(k.ctx, nil, payload, &jsonrpc.Exchange{Sink: poster{c}})
	}
	if len(out) == 0 {
		return nil
	}
	return poster{c}.Send(k.ctx, out)
}

// notified hands a notification that no Stream takes to Back, on the caller's goroutine and so in order.
func (c *Client) notified(k *call, m *jsonrpc.Message) {
	if c.o.Back == nil {
		c.report("notification of the server: "+m.Method, errNobody)
		return
	}
	payload, err := jsonrpc.AppendNotification(nil, c.o.Version, m.Method, m.Params)
	if err != nil {
		c.report("notification of the server: "+m.Method, err)
		return
	}
	_, _ = c.o.Back.Answer(k.ctx, nil, payload, &jsonrpc.Exchange{Sink: poster{c}}) // it has no answer
}

// A poster sends what needs no answer: what handlers of ours notify the server that asked them, and what they answer.
type poster struct{ client *Client }

func (p poster) Send(ctx context.Context, payload []byte) error {
	k, err := p.client.begin(ctx, false)
	if err != nil {
		return err
	}
	defer k.end()
	in := inbox{client: p.client, call: k}
	return in.notified(p.client.post(k, payload, nil))
}
