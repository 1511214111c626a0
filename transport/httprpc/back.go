package httprpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/internal/x/bounded"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

var errNoHandler = errors.New("no handler")

// answerBack handles a request that arrived in a stream, and sends the response by a separate POST,
// on a separate goroutine that Close waits for. It waits for a free place until the call ends.
func (c *Client) answerBack(k *call, m *jsonrpc.Message) error {
	payload, err := jsonrpc.AppendRequest(nil, c.o.Version, m.ID, m.Method, m.Params)
	if err != nil {
		return fmt.Errorf("httprpc: %w", err)
	}
	if c.o.Back == nil {
		c.report(jsonrpc.ReportServerRequest, fmt.Errorf("%s: %w", m.Method, errNoHandler))
	}
	cost := bounded.RequestCost(payload)
	if err := c.back.Take(k.ctx, cost); err != nil {
		return k.failed(k.ctx.Err())
	}
	c.wg.Go(func() { // the call is counted, so Close is still waiting
		defer c.back.Give(cost)
		defer rescue.Catch(c.report, nil) // of an http.RoundTripper
		// The response outlives the call that its request arrived with; the other values of the
		// context, such as a trace, remain.
		if err := c.reply(context.WithoutCancel(k.ctx), payload); err != nil {
			c.report(jsonrpc.ReportServerReply, err)
		}
	})
	return nil
}

func (c *Client) reply(ctx context.Context, payload []byte) error {
	k, err := c.begin(ctx, true) // Back itself bounds the time of a handler
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

// notified passes a notification that no Stream receives to Back, on the caller's goroutine and so
// in order.
func (c *Client) notified(k *call, m *jsonrpc.Message) {
	if c.o.Back == nil {
		c.report(jsonrpc.ReportServerNotification, fmt.Errorf("%s: %w", m.Method, errNoHandler))
		return
	}
	payload, err := jsonrpc.AppendNotification(nil, c.o.Version, m.Method, m.Params)
	if err != nil {
		c.report(jsonrpc.ReportServerNotification, fmt.Errorf("%s: %w", m.Method, err))
		return
	}
	// a notification has no response
	_, _ = c.o.Back.Answer(k.ctx, nil, payload, &jsonrpc.Exchange{Sink: poster{c}})
}

// A poster sends messages that need no response: the notifications of Back's handlers to the server
// that called them, and their responses.
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
