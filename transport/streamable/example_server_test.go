package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A minimal protocol: the method hello begins a session, and count notifies before it responds.
func ExampleServer() {
	var mux jsonrpc.Mux
	mux.Add("hello", jsonrpc.Func(func(context.Context, struct{}) (string, error) { return "welcome", nil }))
	mux.Add("count", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, to []int) (string, error) {
		for n := range to[0] {
			if err := p.Notify(ctx, "tick", []int{n + 1}); err != nil {
				return "", err
			}
		}
		return "done", nil
	}))
	s := &streamable.Server{
		SessionHeader: "Example-Session",
		Door: func(r *http.Request, _ []byte) streamable.Route {
			return streamable.Route{Begin: r.Header.Get("Example-Session") == ""}
		},
		Begin: func(n *streamable.Session, _ *http.Request) { n.Answerer.Handler = &mux },
	}
	defer s.Close()
	web := httptest.NewServer(s)
	defer web.Close()

	session := ""
	for _, body := range []string{`{"jsonrpc":"2.0","method":"hello","id":1}`, `{"jsonrpc":"2.0","method":"count","params":[2],"id":2}`} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, web.URL, strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Example-Session", session)
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		session = answer.Header.Get("Example-Session")
		text, _ := io.ReadAll(answer.Body) // prints what has arrived
		answer.Body.Close()
		fmt.Printf("%s\n%s\n\n", answer.Header.Get("Content-Type"), strings.TrimSpace(string(text)))
	}
	// Output:
	// application/json
	// {"jsonrpc":"2.0","result":"welcome","id":1}
	//
	// text/event-stream
	// id: 1-1
	// data: {"jsonrpc":"2.0","method":"tick","params":[1]}
	//
	// id: 1-2
	// data: {"jsonrpc":"2.0","method":"tick","params":[2]}
	//
	// id: 1-3
	// data: {"jsonrpc":"2.0","result":"done","id":2}
}
