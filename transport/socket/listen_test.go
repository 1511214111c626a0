package socket

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A scripted listener returns the errors one after the other, then waits for its end.
type scripted struct {
	errs []error
	done chan struct{}
}

func (s *scripted) Accept() (net.Conn, error) {
	if len(s.errs) == 0 {
		<-s.done
		return nil, net.ErrClosed
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	if err == nil {
		c, peer := net.Pipe()
		_ = peer.Close()
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
}
func (s *scripted) Close() error   { close(s.done); return nil }
func (s *scripted) Addr() net.Addr { return &net.TCPAddr{} }

func scriptedListener(errs ...error) *Listener {
	return &Listener{
		net: &scripted{errs: errs, done: make(chan struct{})},
		max: 10, done: make(chan struct{}), byIP: make(map[netip.Prefix]int), refusing: make(map[net.Conn]bool),
	}
}

// TestAcceptGoesOn checks that a process without free files waits for one, and not in a busy loop.
func TestAcceptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := scriptedListener(syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.EMFILE, nil, syscall.EMFILE, nil)
		reports := 0
		l.o.Report = func(what string, err error) { reports++ }
		start := time.Now()
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != (5+10+20+40)*time.Millisecond {
			t.Errorf("waited %v, want 75ms", waited)
		}
		start = time.Now()
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 5*time.Millisecond {
			t.Errorf("after a success: waited %v, want 5ms", waited)
		}
		if reports != 5 {
			t.Errorf("%d reports, want 5", reports)
		}
		_ = l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close = %v, want %v", err, net.ErrClosed)
		}
	})
}

func TestAcceptBackoffIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make([]error, 20)
		for i := range errs {
			errs[i] = syscall.EMFILE
		}
		l := scriptedListener(append(errs, nil)...)
		start := time.Now()
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 14*time.Second || waited < 12*time.Second {
			t.Errorf("20 failures took %v, want a second for each of the later ones", waited)
		}
	})
}

func TestCloseEndsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := scriptedListener(syscall.EMFILE)
		done := make(chan error)
		go func() {
			_, err := l.Accept()
			done <- err
		}()
		synctest.Wait()
		_ = l.Close()
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept = %v, want %v", err, net.ErrClosed)
		}
	})
}

func TestAcceptFails(t *testing.T) {
	l := scriptedListener(syscall.EBADF)
	if _, err := l.Accept(); !errors.Is(err, syscall.EBADF) {
		t.Errorf("Accept = %v, want %v", err, syscall.EBADF)
	}
}

func TestPerIP(t *testing.T) {
	l := &Listener{max: 1000, byIP: make(map[netip.Prefix]int)}
	admit := func(ip string) error { return l.admitConn(prefixOf(netip.MustParseAddr(ip))) }
	leave := func(ip string) { l.leaveConn(prefixOf(netip.MustParseAddr(ip))) }
	for range 256 {
		if err := admit("192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit("::ffff:192.0.2.1"); !errors.Is(err, errFullIP) {
		t.Errorf("connection 257 of an address = %v, want %v", err, errFullIP)
	}
	if err := admit("192.0.2.2"); err != nil {
		t.Errorf("another address = %v", err)
	}
	leave("192.0.2.1")
	if err := admit("192.0.2.1"); err != nil {
		t.Errorf("after one has left = %v", err)
	}
	for range 300 {
		if err := errors.Join(admit("127.0.0.1"), admit("::1")); err != nil {
			t.Fatalf("loopback = %v", err)
		}
	}
	for i := range 99 {
		if err := admit(fmt.Sprintf("2001:db8::%x", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := l.byIP[netip.MustParsePrefix("2001:db8::/64")]; n != 99 {
		t.Errorf("addresses of one IPv6 network count as %d, want 99", n)
	}
	for l.open < l.max {
		if err := admit("127.0.0.1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := admit("127.0.0.1"); !errors.Is(err, errFull) {
		t.Errorf("over the bound = %v, want %v", err, errFull)
	}
	for range 256 {
		leave("192.0.2.1")
	}
	if _, ok := l.byIP[netip.MustParsePrefix("192.0.2.1/32")]; ok {
		t.Error("an address that has left is still in the table")
	}
}

func TestMaxConns(t *testing.T) {
	files, ok := maxFiles()
	if !ok {
		t.Fatal("no RLIMIT_NOFILE")
	}
	if got, want := maxConns(math.MaxInt), int(files/5*4); got != want {
		t.Errorf("maxConns = %d, want %d of %d files", got, want, files)
	}
	if got := maxConns(7); got != 7 {
		t.Errorf("maxConns(7) = %d", got)
	}
	if got := maxConns(0); got != min(16_384, int(files/5*4)) {
		t.Errorf("maxConns(0) = %d", got)
	}
}

// TestHandshakeTimeout checks that a peer that connects to a TLS port and sends nothing has 5 s.
func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, peer := net.Pipe()
		defer peer.Close()
		l := &Listener{tls: modern(nil)}
		s := newTransport(l.secure(conn), &Options{}, nil)
		defer s.Close()
		start := time.Now()
		if _, _, err := s.Read(); err == nil {
			t.Error("Read = nil error")
		}
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited %v, want 5s", waited)
		}
	})
}

// TestCloseReleasesOnce checks that a second Close does not release another place.
func TestCloseReleasesOnce(t *testing.T) {
	conn, peer := net.Pipe()
	defer peer.Close()
	released := 0
	s := newTransport(conn, &Options{}, func() { released++ })
	_, _ = s.Close(), s.Close()
	if released != 1 {
		t.Errorf("Close twice gave %d places back, want 1", released)
	}
}
