package a2a

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestHasSnake compares hasSnake with a search for each name in random texts.
func TestHasSnake(t *testing.T) {
	names := slices.Sorted(maps.Keys(snakeNames))
	pieces := append([]string{`"`, `"`, `"`, `_`, `__`, `\`, `ROLE_USER`, `task`, `_id`, `:`, ` `, strings.Repeat("x", maxSnake), strings.Repeat("_", 2*maxSnake)}, names...)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	found := 0
	for range 20_000 {
		var text []byte
		for range random.IntN(8) {
			text = append(text, pieces[random.IntN(len(pieces))]...)
		}
		want := slices.ContainsFunc(names, func(name string) bool { return bytes.Contains(text, []byte(`"`+name+`"`)) })
		if got := hasSnake(jsonrpc.Raw(text)); got != want {
			t.Fatalf("hasSnake(%s) = %t, seed %d", text, got, seed)
		}
		if want {
			found++
		}
	}
	if found < 100 {
		t.Errorf("only %d texts have a name", found)
	}
}

// BenchmarkCamel measures params without old names that contain a long text.
func BenchmarkCamel(b *testing.B) {
	for name, text := range map[string]string{"text": strings.Repeat("x", 32<<10), "underscores": strings.Repeat("_", 32<<10)} {
		b.Run(name, func(b *testing.B) {
			params := jsonrpc.Raw(`{"message":{"role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}`)
			for b.Loop() {
				camel(params)
			}
		})
	}
}
