package socket

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSocketOptions reads the socket options from the kernel.
func TestSocketOptions(t *testing.T) {
	l, err := Listen(t.Context(), "tcp", "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(t.Context(), "tcp", l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, end := range map[string]*Transport{"client": c, "server": s} {
		raw, err := end.conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []struct {
			name              string
			level, code, want int
		}{
			{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
			{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9},
			{"TCP_NODELAY", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		} {
			err := raw.Control(func(fd uintptr) {
				if got, err := syscall.GetsockoptInt(int(fd), o.level, o.code); err != nil || got != o.want {
					t.Errorf("%s: %s = %d, %v, want %d", name, o.name, got, err, o.want)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPeerUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if uid, known, err := peerUser(s); err != nil || !known || uid != os.Geteuid() {
		t.Errorf("peerUser = %d, %v, %v, want %d", uid, known, err, os.Geteuid())
	}
	if err := checkUser(s); err != nil {
		t.Errorf("checkUser = %v", err)
	}
}

func TestTrusted(t *testing.T) {
	for _, c := range []struct {
		uid, ours int
		want      bool
	}{{1000, 1000, true}, {0, 1000, true}, {1001, 1000, false}, {1000, 0, false}, {0, 0, true}} {
		if got := trusted(c.uid, c.ours); got != c.want {
			t.Errorf("trusted(%d, %d) = %v, want %v", c.uid, c.ours, got, c.want)
		}
	}
}
