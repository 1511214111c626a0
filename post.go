package parley

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// dialPost is Dial of http and https. It touches nothing: an address that leads nowhere is the error of the first call.
func dialPost(_ context.Context, d *Dialer, t Target) (Caller, error) {
	back := new(jsonrpc.Answerer)
	d.answering(back)
	o := &httprpc.Options{
		TLS:        d.TLS,
		Header:     d.Header,
		Token:      d.Token,
		MaxMessage: d.MaxMessage,
		Back:       back,
		Version:    t.Version,
		CallTime:   d.Limits.CallTime,
		Report:     d.Report,
	}
	if d.Tap != nil {
		o.Tap = func(out bool, payload []byte) { d.Tap(Frame{Time: time.Now(), Out: out, Payload: payload}) }
	}
	return &post{httprpc.NewClient(t.URL(), o)}, nil
}

// A post is a Caller over HTTP. The embedded client also sends payloads as they are.
type post struct{ *httprpc.Client }

// Pending is empty: each call waits for its own HTTP answer, and nobody else could take it.
func (p *post) Pending() []jsonrpc.ID { return nil }

// Drain has nothing to wait for: what a server sends over HTTP is handled before the call that it came with returns.
func (p *post) Drain(context.Context) error { return nil }

// Shutdown is Close: nothing is under way but calls, whose callers know.
func (p *post) Shutdown(context.Context) error { return p.Close() }
