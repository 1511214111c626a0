package main

import (
	"context"
	"encoding/json"
	"io"
	"net"

	xexp "golang.org/x/exp/jsonrpc2"
)

// xExp is golang.org/x/exp/jsonrpc2. It has no batches.
func xExp() []Entry {
	connect := func(conn net.Conn) (*xexp.Connection, error) {
		return xexp.Dial(context.Background(), xexpConn{conn}, xexp.ConnectionOptions{Framer: xexp.RawFramer(), Handler: xexp.HandlerFunc(xexpHandle)})
	}
	return []Entry{{"x/exp", Peer, half{
		serve: func(conn net.Conn) (func(), error) {
			_, err := connect(conn)
			return func() { conn.Close() }, err // its Close waits for the other end
		},
		ask: func(conn net.Conn) (*Session, error) {
			c, err := connect(conn)
			if err != nil {
				return nil, err
			}
			return xexpSession(c), nil
		},
	}.on(Pipe, Unix, TCP, Feed)}}
}

// An xexpConn is an existing connection.
type xexpConn struct{ conn net.Conn }

func (c xexpConn) Dial(context.Context) (io.ReadWriteCloser, error) { return c.conn, nil }

func xexpHandle(_ context.Context, req *xexp.Request) (any, error) {
	switch req.Method {
	case "subtract":
		var in Pair
		if err := json.Unmarshal(req.Params, &in); err != nil {
			return nil, xexp.ErrInvalidParams
		}
		return in.Minuend - in.Subtrahend, nil
	case "echo":
		return req.Params, nil
	}
	return nil, xexp.ErrMethodNotFound
}

func xexpSession(c *xexp.Connection) *Session {
	return &Session{
		Call: func(ctx context.Context) error {
			var got int
			if err := c.Call(ctx, "subtract", Pair{minuend, subtrahend}).Await(ctx, &got); err != nil {
				return err
			}
			return checkDifference(got)
		},
		Echo: func(ctx context.Context, document []byte) error {
			var got json.RawMessage
			if err := c.Call(ctx, "echo", json.RawMessage(document)).Await(ctx, &got); err != nil {
				return err
			}
			return checkEcho(document, got)
		},
		Close: func() {},
	}
}
