package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"

	sourcegraph "github.com/sourcegraph/jsonrpc2"
)

// sourcegraphRPC is github.com/sourcegraph/jsonrpc2. It has no batches.
func sourcegraphRPC() []Entry {
	connect := func(conn net.Conn) *sourcegraph.Conn {
		return sourcegraph.NewConn(context.Background(), sourcegraph.NewPlainObjectStream(conn),
			// The library logs the end of the connection.
			sourcegraph.HandlerWithError(sourcegraphHandle).SuppressErrClosed(), sourcegraph.SetLogger(log.New(io.Discard, "", 0)))
	}
	return []Entry{{"sourcegraph", Peer, half{
		serve: func(conn net.Conn) (func(), error) {
			c := connect(conn)
			return func() { c.Close() }, nil
		},
		ask: func(conn net.Conn) (*Session, error) { return sourcegraphSession(connect(conn)), nil },
	}.on(Pipe, Unix, TCP, Feed)}}
}

func sourcegraphHandle(_ context.Context, _ *sourcegraph.Conn, req *sourcegraph.Request) (any, error) {
	switch {
	case req.Params == nil:
		return nil, &sourcegraph.Error{Code: sourcegraph.CodeInvalidParams}
	case req.Method == "subtract":
		var in Pair
		if err := json.Unmarshal(*req.Params, &in); err != nil {
			return nil, &sourcegraph.Error{Code: sourcegraph.CodeInvalidParams, Message: err.Error()}
		}
		return in.Minuend - in.Subtrahend, nil
	case req.Method == "echo":
		return req.Params, nil
	}
	return nil, &sourcegraph.Error{Code: sourcegraph.CodeMethodNotFound}
}

func sourcegraphSession(c *sourcegraph.Conn) *Session {
	return &Session{
		Call: func(ctx context.Context) error {
			var got int
			if err := c.Call(ctx, "subtract", Pair{minuend, subtrahend}, &got); err != nil {
				return err
			}
			return checkDifference(got)
		},
		Echo: func(ctx context.Context, document []byte) error {
			var got json.RawMessage
			if err := c.Call(ctx, "echo", json.RawMessage(document), &got); err != nil {
				return err
			}
			// The library decodes the response into maps and encodes it again, which changes the
			// order of members.
			if len(got) != len(document) {
				return checkEcho(document, got)
			}
			return nil
		},
		Close: func() { c.Close() },
	}
}
