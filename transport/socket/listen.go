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

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/internal/x/report"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/transport/stream"
)

// A Listener accepts connections. Its methods are safe for concurrent use.
type Listener struct {
	net   net.Listener
	tls   *tls.Config // nil without TLS
	o     Options
	max   int
	unix  *socketFile // nil if the network is not a Unix socket
	done  chan struct{}
	close sync.Once
	err   error // of Close; guarded by close

	refusals sync.WaitGroup // the goroutines that refuse

	mu       sync.Mutex // guards the fields below
	open     int
	byIP     map[netip.Prefix]int
	refusing map[net.Conn]bool // closed by Close, at most maxFarewells
	closed   bool
}

// Bounds of refusing connections above the limit.
const (
	// at the same time; connections above it are closed without a response
	maxRefusing  = 64
	refusalTime  = time.Second // for the peer to read it
	refusalBytes = 1 << 20     // of what the peer had sent already
)

// busy is the response to a request that was not read: -31001 with ID null.
const busy = `{"jsonrpc":"2.0","id":null,"error":{"code":-31001,"message":"Busy","data":{"reason":"busy","retryable":true,"retryAfterMs":1000}}}`

// Listen listens on addr, for network "tcp", "tls" or "unix".
//
// A Unix socket has mode 0600, in a directory that is created with 0700 if it does not exist, and
// only this user and root may connect. A file that a process left behind is replaced; a file with a
// live listener is an error.
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

// maxConns bounds n by the files that the process may open; a fifth of them is reserved for
// everything else.
func maxConns(n int) int {
	if n <= 0 {
		n = 16_384
	}
	if files, ok := maxFiles(); ok && uint64(n) > files/5*4 {
		n = int(files / 5 * 4)
	}
	return max(n, 1)
}

// processConns returns how many connections all listeners of the process may have: 80 % of the
// files that it may open.
func processConns() int {
	if files, ok := maxFiles(); ok && files < 1<<30 {
		return max(int(files/5*4), 1)
	}
	return 1 << 30
}

// Limit returns how many connections may be open at once. It is less than MaxConns if the process
// may not open so many files.
func (l *Listener) Limit() int { return l.max }

// Addr returns the address of l.
func (l *Listener) Addr() net.Addr { return l.net.Addr() }

// Accept waits for the next connection. It continues after temporary errors, such as too many open
// files, and returns net.ErrClosed after Close. It reads nothing: a TLS handshake is part of the
// first Read.
func (l *Listener) Accept() (*Transport, error) {
	var pause time.Duration
	for {
		conn, err := l.net.Accept()
		if err != nil {
			if pause, err = l.waitAfter(pause, err); err != nil {
				return nil, fmt.Errorf("socket: accept: %w", err)
			}
			continue
		}
		pause = 0
		if l.unix != nil {
			if err := checkUser(conn); err != nil {
				l.report(ReportRefused, err)
				_ = conn.Close() // it gets no response
				continue
			}
		}
		remote, counted := remoteOf(conn)
		if err := l.admitConn(remote, counted); err != nil {
			l.report(ReportRefused, err)
			l.refuseConn(conn)
			continue
		}
		return newTransport(l.secure(conn), &l.o, func() { l.leaveConn(remote, counted) }), nil
	}
}

// waitAfter sleeps after a temporary error, longer each time, up to a second.
func (l *Listener) waitAfter(pause time.Duration, err error) (time.Duration, error) {
	select {
	case <-l.done:
		return 0, net.ErrClosed
	default:
	}
	if !passes(err) {
		return 0, err
	}
	l.report(ReportAccept, err)
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
		// until something is closed
		syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPROTO, // errors of the peer
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *Listener) report(what string, err error) {
	report.Call(l.o.Report, "socket", what, err)
}

func (l *Listener) secure(conn net.Conn) net.Conn {
	if l.tls == nil {
		return conn
	}
	return &secured{Conn: tls.Server(conn, l.tls)}
}

// remoteOf returns the key by which connections are counted. counted is false for loopback and for
// connections without an IP address.
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
		bits = 64 // one host usually controls all of these addresses
	}
	return netip.PrefixFrom(ip, bits).Masked(), true
}

var (
	errFull        = errors.New("too many connections")
	errFullProcess = errors.New("too many connections of this process")
	errFullIP      = errors.New("too many connections from this address")
)

// admitConn counts a connection, or returns why it is refused.
func (l *Listener) admitConn(remote netip.Prefix, counted bool) error {
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
	if !budget.Connections.Enter(processConns()) {
		return errFullProcess
	}
	l.open++
	if counted {
		l.byIP[remote]++
	}
	return nil
}

func (l *Listener) leaveConn(remote netip.Prefix, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	budget.Connections.Leave()
	if !counted {
		return
	}
	if l.byIP[remote]--; l.byIP[remote] == 0 {
		delete(l.byIP, remote)
	}
}

// refuseConn sends an error to a connection above the limit, on a goroutine, and reads what the
// peer sent meanwhile: a connection that is closed with unread bytes is reset, and the response
// would be lost.
func (l *Listener) refuseConn(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.refusing) >= maxRefusing || !budget.Farewells.Enter(processConns()/8) {
		_ = conn.Close() // without a response: too many refusals are under way
		return
	}
	l.refusing[conn] = true
	l.refusals.Go(func() {
		refuseOverLimit(l.secure(conn), l.o.Framing)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.refusing, conn)
		budget.Farewells.Leave()
	})
}

func refuseOverLimit(conn net.Conn, f stream.Framer) {
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(refusalTime)) != nil {
		return
	}
	var b jsonrpc.Burst
	b.Add([]byte(busy))
	if stream.New(conn, f, &stream.Options{WriteTimeout: refusalTime}).Write(b) != nil {
		return
	}
	if c, ok := conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(refusalTime)) // closed if it fails
		_, _ = io.CopyN(io.Discard, conn, refusalBytes)
	}
}

// Close stops listening, removes the file of a Unix socket, and waits for the connections that are
// being refused. Connections that Accept returned stay open.
func (l *Listener) Close() error {
	l.close.Do(func() {
		close(l.done)
		l.err = l.net.Close()
		if l.unix != nil {
			l.err = errors.Join(l.err, l.unix.removeSocket())
		}
		l.mu.Lock()
		l.closed = true
		for conn := range l.refusing {
			_ = conn.Close() // its refusal is over
		}
		l.mu.Unlock()
		l.refusals.Wait()
	})
	return l.err
}
