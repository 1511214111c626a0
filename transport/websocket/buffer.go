package websocket

import "sync"

// A buffer is a piece of memory that is lent from a pool and goes back to it.
type buffer struct {
	bytes []byte
	class int // of the pool; negative: too large for one
}

// classes are the sizes that are kept: 4 KiB is what a connection waits with where it cannot wait without, 16 KiB is the usual
// one, 256 KiB the most that one write collects, 4 MiB the default limit of a message.
var classes = [...]int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

const (
	waitSize  = 4 << 10
	readSize  = 16 << 10
	writeSize = 256 << 10
)

var pools [len(classes)]sync.Pool

// lend returns a buffer of at least size bytes. What is in it is left from somebody else.
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

func (b *buffer) giveBack() {
	if poison {
		clear(b.bytes)
	}
	if b.class >= 0 {
		pools[b.class].Put(b)
	}
}
