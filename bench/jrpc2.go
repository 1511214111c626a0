package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
	"github.com/creachadair/jrpc2/handler"
	"github.com/creachadair/jrpc2/jhttp"
)

// creachadair is github.com/creachadair/jrpc2.
func creachadair() []Entry {
	open := half{
		serve: func(conn net.Conn) (func(), error) { return jrpc2Serve(channel.Line(conn, conn)), nil },
		ask:   func(conn net.Conn) (*Session, error) { return jrpc2Ask(channel.Line(conn, conn)), nil },
	}.on(Pipe, Unix, TCP, Feed)
	open[Memory] = func() (*Session, error) {
		client, server := channel.Direct()
		stop := jrpc2Serve(server)
		s := jrpc2Ask(client)
		hangUp := s.Close
		s.Close = func() { hangUp(); stop() }
		return s, nil
	}
	bridge := jhttp.NewBridge(jrpc2Methods, nil)
	open[HTTPServer] = rawHTTP(bridge, smallRequest, rawBatchOf(smallRequest))
	open[HTTP] = func() (*Session, error) {
		url, stop, err := serveHTTP(bridge)
		if err != nil {
			return nil, err
		}
		s := jrpc2Ask(jhttp.NewChannel(url, &jhttp.ChannelOptions{Client: httpClient()}))
		hangUp := s.Close
		s.Close = func() { hangUp(); stop() }
		return s, nil
	}
	return []Entry{{"jrpc2", Peer, open}}
}

var jrpc2Methods = handler.Map{
	"subtract": handler.New(func(_ context.Context, in Pair) (int, error) { return in.Minuend - in.Subtrahend, nil }),
	"echo": func(_ context.Context, req *jrpc2.Request) (any, error) {
		var in json.RawMessage
		err := req.UnmarshalParams(&in)
		return in, err
	},
}

func jrpc2Serve(c channel.Channel) (stop func()) {
	return jrpc2.NewServer(jrpc2Methods, nil).Start(c).Stop
}

func jrpc2Ask(ch channel.Channel) *Session {
	c := jrpc2.NewClient(ch, nil)
	return &Session{
		Call: func(ctx context.Context) error {
			var got int
			if err := c.CallResult(ctx, "subtract", Pair{minuend, subtrahend}, &got); err != nil {
				return err
			}
			return checkDifference(got)
		},
		Batch: func(ctx context.Context) error {
			specs := make([]jrpc2.Spec, batchSize)
			for i := range specs {
				specs[i] = jrpc2.Spec{Method: "subtract", Params: Pair{minuend, subtrahend}}
			}
			responses, err := c.Batch(ctx, specs)
			if err != nil {
				return err
			}
			if len(responses) != batchSize {
				return fmt.Errorf("%d responses", len(responses))
			}
			for _, r := range responses {
				var got int
				if err := r.UnmarshalResult(&got); err != nil {
					return err
				}
				if err := checkDifference(got); err != nil {
					return err
				}
			}
			return nil
		},
		Echo: func(ctx context.Context, document []byte) error {
			var got json.RawMessage
			if err := c.CallResult(ctx, "echo", json.RawMessage(document), &got); err != nil {
				return err
			}
			return checkEcho(document, got)
		},
		Close: func() { c.Close() },
	}
}
