package otelrpc

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Peer returns a Peer that observes the calls and notifications sent to p. If o is nil, the
// defaults apply. A call lasts until its response is decoded, a notification until it is queued.
// The ID is not known at this level and not recorded.
//
// For errors from the peer, error.type is their code. For local errors it is one of: timeout,
// cancelled, closed, busy, bad_response, too_large, one_way, answered, lagging, batch_refused,
// garbage, slow_peer, _OTHER.
func Peer(p jsonrpc.Peer, o *Options) jsonrpc.Peer {
	return &peer{
		next: p,
		ob:   newObserver(o, clientDuration, "Measures the duration of an outgoing Remote Procedure Call (RPC)."),
	}
}

type peer struct {
	next jsonrpc.Peer
	ob   *observer
}

func (p *peer) Call(ctx context.Context, method string, params, result any) error {
	return p.observe(ctx, method, params, func(ctx context.Context, params any) error {
		return p.next.Call(ctx, method, params, result)
	})
}

func (p *peer) Stream(ctx context.Context, method string, params, result any, on func(*jsonrpc.Request) error) error {
	return p.observe(ctx, method, params, func(ctx context.Context, params any) error {
		return p.next.Stream(ctx, method, params, result, on)
	})
}

func (p *peer) Notify(ctx context.Context, method string, params any) error {
	return p.observe(ctx, method, params, func(ctx context.Context, params any) error {
		return p.next.Notify(ctx, method, params)
	})
}

func (p *peer) observe(ctx context.Context, method string, params any, send func(context.Context, any) error) error {
	c := p.ob.begin(ctx, trace.SpanKindClient, method, jsonrpc.ID{})
	if p.ob.Meta {
		params = p.ob.send(c.ctx, params)
	}
	panicked := true
	defer func() {
		if panicked {
			c.failed(nil)
		}
	}()
	err := send(c.ctx, params)
	panicked = false
	switch e, ok := err.(*jsonrpc.Error); { //nolint:errorlint // a wrapped one is not the response to this call
	case err == nil:
		c.succeed()
	case ok:
		c.answered(strconv.FormatInt(e.Code, 10), e.Message)
	default:
		c.failed(err)
	}
	return err
}
