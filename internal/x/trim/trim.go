// Package trim gives memory back to the system that a burst of work has left behind.
package trim

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// worth is how much must be to be had before a collection is forced.
const worth = 32 << 20

// Loop looks every so often whether a process that has become quiet holds far more memory than it uses, and then returns it to the
// system. The runtime would do so by itself, but only with its next collection, which a quiet process may not see for two
// minutes, and pools keep buffers until the one after that. It returns when ctx ends.
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
			debug.FreeOSMemory() // a collection empties the pools' first half, the other
			debug.FreeOSMemory() // their second
			now = read()
			now.floor = now.held
		}
		before = now
	}
}

// usage is what the runtime tells.
type usage struct {
	held      uint64 // bytes that the heap has from the system
	allocated uint64 // bytes ever
	floor     uint64 // what was left the last time: less cannot be had
}

// isQuietSince reports whether next to nothing was allocated since.
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
