package trim

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestLoopGivesMemoryBack(t *testing.T) {
	var pool sync.Pool
	for range 64 { // a burst leaves buffers in a pool
		b := make([]byte, 4<<20)
		b[0] = 1
		pool.Put(&b)
	}
	before := read().held
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil && read().held > before/2 {
			runtime.Gosched()
		}
		cancel()
	}()
	Loop(ctx, 10*time.Millisecond)
	if held := read().held; held > before/2 {
		t.Errorf("%d bytes are held, %d were before", held, before)
	}
	_ = pool.Get()
}
