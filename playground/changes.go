package playground

import "sync"

// changes wakes those who wait until something that the page shows has changed. A waiter calls
// next before it reads the state. The zero value is ready for use.
type changes struct {
	mu      sync.Mutex
	waiting chan struct{} // closed at the next change; nil if nothing waits for it
}

// next returns a channel that is closed at the next change.
func (c *changes) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = make(chan struct{})
	}
	return c.waiting
}

// signal wakes those who wait for a change.
func (c *changes) signal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
}
