//go:build !unix

package websocket

import "net"

// A source waits for bytes, with a small buffer: this system cannot wait without one.
type source struct{}

func (s *source) init(net.Conn) {}

// read puts bytes behind those of in.
func (s *source) read(conn net.Conn, in *reader) (int, error) {
	if in.lent == nil {
		in.lent = lend(waitSize)
		in.buf = in.lent.bytes
	}
	return conn.Read(in.buf[in.limit:])
}

// A sink never knows here what goes without waiting.
type sink struct{}

func (s *sink) init(net.Conn)           {}
func (s *sink) can() bool               { return false }
func (s *sink) try([]byte) (int, error) { return 0, nil }
