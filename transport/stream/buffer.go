package stream

import (
	"math/bits"
	"sync"
)

// Sizes of buffers. Reading begins with a small one, goes on with a large one, and then doubles as bytes arrive: never
// because a peer announced a length.
const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
	maxPooled   = 8 << 20
)

// A buffer is memory that is borrowed from a pool.
type buffer struct {
	b []byte
}

// pools holds the small size, and powers of two from the large one to maxPooled.
var pools [9]sync.Pool

// pool returns which pool has buffers of n bytes or more, and how long these are; -1 for none.
func pool(n int) (index, size int) {
	switch {
	case n <= smallBuffer:
		return 0, smallBuffer
	case n <= largeBuffer:
		return 1, largeBuffer
	case n > maxPooled:
		return -1, n
	}
	log := bits.Len(uint(n - 1))
	return log - 15, 1 << log
}

// newBuffer borrows at least n bytes.
func newBuffer(n int) *buffer {
	i, size := pool(n)
	if i >= 0 {
		if b, ok := pools[i].Get().(*buffer); ok {
			return b
		}
	}
	return &buffer{make([]byte, size)}
}

// free gives b back. What is over the pooled sizes is left to the collector. nil is nothing.
func (b *buffer) free() {
	if b == nil {
		return
	}
	if poison {
		clear(b.b)
	}
	if i, size := pool(len(b.b)); i >= 0 && size == len(b.b) {
		pools[i].Put(b)
	}
}
