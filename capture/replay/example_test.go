package replay_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/capture/replay"
	"github.com/da1ed7bb/parley/jsonrpc"
)

const session = `{"parley":"session","version":1}
{"kind":"message","dir":"out","frame":{"jsonrpc":"2.0","id":1,"method":"sum","params":[1,2]}}
{"kind":"message","dir":"in","frame":{"jsonrpc":"2.0","id":1,"result":3}}
{"kind":"message","dir":"out","frame":{"jsonrpc":"2.0","id":2,"method":"count","params":{"to":2,"_meta":{"progressToken":"p"}}}}
{"kind":"message","dir":"in","frame":{"jsonrpc":"2.0","method":"tick","params":{"progressToken":"p","n":1}}}
{"kind":"message","dir":"in","frame":{"jsonrpc":"2.0","id":2,"result":{"n":2}}}
{"kind":"message","dir":"out","frame":{"jsonrpc":"2.0","id":3,"method":"sum","params":[1,2]}}
{"kind":"message","dir":"in","frame":{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"tired"}}}`

func Example() {
	l, err := capture.Read(strings.NewReader(session))
	if err != nil {
		log.Fatal(err)
	}
	server, err := replay.NewServer(l, capture.Out)
	if err != nil {
		log.Fatal(err)
	}
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: server}, nil)
	ctx := context.Background()
	fmt.Println(jsonrpc.Call[int](ctx, peer, "sum", []int{1, 2}))
	fmt.Println(jsonrpc.Call[int](ctx, peer, "sum", []int{1, 2}))

	var n struct {
		N int `json:"n"`
	}
	err = peer.Stream(ctx, "count", map[string]any{"to": 2, "_meta": map[string]any{"progressToken": 7}}, &n, func(r *jsonrpc.Request) error {
		fmt.Println(r.Method, string(r.Params))
		return nil
	})
	fmt.Println(n, err)

	again, err := replay.NewServer(l, capture.Out)
	if err != nil {
		log.Fatal(err)
	}
	var mux jsonrpc.Mux
	mux.Add("sum", jsonrpc.Func(func(_ context.Context, in []int) (int, error) { return in[0] + in[1], nil }))
	differences, err := again.Compare(ctx, jsonrpc.Local(&jsonrpc.Answerer{Handler: &mux}, nil), nil)
	for _, d := range differences {
		fmt.Println(d)
	}
	fmt.Println(err)
	// Output:
	// 3 <nil>
	// 0 tired (-1)
	// tick {"progressToken":7,"n":1}
	// {2} <nil>
	// #3 count: the response was {"n":2}, is error Method not found (-32601)
	// #6 sum: the response was error {"code":-1,"message":"tired"}, is 3
	// <nil>
}
