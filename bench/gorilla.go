package main

import (
	"bytes"
	"context"
	"net/http"

	"github.com/gorilla/rpc/v2"
	"github.com/gorilla/rpc/v2/json2"
)

// gorilla is github.com/gorilla/rpc/v2/json2: HTTP only, no batches, and methods with a service
// prefix.
func gorilla() []Entry {
	const request = `{"jsonrpc":"2.0","method":"Math.Subtract","params":{"minuend":42,"subtrahend":23},"id":12345}`
	server := rpc.NewServer()
	server.RegisterCodec(json2.NewCodec(), "application/json")
	must(server.RegisterService(gorillaMath{}, "Math"))
	return []Entry{{"gorilla", Peer, map[Transport]func() (*Session, error){
		HTTPServer: rawHTTP(server, request, ""),
		HTTP:       func() (*Session, error) { return gorillaHTTP(server) },
	}}}
}

type gorillaMath struct{}

func (gorillaMath) Subtract(_ *http.Request, in *Pair, out *int) error {
	*out = in.Minuend - in.Subtrahend
	return nil
}

func gorillaHTTP(server http.Handler) (*Session, error) {
	url, stop, err := serveHTTP(server)
	if err != nil {
		return nil, err
	}
	client := httpClient()
	return &Session{
		Call: func(ctx context.Context) error {
			body, err := json2.EncodeClientRequest("Math.Subtract", Pair{minuend, subtrahend})
			if err != nil {
				return err
			}
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			answer, err := client.Do(r)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			var got int
			if err := json2.DecodeClientResponse(answer.Body, &got); err != nil {
				return err
			}
			return checkDifference(got)
		},
		Close: func() { client.CloseIdleConnections(); stop() },
	}, nil
}
