//go:build unix

package stream

import (
	"io"
	"os"
	"syscall"
)

// A rawConn reads and writes a non-blocking file descriptor. It waits for bytes before it borrows a
// buffer for them, which makes an idle connection small; io.Reader requires the buffer first.
type rawConn struct {
	conn syscall.RawConn
	// created once: a closure for each call would be an allocation
	onRead, onWritten func(fd uintptr) bool

	s   *source // for onRead
	p   []byte  // for onWritten
	n   int
	err error
}

// newRawConn returns nil if v has no file descriptor.
func newRawConn(v any) *rawConn {
	sc, ok := v.(syscall.Conn)
	if !ok {
		return nil
	}
	conn, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	c := &rawConn{conn: conn}
	c.onRead, c.onWritten = c.tryRead, c.tryWrite
	return c
}

func (c *rawConn) read(s *source) (int, error) {
	c.s, c.n, c.err = s, 0, nil
	if err := c.conn.Read(c.onRead); err != nil {
		return 0, err
	}
	return c.n, c.err
}

// tryRead reads the available bytes. It returns false to be called again when bytes arrive.
func (c *rawConn) tryRead(fd uintptr) bool {
	c.s.borrow(max(c.s.hint, smallBuffer))
	for {
		n, err := syscall.Read(int(fd), c.s.buf.b[c.s.end:])
		switch err { // a system call returns the number itself
		case nil:
			if c.n = n; n == 0 {
				c.err = io.EOF
			}
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			c.s.release()
			return false
		default:
			c.err = os.NewSyscallError("read", err)
		}
		return true
	}
}

// write writes as much of p as possible without waiting.
func (c *rawConn) write(p []byte) (int, error) {
	c.p, c.n, c.err = p, 0, nil
	err := c.conn.Write(c.onWritten)
	c.p = nil
	if err != nil {
		return 0, err
	}
	return c.n, c.err
}

func (c *rawConn) tryWrite(fd uintptr) bool {
	for c.n < len(c.p) {
		n, err := syscall.Write(int(fd), c.p[c.n:])
		switch err {
		case nil:
			c.n += n
		case syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			c.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}
