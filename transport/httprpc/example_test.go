package httprpc_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/httprpc"
)

type operands struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

func subtract(_ context.Context, in operands) (int, error) { return in.Minuend - in.Subtrahend, nil }

// A server under any mux, and its response to an ordinary HTTP client.
func Example() {
	methods := new(jsonrpc.Mux)
	methods.Add("subtract", jsonrpc.Func(subtract))
	mux := http.NewServeMux()
	mux.Handle("/rpc", httprpc.Handler(methods))
	web := httptest.NewServer(mux)
	defer web.Close()

	answer, err := http.Post(web.URL+"/rpc", "application/json",
		strings.NewReader(`{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	fmt.Println(answer.Status, string(text), err)
	// Output: 200 OK {"jsonrpc":"2.0","result":19,"id":1} <nil>
}

func ExampleClient() {
	methods := new(jsonrpc.Mux)
	methods.Add("subtract", jsonrpc.Func(subtract))
	web := httptest.NewServer(httprpc.Handler(methods))
	defer web.Close()

	client := httprpc.NewClient(web.URL, nil)
	defer client.Close()
	fmt.Println(jsonrpc.Call[int](context.Background(), client, "subtract", operands{Minuend: 42, Subtrahend: 23}))
	fmt.Println(client.Call(context.Background(), "add", []int{5, 3}, nil))
	// Output:
	// 19 <nil>
	// Method not found (-32601)
}

// A handler that notifies turns the response into a stream, for callers that accept one.
func ExampleClient_Stream() {
	methods := new(jsonrpc.Mux)
	methods.Add("countdown", jsonrpc.PeerFunc(func(ctx context.Context, caller jsonrpc.Peer, in struct {
		From int `json:"from"`
	}) (string, error) {
		for n := in.From; n > 0; n-- {
			if err := caller.Notify(ctx, "countdown/tick", []int{n}); err != nil {
				return "", err
			}
		}
		return "lift-off", nil
	}))
	web := httptest.NewServer(httprpc.Handler(methods))
	defer web.Close()

	client := httprpc.NewClient(web.URL, nil)
	defer client.Close()
	var last string
	err := client.Stream(context.Background(), "countdown", []int{3}, &last, func(n *jsonrpc.Request) error {
		fmt.Println(n.Method, string(n.Params))
		return nil
	})
	fmt.Println(last, err)
	// Output:
	// countdown/tick [3]
	// countdown/tick [2]
	// countdown/tick [1]
	// lift-off <nil>
}

func ExampleClient_Batch() {
	methods := new(jsonrpc.Mux)
	methods.Add("subtract", jsonrpc.Func(subtract))
	web := httptest.NewServer(httprpc.Handler(methods))
	defer web.Close()

	client := httprpc.NewClient(web.URL, nil)
	defer client.Close()
	var difference int
	items := []jsonrpc.Item{
		{Method: "subtract", Params: []int{42, 23}, Result: &difference},
		{Method: "multiply", Params: []int{6, 7}},
	}
	if err := client.Batch(context.Background(), items); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(difference, items[0].Err)
	fmt.Println(items[1].Err)
	// Output:
	// 19 <nil>
	// Method not found (-32601)
}
