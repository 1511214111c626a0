package mcp

import (
	"context"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ConnectLocal returns a client of a server in the same process. It uses no transport and no queue:
// the server's functions run on the caller's goroutine. [Client.Close] closes the client; the
// server continues.
func ConnectLocal(ctx context.Context, s *Server, info Implementation, o *ClientOptions) (*Client, error) {
	c := NewClient(info, o)
	back := &jsonrpc.Answerer{Handler: c, Mode: Mode, Limits: c.opts.Limits, Report: c.opts.Report}
	l := &localLink{}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.session = s.NewSession(SessionOptions{Voice: jsonrpc.Local(back, nil)})
	var there jsonrpc.Answerer
	s.Configure(&there, l.session)
	there.Cancellation = jsonrpc.Cancellation{} // the handler runs in the caller's context
	l.peer = jsonrpc.Local(&there, back)
	if err := c.Open(ctx, l); err != nil {
		_ = l.Close() // never fails
		return nil, err
	}
	return c, nil
}

// A localLink transports calls as function calls.
type localLink struct {
	peer    jsonrpc.Peer
	session *Session
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
}

func (l *localLink) Do(ctx context.Context, item *jsonrpc.Item) error {
	if l.ctx.Err() != nil {
		item.Err = jsonrpc.ErrClosed
		return item.Err
	}
	switch {
	case item.Notify:
		item.Err = l.peer.Notify(ctx, item.Method, item.Params)
	case item.On != nil:
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(l.ctx, func() { cancel(jsonrpc.ErrClosed) })()
		var refused error // by On: the call is abandoned
		item.Err = l.peer.Stream(ctx, item.Method, item.Params, item.Result, func(req *jsonrpc.Request) error {
			err := item.On(req)
			if err != nil && refused == nil {
				refused = err
				cancel(err)
			}
			return err
		})
		switch {
		case refused != nil:
			item.Err = refused
		case ctx.Err() != nil:
			item.Err = context.Cause(ctx)
		}
	default:
		item.Err = l.peer.Call(ctx, item.Method, item.Params, item.Result)
		if item.Err != nil && ctx.Err() != nil {
			item.Err = context.Cause(ctx)
		}
	}
	return item.Err
}

func (l *localLink) Close() error {
	l.cancel(jsonrpc.ErrClosed)
	l.session.Close()
	return nil
}
