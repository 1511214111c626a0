//go:build unix

package websocket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// A source waits for bytes, on a TCP or Unix socket without a buffer: it borrows one when the
// kernel has data for it. That makes an idle connection small. Other connections, such as TLS, wait
// with a small buffer.
type source struct {
	raw     syscall.RawConn
	counted *budget.Arrival
	try     func(fd uintptr) bool // created once: a closure for each wait would be garbage

	lent *buffer
	n    int
	err  error
}

func (s *source) init(conn net.Conn, a *budget.Arrival) {
	s.raw, s.counted = rawOf(conn), a
	s.try = s.receive
}

// rawOf returns nil if conn is not a socket.
func rawOf(conn net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	// not syscall.Conn: a type that wraps a socket may process the bytes itself
	switch c := conn.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	}
	if err != nil {
		return nil
	}
	return raw
}

// read appends bytes to the buffer of in.
func (s *source) read(conn net.Conn, in *reader) (int, error) {
	if in.lent == nil && s.raw != nil {
		err := s.raw.Read(s.try)
		n := s.n
		if err == nil {
			err = s.err
		}
		in.lent, s.lent, s.n, s.err = s.lent, nil, 0, nil
		if in.lent != nil {
			in.buf = in.lent.bytes
		}
		return n, err
	}
	if in.lent == nil {
		in.lent = lend(waitSize)
		in.buf = in.lent.bytes
	}
	return conn.Read(in.buf[in.limit:])
}

// receive reads without waiting; false requests another call when data is available.
func (s *source) receive(fd uintptr) bool {
	b := lendCounted(s.counted, readSize, 0)
	for {
		n, err := syscall.Read(int(fd), b.bytes)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			b.giveBack()
			s.counted.Hold(0)
			return false
		case err != nil:
			s.err = os.NewSyscallError("read", err)
		case n == 0:
			s.err = io.EOF
		default:
			s.lent, s.n = b, n
			return true
		}
		b.giveBack()
		s.counted.Hold(0)
		return true
	}
}

// A sink writes what can be written without waiting, on a TCP or Unix socket.
type sink struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // created once, like the one of source

	p   []byte
	n   int
	err error
}

func (s *sink) init(conn net.Conn) {
	s.raw = rawOf(conn)
	s.step = s.transmit
}

// can reports whether try ever sends anything.
func (s *sink) can() bool { return s.raw != nil }

// try writes as much of p as possible without waiting, and returns the number of bytes.
func (s *sink) try(p []byte) (int, error) {
	if s.raw == nil || len(p) == 0 {
		return 0, nil
	}
	s.p, s.n, s.err = p, 0, nil
	err := s.raw.Write(s.step)
	s.p = nil
	if err == nil {
		err = s.err
	}
	return s.n, err
}

func (s *sink) transmit(fd uintptr) bool {
	for s.n < len(s.p) {
		n, err := syscall.Write(int(fd), s.p[s.n:])
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return true
		case err != nil:
			s.err = os.NewSyscallError("write", err)
			return true
		default:
			s.n += n
		}
	}
	return true
}
