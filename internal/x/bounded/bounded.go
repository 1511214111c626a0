// Package bounded has a queue between two goroutines, and room that goroutines share, which are
// bounded by the number of values and by their memory.
package bounded

import (
	"context"
	"sync"
)

// A Queue holds values that one side sends and the other has not received. When it is full, Send
// waits, and TrySend drops the value. It is safe for concurrent use.
type Queue[T any] struct {
	// C delivers the values in the order in which they were sent. The receiver passes each to Take,
	// which makes room for others.
	C <-chan Item[T]

	c    chan Item[T]
	most int
	cost func(*T) int

	mu     sync.Mutex // guards the fields below
	weighs int
	room   chan struct{} // closed when a value is taken; nil while no Send waits for that
}

// An Item is a value in a Queue.
type Item[T any] struct {
	value T
	cost  int
}

// New makes a queue of up to n values, and up to most bytes of them. cost returns the memory of a
// value in bytes, at least 1. If nothing else waits, a value of any size fits.
func New[T any](n, most int, cost func(*T) int) *Queue[T] {
	c := make(chan Item[T], n)
	return &Queue[T]{C: c, c: c, most: most, cost: cost}
}

// Send adds a value. It waits for room until ctx ends, and then returns the cause of ctx.
func (q *Queue[T]) Send(ctx context.Context, v T) error {
	i := Item[T]{v, q.cost(&v)}
	for {
		room := q.reserve(i.cost)
		if room == nil {
			break
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case q.c <- i:
		return nil
	case <-ctx.Done():
		q.Take(i)
		return context.Cause(ctx)
	}
}

// TrySend adds a value if there is room at once, and reports whether there was.
func (q *Queue[T]) TrySend(v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := Item[T]{v, q.cost(&v)}
	if !q.fitsLocked(i.cost) {
		return false
	}
	select {
	case q.c <- i:
		q.weighs += i.cost
		return true
	default:
		return false
	}
}

// Take returns the value of an Item that was received from C, and makes its room free.
func (q *Queue[T]) Take(i Item[T]) T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.weighs -= i.cost
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
	return i.value
}

// Close closes C: its receiver gets what waits, and then the end. Nothing may be sent any more.
func (q *Queue[T]) Close() { close(q.c) }

func (q *Queue[T]) fitsLocked(n int) bool { return q.weighs == 0 || q.weighs+n <= q.most }

// reserve takes room for n bytes. If there is not enough, it returns a channel that is closed when
// a value is taken.
func (q *Queue[T]) reserve(n int) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fitsLocked(n) {
		q.weighs += n
		return nil
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	return q.room
}
