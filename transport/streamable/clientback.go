package streamable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/internal/x/bounded"
	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

var errClientNoHandler = errors.New("no handler")

// heard processes one payload of the stream of the session.
func (c *Client) heard(ctx context.Context, text []byte) {
	fault := jsonrpc.Scan(text, func(m *jsonrpc.Message) {
		switch {
		case m.Bad != nil:
			c.report(jsonrpc.ReportServerMessage, m.Bad)
		case m.Request && m.ID.IsZero():
			c.notification(ctx, nil, m)
		case m.Request:
			if err := c.answerBack(ctx, m); err != nil {
				c.report(jsonrpc.ReportServerRequest, fmt.Errorf("%s: %w", m.Method, err))
			}
		default:
			// A response does not belong here, but some servers send all responses on this stream.
			if k := c.waiting(m.ID); k != nil && k.takes(m) {
				k.cancel(errClientAnswered)
				return
			}
			c.report(ReportUnknownResponse, fmt.Errorf("it has id %.64s", m.ID))
		}
	})
	if fault != nil {
		c.report(jsonrpc.ReportServerMessage, fault)
	}
}

// waiting returns the call with an ID.
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

// notification passes a notification to the call that it belongs to, and all others to Back, on the
// goroutine that reads and so in order. k is the call in whose response it arrived, or nil.
func (c *Client) notification(ctx context.Context, k *clientCall, m *jsonrpc.Message) {
	req := &jsonrpc.Request{Method: m.Method, Params: m.Params}
	if k == nil && c.o.Related != nil {
		if id, ok := c.o.Related(req); ok {
			k = c.waiting(id)
		}
	}
	if k != nil {
		k.renew()
		if k.passNotification(req) {
			return
		}
	}
	if c.o.Back == nil {
		c.report(jsonrpc.ReportServerNotification, fmt.Errorf("%s: %w", m.Method, errClientNoHandler))
		return
	}
	payload, err := jsonrpc.AppendNotification(nil, jsonrpc.Version2, m.Method, m.Params)
	if err != nil {
		c.report(jsonrpc.ReportServerNotification, fmt.Errorf("%s: %w", m.Method, err))
		return
	}
	// a notification has no response
	_, _ = c.o.Back.Answer(ctx, nil, payload, &jsonrpc.Exchange{Sink: clientPoster{c}})
}

// answerBack handles a request of the server, and sends the response by a separate POST, on a
// separate goroutine that Close waits for. It waits for a free place until ctx ends.
func (c *Client) answerBack(ctx context.Context, m *jsonrpc.Message) error {
	payload, err := jsonrpc.AppendRequest(nil, jsonrpc.Version2, m.ID, m.Method, m.Params)
	if err != nil {
		return fmt.Errorf("streamable: %w", err)
	}
	cost := bounded.RequestCost(payload)
	if err := c.back.Take(ctx, cost); err != nil {
		return err
	}
	// The response outlives the stream that its request arrived on; the other values of ctx, such
	// as a trace, remain.
	ctx = context.WithoutCancel(ctx)
	c.wg.Go(func() { // the reading goroutine is counted, so Close is still waiting
		defer func() {
			c.backEnded.Store(int64(time.Since(c.made))) // before its place is free: see late
			c.back.Give(cost)
		}()
		defer rescue.Catch(c.report, nil) // of an http.RoundTripper
		if err := c.reply(ctx, payload); err != nil {
			c.report(jsonrpc.ReportServerReply, err)
		}
	})
	return nil
}

func (c *Client) reply(ctx context.Context, payload []byte) error {
	k, err := c.begin(ctx, -1) // Back itself bounds the time of a handler
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

// A clientPoster sends messages that need no response: the notifications of Back's handlers to the
// server that called them, and their responses.
type clientPoster struct{ client *Client }

func (p clientPoster) Send(ctx context.Context, payload []byte) error {
	k, err := p.client.begin(ctx, p.client.o.CallTime)
	if err != nil {
		return err
	}
	defer k.end()
	k.use = Within
	return k.notified(p.client.post(k, payload, p.client.streamHeader()))
}
