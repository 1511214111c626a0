package guard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/da1ed7bb/parley/internal/x/progress/progresstest"
)

// TestBodyOfASlowReader: the time of a write is that without progress.
func TestBodyOfASlowReader(t *testing.T) {
	const size = 15 << 20
	for name, most := range map[string]int{"steady": 0, "stops": 9 << 20, "deaf": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var watch Watch
				to := progresstest.New(512<<10, most)
				watch.Write(to, 10*time.Second, func(out *Watched) { out.Body(make([]byte, size)) })
				taken, silent := to.Taken()
				want := size
				if most > 0 {
					want = most
				}
				if taken != want || most > 0 && (silent < 9*time.Second || silent > 13*time.Second) {
					t.Errorf("%d bytes were taken, the last ones %v before the end; want %d bytes", taken, silent, want)
				}
				time.Sleep(3 * time.Second) // the tick ends
			})
		})
	}
}
