//go:build race

package stream

// poison clears buffers when they are returned to the pool, so that code that reads a payload too
// late does not see it.
const poison = true
