//go:build !unix

package stream

// A rawConn needs non-blocking file descriptors. On other systems a connection holds a small buffer
// while it waits.
type rawConn struct{}

func newRawConn(any) *rawConn { return nil }

func (c *rawConn) read(*source) (int, error) { panic("stream: no raw connections on this system") }
func (c *rawConn) write([]byte) (int, error) { panic("stream: no raw connections on this system") }
