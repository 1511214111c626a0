package jsonrpc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestPlainNumbersAreThoseOfTheCodec checks that a number of a struct has the same text whether the
// codec writes it or not.
func TestPlainNumbersAreThoseOfTheCodec(t *testing.T) {
	type one struct {
		X float64 `json:"x"`
	}
	check := func(x float64) {
		t.Helper()
		want, wantErr := json.Marshal(one{x}, encodeOptions)
		got, err := appendValue(nil, one{x})
		if (err == nil) != (wantErr == nil) || err == nil && string(got) != string(want) {
			t.Errorf("%v: got %s %v, want %s %v", x, got, err, want, wantErr)
		}
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 65, 1e-6, 9.99e-7, 1e-7, 1.5e-10, 1e15, 1e20, 123456789012345678901, 1e21, 1.7e300,
		math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(), 1 << 53, 1<<53 + 2, math.Pi} {
		check(x)
		check(-x)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		check(math.Float64frombits(random.Uint64()))
		check(random.NormFloat64() * math.Pow(10, float64(random.IntN(50)-20)))
	}
}

func TestPlainNumbersAreNotLeftToTheCodec(t *testing.T) {
	type one struct {
		X float64 `json:"x"`
	}
	if out, ok := appendPlain(nil, one{0.5}); !ok || string(out) != `{"x":0.5}` {
		t.Errorf("got %s %v", out, ok)
	}
}
