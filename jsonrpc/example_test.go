package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/inproc"
)

type operands struct {
	Minuend    int `json:"minuend"`
	Subtrahend int `json:"subtrahend"`
}

// The example connects two sides: a server with a typed method, and a client that calls it by
// position and by name.
func Example() {
	var mux jsonrpc.Mux
	mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in operands) (int, error) {
		return in.Minuend - in.Subtrahend, nil
	}))

	ctx := context.Background()
	here, there := inproc.Pipe(nil)
	server := jsonrpc.NewConn(there)
	server.Handler = &mux
	server.Start(ctx)
	defer server.Close()

	client := jsonrpc.NewConn(here)
	client.Start(ctx)
	defer client.Close()

	fmt.Println(jsonrpc.Call[int](ctx, client, "subtract", []int{42, 23}))
	fmt.Println(jsonrpc.Call[int](ctx, client, "subtract", operands{Minuend: 23, Subtrahend: 42}))
	fmt.Println(client.Call(ctx, "divide", nil, nil))
	// Output:
	// 19 <nil>
	// -19 <nil>
	// Method not found (-32601)
}

// Params that do not match the Go type of a method are rejected before the method runs, with a
// pointer to the invalid param.
func ExampleFunc() {
	h := jsonrpc.Func(func(_ context.Context, in operands) (int, error) { return in.Minuend - in.Subtrahend, nil })
	for _, params := range []string{`[42,23]`, `{"subtrahend":23,"minuend":42}`, `[42]`, `{"minuend":42,"subtrahend":"x"}`} {
		result, err := h.Handle(context.Background(), &jsonrpc.Request{Params: jsonrpc.Raw(params)})
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			fmt.Println(e, string(e.Data))
			continue
		}
		fmt.Println(result)
	}
	// Output:
	// 19
	// 19
	// Invalid params (-32602) {"pointer":"/1","reason":"subtrahend is required"}
	// Invalid params (-32602) {"pointer":"/subtrahend","reason":"want integer in range, got string"}
}

// A handler notifies its caller while it runs.
func ExamplePeerFunc() {
	var server, client jsonrpc.Mux
	server.Add("greet", jsonrpc.PeerFunc(func(ctx context.Context, caller jsonrpc.Peer, _ struct{}) (string, error) {
		name, err := jsonrpc.Call[string](ctx, caller, "name", nil)
		return "Hello, " + name, err
	}))
	client.Add("name", jsonrpc.Func(func(context.Context, struct{}) (string, error) { return "Ada", nil }))

	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: &server}, &jsonrpc.Answerer{Handler: &client})
	fmt.Println(jsonrpc.Call[string](context.Background(), peer, "greet", nil))
	// Output: Hello, Ada <nil>
}

// An Answerer takes a payload and returns the response, without a Conn. A transport such as HTTP
// needs nothing else.
func ExampleAnswerer() {
	var mux jsonrpc.Mux
	mux.Add("sum", jsonrpc.Func(func(_ context.Context, in []int) (sum int, err error) {
		for _, n := range in {
			sum += n
		}
		return sum, nil
	}))
	a := &jsonrpc.Answerer{Handler: &mux}
	for _, payload := range []string{
		`{"jsonrpc":"2.0","method":"sum","params":[1,2,4],"id":9007199254740993}`,
		`[{"jsonrpc":"2.0","method":"sum","id":"a"},{"jsonrpc":"2.0","method":"sum"},1]`,
		`{"jsonrpc":"2.0","method":`,
	} {
		response, _ := a.Answer(context.Background(), nil, []byte(payload), &jsonrpc.Exchange{})
		fmt.Println(string(response))
	}
	// Output:
	// {"jsonrpc":"2.0","result":7,"id":9007199254740993}
	// [{"jsonrpc":"2.0","result":0,"id":"a"},{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]
	// {"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}
}

// Conn.Batch sends many calls in one array, each with its own result.
func ExampleConn_Batch() {
	var mux jsonrpc.Mux
	mux.Add("subtract", jsonrpc.Func(func(_ context.Context, in operands) (int, error) { return in.Minuend - in.Subtrahend, nil }))
	ctx := context.Background()
	here, there := inproc.Pipe(nil)
	server, client := jsonrpc.NewConn(there), jsonrpc.NewConn(here)
	server.Handler = &mux
	server.Start(ctx)
	client.Start(ctx)
	defer server.Close()
	defer client.Close()

	var difference int
	items := []jsonrpc.Item{
		{Method: "subtract", Params: []int{42, 23}, Result: &difference},
		{Method: "log", Params: []string{"noted"}, Notify: true},
		{Method: "divide"},
	}
	if err := client.Batch(ctx, items); err != nil {
		fmt.Println(err)
	}
	fmt.Println(difference, items[0].Err)
	fmt.Println(items[2].Err)
	// Output:
	// 19 <nil>
	// Method not found (-32601)
}

// Scan returns the messages of a payload without copying: params and ids are the original bytes.
func ExampleScan() {
	err := jsonrpc.Scan([]byte(`[{"jsonrpc":"2.0","method":"run","params":{"n":1.0},"id":"a"},{"jsonrpc":"2.0","result":[],"id":7}]`),
		func(m *jsonrpc.Message) {
			fmt.Printf("request=%v id=%v method=%q params=%s result=%s.\n", m.Request, m.ID, m.Method, m.Params, m.Result)
		})
	fmt.Println(err)
	// Output:
	// request=true id="a" method="run" params={"n":1.0} result=.
	// request=false id=7 method="" params= result=[].
	// <nil>
}

// A handler that forwards all params but one does not need a Go type for them.
func ExampleRaw_Members() {
	params := jsonrpc.Raw(`{"user":"ada","token":"secret","limit":10}`)
	out := []byte{'{'}
	for name, value := range params.Members() {
		if string(name) == "token" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(jsonrpc.AppendString(out, string(name)), ':'), value...)
	}
	fmt.Printf("%s}\n", out)
	// Output: {"user":"ada","limit":10}
}

func ExampleRaw_Elements() {
	for element := range jsonrpc.Raw(`[1.50, "two", {"three":3}]`).Elements() {
		fmt.Printf("%s\n", element)
	}
	// Output:
	// 1.50
	// "two"
	// {"three":3}
}

func ExampleAppendString() {
	fmt.Printf("%s\n", jsonrpc.AppendString([]byte(`"text":`), "one\ttab"))
	// Output: "text":"one\ttab"
}
