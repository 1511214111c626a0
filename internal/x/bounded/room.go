package bounded

import (
	"context"
	"sync"
)

// Room is what is left of a number and of bytes that several goroutines share, such as the requests
// that are handled at the same time. It is safe for concurrent use.
type Room struct {
	n, most int

	mu     sync.Mutex // guards the fields below
	taken  int
	weighs int
	freed  chan struct{} // closed when a place is given back; nil while no Take waits for that
}

// Requests of a server that a client handles at the same time: their number, their bytes, and what
// each weighs besides twice its text.
const (
	serverRequests     = 64
	serverRequestBytes = 32 << 20
	serverRequestCost  = 1 << 10
)

// NewRequestRoom makes room for the requests of a server that a client of HTTP handles at the same
// time: 64 of them, and 32 MiB.
func NewRequestRoom() *Room { return NewRoom(serverRequests, serverRequestBytes) }

// RequestCost returns the memory of such a request while it is handled, in bytes: its text, what is
// made of it, and the goroutine.
func RequestCost(text []byte) int { return 2*len(text) + serverRequestCost }

// NewRoom makes room for up to n places, and up to most bytes of them.
func NewRoom(n, most int) *Room { return &Room{n: n, most: most} }

// Take takes a place of cost bytes. It waits until there is one or ctx ends, and then returns the
// cause of ctx. If no other place is taken, a place of any size is granted.
func (r *Room) Take(ctx context.Context, cost int) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.mu.Lock()
		if r.taken == 0 || r.taken < r.n && r.weighs+cost <= r.most {
			r.taken++
			r.weighs += cost
			r.mu.Unlock()
			return nil
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		r.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
}

// Taken returns the number of places that are taken.
func (r *Room) Taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// Give returns a place that was taken with the same cost.
func (r *Room) Give(cost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken--
	r.weighs -= cost
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}
