package parley

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// A connLimit counts the connections of one address, in total and from each remote address.
type connLimit struct {
	max, perIP int

	mu    sync.Mutex // guards the fields below
	total int
	byIP  map[netip.Addr]int
	guest map[net.Conn]*guest // of HTTP, until they are closed or hijacked
}

func newConnLimit(most, perIP int) *connLimit {
	if most <= 0 {
		most = maxConns
	}
	most = max(min(most, openFiles()/10*8), 1)
	if perIP <= 0 {
		perIP = maxConnsPerIP
	}
	return &connLimit{max: most, perIP: perIP, byIP: make(map[netip.Addr]int), guest: make(map[net.Conn]*guest)}
}

// processConns returns the maximum number of connections of all addresses of the process: 80 % of
// the files that it may open.
func processConns() int { return max(openFiles()/10*8, 1) }

var errTooMany = errors.New("too many connections")

// enter counts a connection from remote, or returns an error if the limit is reached.
func (l *connLimit) enter(remote net.Addr) (netip.Addr, error) {
	ip := addrOf(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= l.max {
		return ip, fmt.Errorf("%w: %d", errTooMany, l.total)
	}
	if ip.IsValid() && !ip.IsLoopback() {
		if l.byIP[ip] >= l.perIP {
			return ip, fmt.Errorf("%w from %s: %d", errTooMany, ip, l.perIP)
		}
	}
	if !budget.Connections.Enter(processConns()) {
		return ip, fmt.Errorf("%w of this process", errTooMany)
	}
	if ip.IsValid() && !ip.IsLoopback() {
		l.byIP[ip]++
	}
	l.total++
	return ip, nil
}

func (l *connLimit) leave(ip netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(ip)
}

func (l *connLimit) leaveLocked(ip netip.Addr) {
	l.total--
	budget.Connections.Leave()
	if !ip.IsValid() || ip.IsLoopback() {
		return
	}
	if l.byIP[ip]--; l.byIP[ip] == 0 {
		delete(l.byIP, ip)
	}
}

// addrOf returns the key by which connections are counted: the IP address of the other end, or the
// first 64 bits of an IPv6 address, since one host usually controls all addresses of a /64; the
// zero address for connections without an IP address, such as Unix sockets.
func addrOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if ip.Is6() && !ip.IsLoopback() {
		return netip.PrefixFrom(ip, 64).Masked().Addr()
	}
	return ip
}

// ipOf returns the IP address of the other end, or the zero address.
func ipOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// A guest is one counted HTTP connection. If a WebSocket takes the connection over, its server
// calls leave; otherwise the hooks of net/http do.
type guest struct {
	limit    *connLimit
	ip       netip.Addr // the key by which it is counted
	remote   netip.Addr
	hijacked bool // guarded by limit.mu
}

type guestKey struct{}

// hooks returns the functions that an http.Server calls when connections open and close.
func (l *connLimit) hooks() (func(context.Context, net.Conn) context.Context, func(net.Conn, http.ConnState)) {
	connContext := func(ctx context.Context, c net.Conn) context.Context {
		g := &guest{limit: l, ip: addrOf(c.RemoteAddr()), remote: ipOf(c.RemoteAddr())}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.guest[c] = g
		return context.WithValue(ctx, guestKey{}, g)
	}
	connState := func(c net.Conn, state http.ConnState) {
		if state != http.StateClosed && state != http.StateHijacked {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		g, ok := l.guest[c]
		if !ok {
			return
		}
		delete(l.guest, c)
		if state == http.StateHijacked {
			g.hijacked = true
			return
		}
		l.leaveLocked(g.ip)
	}
	return connContext, connState
}

func guestOf(ctx context.Context) *guest {
	g, _ := ctx.Value(guestKey{}).(*guest)
	return g
}

// leave releases the place of a connection that was taken over.
func (g *guest) leave() { g.limit.leave(g.ip) }

// abandon releases the place of a connection after an attempt to take it over that may have failed.
func (g *guest) abandon() {
	g.limit.mu.Lock()
	defer g.limit.mu.Unlock()
	if g.hijacked {
		g.limit.leaveLocked(g.ip)
	}
}

// A limitedListener accepts connections up to the limit and rejects the rest. Closing a connection
// also releases its place.
type limitedListener struct {
	net.Listener
	limit  *connLimit
	secure bool // nothing can be sent before the TLS handshake, so a rejection sends nothing
	report func(what string, err error)

	close    sync.Once
	err      error // of Close; guarded by close
	refusals sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	closed   bool
	refusing map[net.Conn]struct{}
}

// Bounds of rejecting connections above the limit.
const (
	// concurrently; connections above it are closed without a response
	maxRefusing   = 64
	refusalTime   = time.Second // for the request to arrive, and for the response to be read
	refusalBytes  = 64 << 10    // of the request
	tooManyAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

// Accept waits for a connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		_, over := l.limit.enter(c.RemoteAddr())
		if over == nil {
			return c, nil
		}
		l.report(jsonrpc.ReportRefused, over)
		l.refuse(c)
	}
}

// refuse responds on a goroutine, and only after the request has arrived: clients do not treat an
// earlier response as the response to their request.
func (l *limitedListener) refuse(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.secure || l.closed || len(l.refusing) >= maxRefusing || !budget.Farewells.Enter(processConns()/8) {
		_ = c.Close() // without a response
		return
	}
	if l.refusing == nil {
		l.refusing = make(map[net.Conn]struct{})
	}
	l.refusing[c] = struct{}{}
	l.refusals.Go(func() {
		refuseOverLimit(c)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.refusing, c)
		budget.Farewells.Leave()
	})
}

func refuseOverLimit(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(refusalTime)) // a TCP connection has deadlines
	r := textproto.NewReader(bufio.NewReader(io.LimitReader(c, refusalBytes)))
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		if line == "" {
			break
		}
	}
	if _, err := io.WriteString(c, tooManyAnswer); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		// closing with unread bytes would reset the connection before the response is read
		_, _ = io.CopyN(io.Discard, c, refusalBytes)
	}
}

// Close stops accepting and ends the pending rejections. A second Close returns no error.
func (l *limitedListener) Close() error {
	l.close.Do(func() {
		l.err = l.Listener.Close()
		l.mu.Lock()
		l.closed = true
		for c := range l.refusing {
			_ = c.Close() // ends its rejection
		}
		l.mu.Unlock()
		l.refusals.Wait()
	})
	return l.err
}

// cutText shortens text from a peer, for the log.
func cutText(text string) string {
	if len(text) > 256 {
		return text[:256] + "…"
	}
	return text
}
