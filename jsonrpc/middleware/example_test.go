package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/middleware"
)

// logger writes to standard output, without the attributes that differ between runs.
func logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "duration" {
			return slog.Attr{}
		}
		return a
	}}))
}

func greet(_ context.Context, in struct {
	Name  string `json:"name"`
	Token string `json:"token,omitzero"`
}) (string, error) {
	if in.Name == "" {
		return "", jsonrpc.NewError(1, "no name")
	}
	return "hello " + in.Name, nil
}

func Example() {
	mux := new(jsonrpc.Mux)
	mux.Add("greet", jsonrpc.Func(greet))
	answerer := &jsonrpc.Answerer{Handler: jsonrpc.Chain(mux,
		middleware.Slog(logger(slog.LevelInfo), nil),
		middleware.Limit(middleware.Budget{PerSecond: 100}),
		middleware.Timeout(10*time.Second, nil),
	)}
	peer := jsonrpc.Local(answerer, nil)

	for _, name := range []string{"you", ""} {
		answer, err := jsonrpc.Call[string](context.Background(), peer, "greet", []string{name})
		fmt.Printf("%q %v\n", answer, err)
	}
	// Output:
	// level=INFO msg=request method=greet id=0 params_bytes=7
	// "hello you" <nil>
	// level=WARN msg=request method=greet id=0 params_bytes=4 code=1 error="no name"
	// "" no name (1)
}

func ExampleSlog() {
	h := middleware.Slog(logger(slog.LevelDebug), &middleware.SlogOptions{Params: true, Group: "rpc"})(jsonrpc.Func(greet))
	_, err := h.Handle(context.Background(), &jsonrpc.Request{
		ID: jsonrpc.StringID("a"), Method: "greet", Params: jsonrpc.Raw(`{"name":"you","token":"t0ps3cret"}`),
	})
	fmt.Println(err)
	// Output:
	// level=DEBUG msg=request rpc.method=greet rpc.id="\"a\"" rpc.params="{\"name\":\"you\",\"token\":\"[redacted]\"}"
	// level=INFO msg=request rpc.method=greet rpc.id="\"a\"" rpc.params_bytes=34
	// <nil>
}

func ExampleLimit() {
	mux := new(jsonrpc.Mux)
	mux.Add("greet", jsonrpc.Func(greet))
	h := middleware.Limit(middleware.Budget{PerSecond: 0.001, Burst: 2})(mux)
	peer := jsonrpc.Local(&jsonrpc.Answerer{Handler: h}, nil)
	for range 3 {
		err := peer.Call(context.Background(), "greet", []string{"you"}, nil)
		if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
			var fault jsonrpc.FaultData
			fmt.Println(e.Code, e.Message, e.Data.Decode(&fault), fault.Reason, fault.Retryable)
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// -31001 Busy <nil> rate true
}

func ExampleRecover() {
	h := middleware.Recover(nil)(jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		panic("boom")
	}))
	_, err := h.Handle(context.Background(), &jsonrpc.Request{Method: "explode"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, jsonrpc.ErrInternal))
	// Output:
	// middleware: the handler of "explode" panicked: boom
	// true
}

func ExampleTimeout() {
	h := middleware.Timeout(time.Minute, map[string]time.Duration{"wait": time.Millisecond})(
		jsonrpc.HandlerFunc(func(ctx context.Context, _ *jsonrpc.Request) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	_, err := h.Handle(context.Background(), &jsonrpc.Request{Method: "wait"})
	fmt.Println(err)
	// Output: Deadline exceeded (-31002)
}

func ExampleRedactor() {
	r := &middleware.Redactor{Names: []string{"pin"}, Secrets: []string{"hunter2"}}
	fmt.Println(r.Text(jsonrpc.Raw(`{"user":"me","apiKey":"k","pin":1234,"note":"not hunter2","url":"https://me:pw@example.com/"}`)))
	fmt.Println(r.Text(jsonrpc.Raw(`["me","pw",3]`)))
	// Output:
	// {"user":"me","apiKey":"[redacted]","pin":"[redacted]","note":"not [redacted]","url":"https://[redacted]@example.com/"}
	// ["[redacted]","[redacted]",3]
}
