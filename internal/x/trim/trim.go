// Package trim returns memory to the system after a burst of work.
package trim

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// worth is the minimum number of reclaimable bytes for a forced collection.
const worth = 32 << 20

// Loop checks periodically whether an idle process holds far more memory than it uses, and then
// returns it to the system. The runtime would do so only with its next collection, which may take
// two minutes in an idle process, and pools retain buffers until the collection after that. Loop
// returns when ctx ends.
func Loop(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before usage
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := read()
		if now.isQuietSince(before, every) && now.held > worth+now.floor {
			debug.FreeOSMemory() // the first collection empties one half of the pools
			debug.FreeOSMemory() // the second empties the other half
			now = read()
			now.floor = now.held
		}
		before = now
	}
}

// usage is the memory usage that the runtime reports.
type usage struct {
	held      uint64 // bytes of the heap obtained from the system
	allocated uint64 // total bytes allocated
	floor     uint64 // bytes held after the last collection, which cannot be reclaimed
}

// isQuietSince reports whether almost nothing was allocated since.
func (u *usage) isQuietSince(before usage, every time.Duration) bool {
	u.floor = before.floor
	perSecond := float64(u.allocated-before.allocated) / every.Seconds()
	return perSecond < 1<<20
}

func read() usage {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return usage{
		held:      samples[0].Value.Uint64() + samples[1].Value.Uint64() + samples[2].Value.Uint64(),
		allocated: samples[3].Value.Uint64(),
	}
}
