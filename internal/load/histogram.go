// Package load sends calls at a given concurrency or rate and measures how long they take.
package load

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A Histogram counts durations with a relative error below 0.1 % (in the manner of HDR histograms):
// each power of two is divided into 1,024 parts. It is safe for concurrent use.
type Histogram struct {
	counts [(64 - precision) << precision]atomic.Uint64
	total  atomic.Uint64
	max    atomic.Int64
}

// precision is the number of bits of a duration, in nanoseconds, that are exact.
const precision = 10

// slot returns the index of a duration, and upper the longest duration of an index.
func slot(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(bits.Len64(n)-precision-1, 0)
	return shift<<precision + int(n>>shift)
}

func upper(i int) time.Duration {
	shift := max(i>>precision-1, 0)
	part := i - shift<<precision
	return time.Duration(part+1)<<shift - 1
}

// Add counts one duration. A negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	h.counts[slot(d)].Add(1)
	h.total.Add(1)
	for {
		old := h.max.Load()
		if int64(d) <= old || h.max.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 { return h.total.Load() }

// Max returns the longest duration.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max.Load()) }

// Quantile returns a duration that a share q of all durations does not exceed, or 0 without any.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := uint64(q*float64(h.Count()) + 0.999999)
	var sum uint64
	for i := range h.counts {
		if sum += h.counts[i].Load(); sum >= max(want, 1) {
			return min(upper(i), h.Max())
		}
	}
	return 0
}
