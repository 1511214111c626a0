//go:build unix

package tap

import (
	"io"
	"net"
	"os"
	"syscall"
)

// bySignal is the exit code of a child that a signal ended, as shells count it.
func bySignal(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return 1
}

// A trier writes what a connection takes without waiting.
type trier struct {
	raw syscall.RawConn // nil: it cannot
	p   []byte
	n   int
	one func(fd uintptr) bool
}

// newTry tries on TCP and Unix sockets, which never make a caller wait. Of a file nobody knows.
func newTry(dst io.Writer) *trier {
	t := new(trier)
	switch c := dst.(type) {
	case *net.TCPConn:
		t.raw, _ = c.SyscallConn() // without one nothing is tried
	case *net.UnixConn:
		t.raw, _ = c.SyscallConn() // likewise
	}
	t.one = func(fd uintptr) bool {
		t.n, _ = syscall.Write(int(fd), t.p) // what failed is written again, and fails again
		return true
	}
	return t
}

// write returns how much of p was taken.
func (t *trier) write(p []byte) int {
	if t.raw == nil {
		return 0
	}
	t.p, t.n = p, 0
	_ = t.raw.Write(t.one) // a connection that is closed takes nothing
	t.p = nil
	return max(t.n, 0)
}
