package parley

import (
	"context"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

// dialPost implements Dial for http and https. It sends nothing: for an unreachable address the
// first call returns the error.
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

// A post is a Caller over HTTP. The embedded client also sends raw payloads.
type post struct{ *httprpc.Client }

// Pending returns nil: each call waits for its own HTTP response, and no other call could receive
// it.
func (p *post) Pending() []jsonrpc.ID { return nil }

// Drain returns immediately: messages that a server sends over HTTP are handled before the call
// that they belong to returns.
func (p *post) Drain(context.Context) error { return nil }

// Shutdown is Close: only calls can be pending, and they return an error.
func (p *post) Shutdown(context.Context) error { return p.Close() }
