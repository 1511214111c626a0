package budget

import "testing"

// TestRecent checks that a long response is expected after one, and no longer after many short
// ones.
func TestRecent(t *testing.T) {
	var r Recent
	for _, step := range []struct {
		n     int
		times int
		want  int64
	}{{100, 5, 0}, {LongResponse, 1, LongResponse}, {1 << 20, 1, 1 << 20}, {1 << 19, 1, 1<<20 - 1<<16}, {100, 40, 0}} {
		for range step.times {
			r.Note(step.n)
		}
		if got := r.Get(); got != step.want {
			t.Errorf("after %d bytes, %d times: %d are expected, want %d", step.n, step.times, got, step.want)
		}
	}
	if first, again := RecentOf("text"), RecentOf(string([]byte("text"))); first != again {
		t.Error("a method has two of them")
	}
}
