//go:build !unix

package websocket

import (
	"net"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A source waits for bytes, with a small buffer: this system cannot wait without one.
type source struct{}

func (s *source) init(net.Conn, *budget.Arrival) {}

// read appends bytes to the buffer of in.
func (s *source) read(conn net.Conn, in *reader) (int, error) {
	if in.lent == nil {
		in.lent = lend(waitSize)
		in.buf = in.lent.bytes
	}
	return conn.Read(in.buf[in.limit:])
}

// A sink cannot determine here what can be written without waiting.
type sink struct{}

func (s *sink) init(net.Conn)           {}
func (s *sink) can() bool               { return false }
func (s *sink) try([]byte) (int, error) { return 0, nil }
