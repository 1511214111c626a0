package parley

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/race"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A nest is a message that is returned after the given number of further calls between the two
// sides.
type nest struct {
	Depth int    `json:"depth"`
	Text  string `json:"text"`
}

// addNests adds methods for two sides that call each other with long texts.
func addNests(m *jsonrpc.Mux) {
	m.Add("nest", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in nest) (string, error) {
		if in.Depth == 0 {
			return in.Text, nil
		}
		return jsonrpc.Call[string](ctx, p, "nest", nest{in.Depth - 1, in.Text})
	}))
	// the server starts the calls
	m.Add("nests", jsonrpc.PeerFunc(func(ctx context.Context, p jsonrpc.Peer, in []int) (int, error) {
		return in[0], nests(ctx, p, in[0])
	}))
}

// nests makes n concurrent calls with three levels of nesting and 128 KiB each, and returns the
// first error.
func nests(ctx context.Context, p jsonrpc.Peer, n int) error {
	text := strings.Repeat("0123456789abcdef", 8<<10)
	errs := make(chan error, n)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			own := fmt.Sprint(i, text)
			got, err := jsonrpc.Call[string](ctx, p, "nest", nest{3, own})
			if err == nil && got != own {
				err = fmt.Errorf("call %d: another text of %d bytes", i, len(got))
			}
			if err != nil {
				errs <- err
			}
		})
	}
	wait.Wait()
	close(errs)
	return <-errs
}

// pairsAtOnce returns how many callers each side has: 1,000 with PARLEY_LONG, 100 without the race
// detector, as in make faults, and 10 with it.
func pairsAtOnce() int {
	switch {
	case os.Getenv("PARLEY_LONG") != "":
		return 1000
	case race.Enabled:
		return 10
	}
	return 100
}

// TestNestedCallsFinish checks that concurrent calls finish when both sides of one connection call
// each other, with three levels of nesting and 128 KiB each.
func TestNestedCallsFinish(t *testing.T) {
	eachDuplex(t, func(t *testing.T, c *Client) {
		n := pairsAtOnce()
		var wait sync.WaitGroup
		wait.Go(func() {
			if err := nests(t.Context(), c, n); err != nil {
				t.Errorf("calls of the client: %v", err)
			}
		})
		if got, err := jsonrpc.Call[int](t.Context(), c, "nests", []int{n}); err != nil || got != n {
			t.Errorf("calls of the server: %d, %v", got, err)
		}
		wait.Wait()
	})
}
