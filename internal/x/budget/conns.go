package budget

import "sync/atomic"

// A Count counts items of the process. It is safe for concurrent use.
type Count struct{ n atomic.Int64 }

// Connections counts accepted connections on all addresses. Farewells counts connections that are
// being rejected.
var Connections, Farewells Count

// Enter increments the count, unless it is already most or more. It reports whether it did.
func (c *Count) Enter(most int) bool {
	if c.n.Add(1) <= int64(most) {
		return true
	}
	c.n.Add(-1)
	return false
}

// Leave decrements the count.
func (c *Count) Leave() { c.n.Add(-1) }
