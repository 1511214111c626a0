package websocket

import (
	"sync"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A buffer is memory that is borrowed from a pool and returned to it.
type buffer struct {
	bytes []byte
	class int // index of the pool; negative if too large for any
}

// classes are the pooled sizes: 4 KiB is the buffer of a connection that cannot wait without one,
// 16 KiB is the usual size, 256 KiB is the maximum that one write collects. Larger buffers than the
// last are made for one message: a pool would hold their memory after a flood of long messages.
var classes = [...]int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20}

const (
	waitSize  = 4 << 10
	readSize  = 16 << 10
	writeSize = 256 << 10
)

var pools [len(classes)]sync.Pool

// lend returns a buffer of at least size bytes. Its content is left over from an earlier use.
func lend(size int) *buffer {
	for class, have := range classes {
		if size <= have {
			if b, ok := pools[class].Get().(*buffer); ok {
				return b
			}
			return &buffer{bytes: make([]byte, have), class: class}
		}
	}
	return &buffer{bytes: make([]byte, size), class: -1}
}

// lendCounted is lend for a buffer in which messages arrive. If there is no room for it, it lends
// the smallest that has least bytes.
func lendCounted(a *budget.Arrival, size, least int) *buffer {
	if !a.Hold(lentSize(size)) {
		size = max(least, waitSize)
	}
	return lend(size)
}

// lentSize returns the size of the buffer that lend returns.
func lentSize(size int) int {
	for _, have := range classes {
		if size <= have {
			return have
		}
	}
	return size
}

func (b *buffer) giveBack() {
	if poison {
		clear(b.bytes)
	}
	if b.class >= 0 {
		pools[b.class].Put(b)
	}
}
