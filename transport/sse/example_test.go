package sse_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/sse"
)

func ExampleReader() {
	stream := strings.NewReader(": hello\n\nevent: tick\ndata: 3\n\ndata: first line\ndata: second line\n\n")
	r := sse.NewReader(stream, 0)
	for {
		e, err := r.Next()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %q\n", e.Type, e.Data)
	}
	// Output:
	// tick "3"
	// message "first line\nsecond line"
	// EOF
}

func ExampleWriter() {
	handler := func(w http.ResponseWriter, r *http.Request) {
		events := sse.NewWriter(w, nil)
		for n := range 3 {
			if events.Send(r.Context(), sse.Event{Data: fmt.Append(nil, 3-n)}) != nil {
				break // the client is gone
			}
		}
		_ = events.Finish(sse.Event{Type: "end", Data: []byte("lift-off")})
	}
	w := httptest.NewRecorder()
	handler(w, httptest.NewRequest("GET", "/", nil))
	fmt.Print(w.Body)
	// Output:
	// data: 3
	//
	// data: 2
	//
	// data: 1
	//
	// event: end
	// data: lift-off
}

func ExamplePair() {
	greeter := jsonrpc.Func(func(_ context.Context, names []string) (string, error) { return "hello, " + names[0], nil })
	mux := new(jsonrpc.Mux)
	mux.Add("greet", greeter)

	web := httptest.NewServer(&sse.Pair{Serve: func(ctx context.Context, t jsonrpc.Transport, _ *http.Request) {
		conn := jsonrpc.NewConn(t)
		conn.Handler = mux
		_ = conn.Serve(ctx) // errors of the client's end are ignored
	}})
	defer web.Close()

	transport, err := sse.Dial(context.Background(), web.URL, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	conn := jsonrpc.NewConn(transport)
	conn.Start(context.Background())
	defer conn.Close()
	fmt.Println(jsonrpc.Call[string](context.Background(), conn, "greet", []string{"world"}))
	// Output: hello, world <nil>
}
