package load_test

import (
	"context"
	"fmt"
	"time"

	"github.com/da1ed7bb/parley/internal/load"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Two callers send batches of two calls at a fixed rate. The server lacks the second method.
func Example() {
	var mux jsonrpc.Mux
	mux.Add("even", jsonrpc.Func(func(_ context.Context, in []int) (bool, error) { return in[0]%2 == 0, nil }))
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: &mux}, nil)

	l := load.New(load.Options{
		Rate:    1e6,
		Callers: 2,
		Call: func(ctx context.Context, caller int) []error {
			return []error{peer.Call(ctx, "even", []int{caller}, nil), peer.Call(ctx, "odd", []int{caller}, nil)}
		},
	})
	l.Run(context.Background(), 19500*time.Nanosecond) // batches 0 to 19, one each microsecond
	fmt.Println(l.Calls(), l.Times.Count(), l.Errors())
	// Output: 40 40 map[-32601:20]
}

// The percentiles of a thousand durations.
func ExampleHistogram() {
	var times load.Histogram
	for i := range 1000 {
		times.Add(time.Duration(i+1) * time.Millisecond)
	}
	for _, q := range []float64{0.5, 0.99} {
		fmt.Println(times.Quantile(q).Round(time.Millisecond))
	}
	fmt.Println(times.Count(), times.Max())
	// Output:
	// 500ms
	// 990ms
	// 1000 1s
}
