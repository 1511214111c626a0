package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for n, want := range map[uint64]int{
		0: 100, 1 << 20: 100, 16 << 20: 100, 20 << 20: 80, 32 << 20: 50, 48 << 20: 33, 64 << 20: 25, 1 << 30: 25, 1 << 40: 25,
	} {
		if got := percent(n); got != want {
			t.Errorf("percent(%d) = %d, want %d", n, got, want)
		}
	}
}

// TestBound checks that the collector is adjusted to what is in use, and back.
func TestBound(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	Bound()
	await := func(least, most int) {
		t.Helper()
		var now int
		for start := time.Now(); time.Since(start) < time.Minute; runtime.Gosched() {
			runtime.GC()
			sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
			metrics.Read(sample)
			now = int(sample[0].Value.Uint64()) //nolint:gosec // a percentage
			if now >= least && now <= most {
				return
			}
		}
		t.Fatalf("the percentage is %d, want %d to %d", now, least, most)
	}
	held := make([]byte, 200<<20)
	await(25, 25)
	runtime.KeepAlive(held) // nothing uses it from here on
	await(100, 100)
}
