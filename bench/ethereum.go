package main

import (
	"context"
	"encoding/json"
	"net"
	"strings"

	ethereum "github.com/ethereum/go-ethereum/rpc"
)

// goEthereum is github.com/ethereum/go-ethereum/rpc. Its methods have a service prefix and only
// positional params, so the call is math_subtract [{"minuend":42,"subtrahend":23}].
func goEthereum() []Entry {
	const request = `{"jsonrpc":"2.0","method":"math_subtract","params":[{"minuend":42,"subtrahend":23}],"id":`
	open := half{
		serve: func(conn net.Conn) (func(), error) {
			s := ethereumServer()
			go s.ServeCodec(ethereum.NewCodec(conn), 0)
			return s.Stop, nil
		},
		ask: func(conn net.Conn) (*Session, error) {
			return ethereumSession(ethereum.DialIO(context.Background(), conn, conn))
		},
		request: request,
	}.on(Pipe, Unix, TCP, Feed)
	open[Memory] = func() (*Session, error) { return ethereumSession(ethereum.DialInProc(ethereumServer()), nil) }
	open[HTTPServer] = rawHTTP(ethereumServer(), request+"12345}", rawBatchOf(request+"12345}"))
	open[HTTP] = func() (*Session, error) {
		url, stop, err := serveHTTP(ethereumServer())
		if err != nil {
			return nil, err
		}
		return closing(stop)(ethereumSession(ethereum.DialOptions(context.Background(), url, ethereum.WithHTTPClient(httpClient()))))
	}
	open[WebSocket] = func() (*Session, error) {
		url, stop, err := serveHTTP(ethereumServer().WebsocketHandler([]string{"*"}))
		if err != nil {
			return nil, err
		}
		return closing(stop)(ethereumSession(ethereum.DialContext(context.Background(), strings.Replace(url, "http", "ws", 1))))
	}
	return []Entry{{"go-ethereum", Peer, open}}
}

// closing adds stop to the closing of a session.
func closing(stop func()) func(*Session, error) (*Session, error) {
	return func(s *Session, err error) (*Session, error) {
		if err != nil {
			stop()
			return nil, err
		}
		hangUp := s.Close
		s.Close = func() { hangUp(); stop() }
		return s, nil
	}
}

type ethereumMath struct{}

func (ethereumMath) Subtract(in Pair) int { return in.Minuend - in.Subtrahend }

func (ethereumMath) Echo(in json.RawMessage) json.RawMessage { return in }

func ethereumServer() *ethereum.Server {
	s := ethereum.NewServer()
	must(s.RegisterName("math", ethereumMath{}))
	return s
}

func ethereumSession(c *ethereum.Client, err error) (*Session, error) {
	if err != nil {
		return nil, err
	}
	return &Session{
		Call: func(ctx context.Context) error {
			var got int
			if err := c.CallContext(ctx, &got, "math_subtract", Pair{minuend, subtrahend}); err != nil {
				return err
			}
			return checkDifference(got)
		},
		Batch: func(ctx context.Context) error {
			var got [batchSize]int
			batch := make([]ethereum.BatchElem, batchSize)
			for i := range batch {
				batch[i] = ethereum.BatchElem{Method: "math_subtract", Args: []any{Pair{minuend, subtrahend}}, Result: &got[i]}
			}
			if err := c.BatchCallContext(ctx, batch); err != nil {
				return err
			}
			for i := range batch {
				if batch[i].Error != nil {
					return batch[i].Error
				}
				if err := checkDifference(got[i]); err != nil {
					return err
				}
			}
			return nil
		},
		Echo: func(ctx context.Context, document []byte) error {
			var got json.RawMessage
			if err := c.CallContext(ctx, &got, "math_echo", json.RawMessage(document)); err != nil {
				return err
			}
			return checkEcho(document, got)
		},
		Close: c.Close,
	}, nil
}
