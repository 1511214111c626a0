package stream

import (
	"math/bits"
	"sync"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// Sizes of buffers. Reading starts with a small one, continues with a medium and a large one, and
// then doubles as bytes arrive. A length that a peer announces does not allocate memory.
const (
	smallBuffer  = budget.FreeBuffer // 4 KiB
	mediumBuffer = 16 << 10
	largeBuffer  = 64 << 10
	maxPooled    = 2 << 20 // a pool of larger ones would hold their memory after a flood of them
)

// A buffer is memory that is borrowed from a pool.
type buffer struct {
	b []byte
}

// pools holds the small and the medium size, and powers of two from the large one to maxPooled.
var pools [8]sync.Pool

// pool returns the index of the pool with buffers of n bytes or more, and their size; or -1 without
// one.
func pool(n int) (index, size int) {
	switch {
	case n <= smallBuffer:
		return 0, smallBuffer
	case n <= mediumBuffer:
		return 1, mediumBuffer
	case n <= largeBuffer:
		return 2, largeBuffer
	case n > maxPooled:
		return -1, n
	}
	log := bits.Len(uint(n - 1))
	return log - 14, 1 << log
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

// free returns b to its pool. A buffer above the pooled sizes is left to the garbage collector. A
// nil buffer is ignored.
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
