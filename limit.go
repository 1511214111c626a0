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
)

// A connLimit counts the connections of one address, in all and from each remote address.
type connLimit struct {
	max, perIP int

	mu    sync.Mutex // guards what is below
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

var errTooMany = errors.New("too many connections")

// enter counts a connection from remote, unless it is one too many.
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
	if !ip.IsValid() || ip.IsLoopback() {
		return
	}
	if l.byIP[ip]--; l.byIP[ip] == 0 {
		delete(l.byIP, ip)
	}
}

// addrOf is what connections are counted by: the IP address of the other end, of an IPv6 address the first 64 bits, since
// whoever has one of these has all; the zero address for what has none, as a Unix socket.
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

// A guest is one HTTP connection that was counted. When a WebSocket takes the connection over, whoever runs it lets the
// guest leave; otherwise net/http's hooks do.
type guest struct {
	limit    *connLimit
	ip       netip.Addr
	hijacked bool // guarded by limit.mu
}

type guestKey struct{}

// hooks are what an http.Server calls as connections come and go.
func (l *connLimit) hooks() (func(context.Context, net.Conn) context.Context, func(net.Conn, http.ConnState)) {
	connContext := func(ctx context.Context, c net.Conn) context.Context {
		g := &guest{limit: l, ip: addrOf(c.RemoteAddr())}
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

// leave ends a connection that was taken over.
func (g *guest) leave() { g.limit.leave(g.ip) }

// abandon ends a connection that was to be taken over and may have been.
func (g *guest) abandon() {
	g.limit.mu.Lock()
	defer g.limit.mu.Unlock()
	if g.hijacked {
		g.limit.leaveLocked(g.ip)
	}
}

// A limitedListener accepts what the limit allows and turns the rest away. Whoever closes a connection also lets it leave.
type limitedListener struct {
	net.Listener
	limit  *connLimit
	secure bool // nothing can be said before the TLS handshake, so nothing is
	report func(what string, err error)

	close     sync.Once
	err       error // of Close; guarded by close
	farewells sync.WaitGroup

	mu       sync.Mutex // guards what is below
	closed   bool
	refusing map[net.Conn]struct{}
}

// How a connection is refused that is one too many.
const (
	maxFarewells  = 64          // at once; whoever comes then is closed without a word
	farewellTime  = time.Second // for its request to come, and for the answer to be read
	farewellBytes = 64 << 10    // of the request
	tooManyAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

// Accept waits for a connection that may come in.
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
		l.report("refused", over)
		l.refuse(c)
	}
}

// refuse answers on a goroutine: not before the request has come, which clients would not take for its answer.
func (l *limitedListener) refuse(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.secure || l.closed || len(l.refusing) >= maxFarewells {
		_ = c.Close() // without a word
		return
	}
	if l.refusing == nil {
		l.refusing = make(map[net.Conn]struct{})
	}
	l.refusing[c] = struct{}{}
	l.farewells.Go(func() {
		farewell(c)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.refusing, c)
	})
}

func farewell(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(farewellTime)) // a TCP connection has deadlines
	r := textproto.NewReader(bufio.NewReader(io.LimitReader(c, farewellBytes)))
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
		_, _ = io.CopyN(io.Discard, c, farewellBytes) // closing with unread bytes would reset the connection under the answer
	}
}

// Close stops accepting and ends what is being refused. A second Close is no error.
func (l *limitedListener) Close() error {
	l.close.Do(func() {
		l.err = l.Listener.Close()
		l.mu.Lock()
		l.closed = true
		for c := range l.refusing {
			_ = c.Close() // its farewell is over
		}
		l.mu.Unlock()
		l.farewells.Wait()
	})
	return l.err
}

// cutText shortens what a peer sent, for the log.
func cutText(text string) string {
	if len(text) > 256 {
		return text[:256] + "…"
	}
	return text
}
