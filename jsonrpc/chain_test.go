package jsonrpc_test

import (
	"context"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestChainOrder checks that the first middleware of a Chain is the outermost, and that a Chain of
// none is the handler.
func TestChainOrder(t *testing.T) {
	trace := ""
	named := func(name string) jsonrpc.Middleware {
		return func(next jsonrpc.Handler) jsonrpc.Handler {
			return jsonrpc.HandlerFunc(func(ctx context.Context, req *jsonrpc.Request) (any, error) {
				trace += name
				return next.Handle(ctx, req)
			})
		}
	}
	inner := jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		trace += "h"
		return nil, nil
	})
	for want, h := range map[string]jsonrpc.Handler{
		"h":    jsonrpc.Chain(inner),
		"abch": jsonrpc.Chain(inner, named("a"), named("b"), named("c")),
	} {
		trace = ""
		if _, err := h.Handle(t.Context(), new(jsonrpc.Request)); err != nil || trace != want {
			t.Errorf("the order is %s, want %s (%v)", trace, want, err)
		}
	}
}
