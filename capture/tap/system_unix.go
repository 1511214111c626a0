//go:build unix

package tap

import (
	"io"
	"net"
	"os"
	"syscall"
)

// bySignal returns the exit code of a child that was terminated by a signal, as shells count it.
func bySignal(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return 1
}

// A trier writes what a connection accepts without blocking.
type trier struct {
	raw syscall.RawConn // nil if not supported
	p   []byte
	n   int
	one func(fd uintptr) bool
}

// newTry supports TCP and Unix sockets, whose raw writes never block. A file may block.
func newTry(dst io.Writer) *trier {
	t := new(trier)
	switch c := dst.(type) {
	case *net.TCPConn:
		t.raw, _ = c.SyscallConn() // without one, nothing is tried
	case *net.UnixConn:
		t.raw, _ = c.SyscallConn() // likewise
	}
	t.one = func(fd uintptr) bool {
		// Bytes that failed are written again, and that write returns the error.
		t.n, _ = syscall.Write(int(fd), t.p)
		return true
	}
	return t
}

// write returns how much of p was accepted.
func (t *trier) write(p []byte) int {
	if t.raw == nil {
		return 0
	}
	t.p, t.n = p, 0
	_ = t.raw.Write(t.one) // a closed connection accepts nothing
	t.p = nil
	return max(t.n, 0)
}
