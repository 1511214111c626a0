package acp

import (
	"context"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/rescue"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Local returns a client of a server in the same process. It uses no transport and no queue:
// requests run on the caller's goroutine. [Client.Close] closes the client and not the server.
func Local(s *Server, o *ClientOptions) *Client {
	l := &localLink{}
	s.Configure(&l.there)
	l.there.Cancellation = jsonrpc.Cancellation{} // the caller's context is the handler's
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.peer = jsonrpc.Local(&l.there, &jsonrpc.Answerer{Handler: jsonrpc.HandlerFunc(ignoreEvents)})
	return NewClient(l, o)
}

// localLink makes calls as function calls.
type localLink struct {
	there  jsonrpc.Answerer
	peer   jsonrpc.Peer
	ctx    context.Context // canceled by Close
	cancel context.CancelCauseFunc
}

func (l *localLink) Do(ctx context.Context, item *jsonrpc.Item) error {
	if item.Err = l.ctx.Err(); item.Err != nil {
		item.Err = jsonrpc.ErrClosed
		return item.Err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(jsonrpc.ErrClosed) })()
	var refused error // error from On: the call is abandoned
	if item.On != nil {
		item.Err = l.peer.Stream(ctx, item.Method, item.Params, item.Result, func(req *jsonrpc.Request) error {
			err := item.On(req)
			if err != nil && refused == nil {
				refused = err
				cancel(err)
			}
			return err
		})
	} else {
		item.Err = l.peer.Call(ctx, item.Method, item.Params, item.Result)
	}
	switch {
	case refused != nil:
		item.Err = refused
	case item.Err != nil && ctx.Err() != nil:
		item.Err = context.Cause(ctx)
	}
	return item.Err
}

// Batch makes the calls concurrently: there is no round trip to save.
func (l *localLink) Batch(ctx context.Context, items []jsonrpc.Item) error {
	var all sync.WaitGroup
	for i := range items {
		all.Go(func() {
			// Params and results of the user may panic; the item holds the result.
			defer rescue.Catch(nil, func(err error) { items[i].Err = err })
			_ = l.Do(ctx, &items[i])
		})
	}
	all.Wait()
	return nil
}

func (l *localLink) Close() error {
	l.cancel(jsonrpc.ErrClosed)
	return nil
}
