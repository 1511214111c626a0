package streamable_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/streamable"
)

// A call whose stream breaks off continues where it stopped: the client reconnects with the ID of
// its last event.
func ExampleClient() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, "id: 1\nretry: 10\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"tick\"}\n\n")
			return // and the connection is gone
		}
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"result\":\"behind event %s\",\"id\":1}\n\n", r.Header.Get("Last-Event-ID"))
	}))
	defer web.Close()

	c := streamable.NewClient(web.URL, &streamable.ClientOptions{
		Manner: func(*jsonrpc.Request) streamable.Manner { return streamable.Manner{Bond: streamable.Within} },
	})
	defer c.Close()
	var answer string
	err := c.Stream(context.Background(), "count", nil, &answer, func(req *jsonrpc.Request) error {
		fmt.Println(req.Method)
		return nil
	})
	fmt.Println(answer, err)
	// Output:
	// tick
	// behind event 1 <nil>
}
