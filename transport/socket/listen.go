package socket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A Listener takes connections. Its methods are safe for concurrent use.
type Listener struct {
	net   net.Listener
	tls   *tls.Config // nil for none
	o     Options
	max   int
	unix  *socketFile // nil for no Unix socket
	done  chan struct{}
	close sync.Once
	err   error // of Close; guarded by close

	farewells sync.WaitGroup // the goroutines that refuse

	mu       sync.Mutex // guards what follows
	open     int
	byIP     map[netip.Prefix]int
	refusing map[net.Conn]bool // closed by Close, at most maxFarewells
	closed   bool
}

// How a connection is refused that is one too many.
const (
	maxFarewells  = 64          // at once; whoever comes then is closed without a word
	farewellTime  = time.Second // for the peer to read it
	farewellBytes = 1 << 20     // of what the peer had sent already
)

// busy is the answer to a request that nobody has read: -31001 with id null.
const busy = `{"jsonrpc":"2.0","id":null,"error":{"code":-31001,"message":"Busy","data":{"reason":"busy","retryable":true,"retryAfterMs":1000}}}`

// Listen takes connections on addr, for network "tcp", "tls" or "unix".
//
// A Unix socket has mode 0600, in a directory that is made with 0700 if there is none, and only this user and root
// may connect. A file that a process left behind is replaced; one with a live listener behind it is an error.
func Listen(ctx context.Context, network, addr string, o *Options) (*Listener, error) {
	if o == nil {
		o = &Options{}
	}
	l := &Listener{
		o:        *o,
		max:      maxConns(o.MaxConns),
		done:     make(chan struct{}),
		byIP:     make(map[netip.Prefix]int),
		refusing: make(map[net.Conn]bool),
	}
	l.o.RefuseHTTP = true
	if err := l.listen(ctx, network, addr); err != nil {
		return nil, fmt.Errorf("socket: listen %s %s: %w", network, addr, err)
	}
	return l, nil
}

func (l *Listener) listen(ctx context.Context, network, addr string) (err error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	switch network {
	case "tcp":
		l.net, err = lc.Listen(ctx, "tcp", addr)
	case "tls":
		if !certified(l.o.TLS) {
			return errNoCertificate
		}
		l.tls = modern(l.o.TLS)
		l.net, err = lc.Listen(ctx, "tcp", addr)
	case "unix":
		l.net, l.unix, err = listenUnix(ctx, addr)
	default:
		return net.UnknownNetworkError(network)
	}
	return err
}

// maxConns bounds n by the files that the process may open, of which a fifth stays for everything else.
func maxConns(n int) int {
	if n <= 0 {
		n = 16_384
	}
	if files, ok := maxFiles(); ok && uint64(n) > files/5*4 {
		n = int(files / 5 * 4)
	}
	return max(n, 1)
}

// Limit is how many connections may be open at once. It is less than was asked for when the process may not open
// so many files.
func (l *Listener) Limit() int { return l.max }

// Addr is where l listens.
func (l *Listener) Addr() net.Addr { return l.net.Addr() }

// Accept waits for the next connection. It goes on after errors that pass, such as too many open files, and returns
// net.ErrClosed after Close. It reads nothing: a TLS handshake is part of the first Read.
func (l *Listener) Accept() (*Transport, error) {
	var pause time.Duration
	for {
		conn, err := l.net.Accept()
		if err != nil {
			if pause, err = l.wait(pause, err); err != nil {
				return nil, fmt.Errorf("socket: accept: %w", err)
			}
			continue
		}
		pause = 0
		if l.unix != nil {
			if err := checkUser(conn); err != nil {
				l.report("connection refused", err)
				_ = conn.Close() // it gets no answer from us
				continue
			}
		}
		remote, counted := remoteOf(conn)
		if err := l.admit(remote, counted); err != nil {
			l.report("connection refused", err)
			l.refuse(conn)
			continue
		}
		return newTransport(l.secure(conn), &l.o, func() { l.leave(remote, counted) }), nil
	}
}

// wait sleeps off an error that passes, longer each time, up to a second.
func (l *Listener) wait(pause time.Duration, err error) (time.Duration, error) {
	select {
	case <-l.done:
		return 0, net.ErrClosed
	default:
	}
	if !passes(err) {
		return 0, err
	}
	l.report("accept", err)
	pause = min(max(2*pause, 5*time.Millisecond), time.Second)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-l.done:
		return 0, net.ErrClosed
	case <-timer.C:
		return pause, nil
	}
}

// passes reports whether the next Accept may succeed.
func passes(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, // until something is closed
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, // the peer's own
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *Listener) report(what string, err error) {
	if l.o.Report != nil {
		l.o.Report(what, err)
	}
}

func (l *Listener) secure(conn net.Conn) net.Conn {
	if l.tls == nil {
		return conn
	}
	return &secured{Conn: tls.Server(conn, l.tls)}
}

// remoteOf is what connections are counted by. counted is false for loopback and for what has no IP address.
func remoteOf(conn net.Conn) (remote netip.Prefix, counted bool) {
	addr, ok := conn.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return remote, false
	}
	return prefixOf(addr.AddrPort().Addr())
}

func prefixOf(ip netip.Addr) (remote netip.Prefix, counted bool) {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || ip.IsLoopback() {
		return remote, false
	}
	bits := 32
	if ip.Is6() {
		bits = 64 // whoever has one address of these has all
	}
	return netip.PrefixFrom(ip, bits).Masked(), true
}

var (
	errFull   = errors.New("too many connections")
	errFullIP = errors.New("too many connections from this address")
)

// admit counts a connection, or says why it is one too many.
func (l *Listener) admit(remote netip.Prefix, counted bool) error {
	perIP := l.o.MaxPerIP
	if perIP == 0 {
		perIP = 256
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= l.max:
		return errFull
	case counted && perIP > 0 && l.byIP[remote] >= perIP:
		return fmt.Errorf("%w: %v", errFullIP, remote)
	}
	l.open++
	if counted {
		l.byIP[remote]++
	}
	return nil
}

func (l *Listener) leave(remote netip.Prefix, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !counted {
		return
	}
	if l.byIP[remote]--; l.byIP[remote] == 0 {
		delete(l.byIP, remote)
	}
}

// refuse tells the peer that it is one too many, on a goroutine, and reads what it sent meanwhile: a connection that is
// closed with unread bytes is reset, and the answer would be lost.
func (l *Listener) refuse(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.refusing) >= maxFarewells {
		_ = conn.Close() // without a word: too many are waiting for one
		return
	}
	l.refusing[conn] = true
	l.farewells.Go(func() {
		farewell(l.secure(conn), l.o.Framing)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.refusing, conn)
	})
}

func farewell(conn net.Conn, f stream.Framer) {
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(farewellTime)) != nil {
		return
	}
	var b jsonrpc.Burst
	b.Add([]byte(busy))
	if stream.New(conn, f, &stream.Options{WriteTimeout: farewellTime}).Write(b) != nil {
		return
	}
	if c, ok := conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(farewellTime)) // closed if it fails
		_, _ = io.CopyN(io.Discard, conn, farewellBytes)
	}
}

// Close stops listening, removes the file of a Unix socket, and waits for the connections that are being refused. What
// Accept returned stays open.
func (l *Listener) Close() error {
	l.close.Do(func() {
		close(l.done)
		l.err = l.net.Close()
		if l.unix != nil {
			l.err = errors.Join(l.err, l.unix.remove())
		}
		l.mu.Lock()
		l.closed = true
		for conn := range l.refusing {
			_ = conn.Close() // its farewell is over
		}
		l.mu.Unlock()
		l.farewells.Wait()
	})
	return l.err
}
