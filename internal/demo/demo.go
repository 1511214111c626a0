// Package demo implements the demo services of parley: small methods, one for each feature of
// JSON-RPC.
package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/da1ed7bb/parley/internal/x/pause"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// Bounds on what a caller may request. A demo runs on the computer of someone who learns with it.
const (
	maxSleep    = 10 * time.Minute
	maxTicks    = 10_000
	maxInterval = time.Minute
)

// Names of the messages that the demo sends to its client. They are not in the Mux.
const (
	NotifyTick = "countdown/tick"
	CallAnswer = "answer"
)

type operands struct {
	Minuend    Number `json:"minuend" jsonschema:"what is subtracted from"`
	Subtrahend Number `json:"subtrahend" jsonschema:"what is taken away"`
}

func subtract(_ context.Context, in operands) (*Number, error) {
	return in.Minuend.Sub(&in.Subtrahend), nil
}

type summands struct {
	A Number `json:"a" jsonschema:"the first number"`
	B Number `json:"b" jsonschema:"the second number"`
}

func addNumbers(_ context.Context, in summands) (*Number, error) {
	return in.A.Add(&in.B), nil
}

func sum(_ context.Context, numbers []Number) (*Number, error) {
	total := new(Number)
	for i := range numbers {
		total = total.Add(&numbers[i])
		if total.digits() > maxDigits {
			return nil, invalid("", errLongNumber.Reason)
		}
	}
	return total, nil
}

// echo returns the params byte for byte.
func echo(_ context.Context, req *jsonrpc.Request) (any, error) {
	if req.Params == nil {
		return nil, nil
	}
	return req.Params, nil
}

var data = jsonrpc.Raw(`["hello",5]`)

func getData(context.Context, *jsonrpc.Request) (any, error) { return data, nil }

// accept accepts any params and returns null.
func accept(context.Context, *jsonrpc.Request) (any, error) { return nil, nil }

type failure struct {
	Code    int64       `json:"code" jsonschema:"the code of the error, any integer"`
	Message string      `json:"message" jsonschema:"its message"`
	Data    jsonrpc.Raw `json:"data,omitzero" jsonschema:"its data, any value; left out when absent"`
}

func failAsAsked(_ context.Context, in failure) (any, error) {
	return nil, &jsonrpc.Error{Code: in.Code, Message: in.Message, Data: in.Data}
}

type sleepParams struct {
	Ms int64 `json:"ms" jsonschema:"how long to sleep, in milliseconds"`
}

func sleep(ctx context.Context, in sleepParams) (int64, error) {
	if in.Ms < 0 || in.Ms > maxSleep.Milliseconds() {
		return 0, invalid("/ms", fmt.Sprintf("want 0 to %d", maxSleep.Milliseconds()))
	}
	return in.Ms, waitFor(ctx, time.Duration(in.Ms)*time.Millisecond)
}

// waitFor returns after d, or earlier with the cause of ctx.
func waitFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	return pause.For(ctx, d)
}

func panics(context.Context, *jsonrpc.Request) (any, error) {
	panic("demo: the method panic was called")
}

type launch struct {
	From       int   `json:"from" jsonschema:"the number to count down from"`
	IntervalMs int64 `json:"interval_ms,omitzero" jsonschema:"the time between two steps, in milliseconds; 0 if absent"`
}

// A tick is the payload of countdown's notifications. RequestID identifies the call, since a
// connection may carry many.
type tick struct {
	RequestID jsonrpc.ID `json:"request_id"`
	Left      int        `json:"left"`
}

// AppendJSON appends the tick without a codec, so that the request ID is sent unchanged.
func (t tick) AppendJSON(dst []byte) ([]byte, error) {
	dst = t.RequestID.Append(append(dst, `{"request_id":`...))
	dst = strconv.AppendInt(append(dst, `,"left":`...), int64(t.Left), 10)
	return append(dst, '}'), nil
}

func countdown(ctx context.Context, peer jsonrpc.Peer, in launch) (string, error) {
	if in.From < 0 || in.From > maxTicks {
		return "", invalid("/from", fmt.Sprintf("want 0 to %d", maxTicks))
	}
	if in.IntervalMs < 0 || in.IntervalMs > maxInterval.Milliseconds() {
		return "", invalid("/interval_ms", fmt.Sprintf("want 0 to %d", maxInterval.Milliseconds()))
	}
	for left := in.From; left > 0; left-- {
		err := peer.Notify(ctx, NotifyTick, tick{RequestID: requestID(ctx), Left: left})
		// A caller that cannot receive notifications still gets its result.
		if err != nil && !errors.Is(err, jsonrpc.ErrOneWay) {
			return "", err
		}
		if err := waitFor(ctx, time.Duration(in.IntervalMs)*time.Millisecond); err != nil {
			return "", err
		}
	}
	return "liftoff", nil
}

type idKey struct{}

// requestID returns the ID of the current request, for methods that refer to their own call.
func requestID(ctx context.Context) jsonrpc.ID {
	id, _ := ctx.Value(idKey{}).(jsonrpc.ID)
	return id
}

// identify stores the ID of a countdown in its context, because a typed function does not receive
// its request.
func identify(next jsonrpc.Handler) jsonrpc.Handler {
	return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
		if req.Method == "countdown" {
			ctx = context.WithValue(ctx, idKey{}, req.ID)
		}
		return next.Handle(ctx, req)
	})
}

type question struct {
	Question string `json:"question" jsonschema:"the question to send to the caller"`
}

func askCaller(ctx context.Context, peer jsonrpc.Peer, in question) (jsonrpc.Raw, error) {
	said, err := jsonrpc.Call[jsonrpc.Raw](ctx, peer, CallAnswer, in)
	if theirs, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, jsonrpc.NewError(codeNoAnswer, "The client did not answer").WithData(map[string]any{"code": theirs.Code, "message": theirs.Message})
	}
	if errors.Is(err, jsonrpc.ErrOneWay) {
		return nil, jsonrpc.NewError(codeOneWay, "The server cannot send requests over this transport").
			WithData(map[string]any{"reason": "one_way", "retryable": false, "instead": []string{"tcp", "tls", "unix", "ws", "stdio"}})
	}
	return said, err
}

// Codes of the demo's own errors. Applications may use any integer outside the reserved range.
const (
	codeNoAnswer = 1001
	codeOneWay   = 1002
	codeNoToken  = 1003
)

// invalid returns the error for params with valid types and invalid values. pointer locates the
// value (RFC 6901).
func invalid(pointer, reason string) *jsonrpc.Error {
	return jsonrpc.ErrInvalidParams.WithData(jsonrpc.ParamFault{Pointer: pointer, Reason: reason})
}
