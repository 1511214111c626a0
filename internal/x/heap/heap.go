// Package heap bounds the memory that the garbage collector of a program adds to what is in use.
//
// By default Go lets the heap grow to twice what is in use. In a server whose peers may make it
// hold up to the bounds of docs/limits.md, that doubles each bound.
//
// For tests, it also measures what a function allocates.
package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Garbage is added to what is in use: as much again up to free bytes, then free bytes, and always
// at least a quarter.
const (
	free  = 16 << 20
	least = 25 // percent
	step  = 5  // percent: a smaller difference changes nothing
)

var once sync.Once

// Bound makes the collector of this process run earlier while more than 16 MiB are in use: garbage
// takes at most 16 MiB, or a quarter of what is in use. It adjusts the value of GOGC after each
// collection. Bound has no effect if GOGC or GOMEMLIMIT is set. It may be called more than once.
func Bound() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	once.Do(func() { arm(100) })
}

// arm adjusts the collector after the next collection, and so on. now is the percentage that is in
// effect.
func arm(now int) {
	marker := new([16]byte) // not shared with other small objects
	runtime.AddCleanup(marker, func(now int) {
		next := percent(inUse())
		if d := next - now; d >= step || d <= -step {
			debug.SetGCPercent(next)
			now = next
		}
		arm(now)
	}, now)
}

// percent returns the garbage that may be added to n bytes in use, in percent of n.
func percent(n uint64) int {
	if n <= free {
		return 100
	}
	return max(least, int(math.Round(100*free/float64(n))))
}

// inUse returns the bytes that the last collection found in use.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Allocated returns the number of bytes that f allocates, together with what other goroutines
// allocate meanwhile. Memory that was released again counts too.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
