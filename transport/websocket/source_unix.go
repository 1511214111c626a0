//go:build unix

package websocket

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// A source waits for bytes, on a TCP or Unix socket without a buffer: one is lent when the kernel has something to put
// into it. That is what keeps an idle connection small. Other connections, such as TLS, wait with a small buffer.
type source struct {
	raw syscall.RawConn
	try func(fd uintptr) bool // made once: a closure for each wait would be garbage

	lent *buffer
	n    int
	err  error
}

func (s *source) init(conn net.Conn) {
	s.raw = rawOf(conn)
	s.try = s.receive
}

// rawOf returns nil for what is no socket.
func rawOf(conn net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch c := conn.(type) { // not syscall.Conn: a type that wraps a socket may see to the bytes itself
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

// read puts bytes behind those of in.
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

// receive reads without waiting; false asks to be called again when there is something.
func (s *source) receive(fd uintptr) bool {
	b := lend(readSize)
	for {
		n, err := syscall.Read(int(fd), b.bytes)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			b.giveBack()
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
		return true
	}
}

// A sink writes what goes without waiting, on a TCP or Unix socket.
type sink struct {
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once, as source's

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

// try writes as much of p as fits without waiting, and returns how much that was.
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
