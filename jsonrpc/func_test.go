package jsonrpc_test

import (
	"testing"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// TestParamsOfFindsATypeOnce checks that only the first ParamsOf of a type finds its fields.
func TestParamsOfFindsATypeOnce(t *testing.T) {
	type many struct {
		A, B, C, D, E, F, G, H, I, J, K, L, M, N int
	}
	first := testing.AllocsPerRun(1, func() { ParamsOf[struct{ many }]() })
	if again := testing.AllocsPerRun(10, func() { ParamsOf[struct{ many }]() }); again > 4 {
		t.Errorf("%v allocations, and %v at first", again, first)
	}
}
