package httprpc

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// TestSlowReaderGetsItsResponse: ten seconds are those without progress, not those of the whole
// body.
func TestSlowReaderGetsItsResponse(t *testing.T) {
	const size = 15 << 20
	for _, major := range []int{1, 2} {
		for name, most := range map[string]int{"steady": 0, "stops": 9 << 20} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					long := make([]byte, size)
					s := &Server{Answerer: answering(func(_ context.Context, dst, _ []byte, _ *jsonrpc.Exchange) ([]byte, *jsonrpc.Error) {
						return append(dst, long...), nil
					})}
					r := httptest.NewRequest("POST", "/", strings.NewReader(callText))
					r.ProtoMajor = major
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json")
					client := progresstest.New(512<<10, most)
					s.ServeHTTP(client, r)
					taken, silent := client.Taken()
					switch {
					case most == 0 && taken != size:
						t.Errorf("%d bytes were taken", taken)
					case most > 0 && (taken != most || silent < 9*time.Second || silent > 13*time.Second):
						t.Errorf("%d bytes were taken, the last ones %v before the end", taken, silent)
					}
					time.Sleep(3 * time.Second) // the tick ends
				})
			})
		}
	}
}
