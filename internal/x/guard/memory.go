package guard

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/da1ed7bb/parley/internal/x/budget"
)

// Memory bounds the bytes of all request bodies in memory and of the responses to them. The zero
// Memory is the one of the process: all its users share 192 MiB. It is safe for concurrent use.
//
// A body counts twice, because its response may be as long, plus 2 KiB. Memory is reserved as bytes
// arrive, never by the announced length. It is charged to the account of the connection on
// loopback, and otherwise of the IP address (an IPv6 network of 64 bits counts as one address).
// Package budget defines the rules that prevent one account from starving the others.
type Memory struct {
	// Max is the number of bytes available. Zero means the 192 MiB of the process, negative means
	// no limit. It must not change.
	Max int64

	once sync.Once
	pool *pool
}

const (
	bodyCost = 2 << 10
	roomTime = 60 * time.Second // how long a body waits for room before it is read

	// Maximum unread response bytes of one HTTP/2 connection before its requests wait.
	mostUnread   = 1 << 20
	scarceUnread = 96 << 10 // the same while all connections together have plentyUnread
	plentyUnread = 8 << 20
)

// process is the Memory of everything that has none of its own.
var process = &pool{accounts: budget.Senders()}

// A pool is a Memory with the accounts that hold part of it.
type pool struct {
	accounts *budget.Accounts

	mu    sync.Mutex // guards the field below
	conns map[string]*reader
}

// A reader is an HTTP/2 connection whose responses are read.
type reader struct {
	key   string
	users int // guarded by the pool's mu

	mu     sync.Mutex // guards the fields below
	unread int64
	room   chan struct{} // closed when unread decreases; nil if nothing waits
}

func (m *Memory) get() *pool {
	if m.Max == 0 {
		return process
	}
	m.once.Do(func() { m.pool = &pool{accounts: &budget.Accounts{Pool: &budget.Pool{Max: m.Max}}} })
	return m.pool
}

// enter returns the reader of a connection.
func (p *pool) enter(key string) *reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.conns[key]
	if c == nil {
		if p.conns == nil {
			p.conns = make(map[string]*reader)
		}
		c = &reader{key: key}
		p.conns[key] = c
	}
	c.users++
	return c
}

func (p *pool) leave(c *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users--; c.users == 0 {
		delete(p.conns, c.key)
	}
}

// KeyOf returns the key of the account that a request is charged to.
func KeyOf(r *http.Request) string {
	colon := strings.LastIndexByte(r.RemoteAddr, ':')
	if colon < 0 {
		return r.RemoteAddr
	}
	host := r.RemoteAddr[:colon]
	if host == "[::1]" || strings.HasPrefix(host, "127.") {
		return r.RemoteAddr
	}
	if strings.HasPrefix(host, "[") {
		if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !ip.Is4In6() {
			return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
		}
	}
	return host
}

// readable waits until a connection has read enough of its responses.
func (c *reader) readable(ctx context.Context) bool {
	for {
		c.mu.Lock()
		most := int64(mostUnread)
		if budget.UnreadHTTP.Load() > plentyUnread {
			most = scarceUnread
		}
		if c.unread < most {
			c.mu.Unlock()
			return true
		}
		if c.room == nil {
			c.room = make(chan struct{})
		}
		room := c.room
		c.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

// writes adds n to the bytes being written; n may be negative.
func (c *reader) writes(n int64) {
	budget.UnreadHTTP.Add(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unread += n
	if n < 0 && c.room != nil {
		close(c.room)
		c.room = nil
	}
}

// A share is the part of a Memory that one request holds.
type share struct {
	pool   *pool
	owner  *budget.Shared
	conn   *reader // for HTTP/2, where many responses may wait to be written; else nil
	intake *budget.Intake
	held   int64
	bytes  int64 // of the body
	waited time.Duration
	writes int64
}

// firstStep returns how much of a body is read before the second reservation.
func firstStep(r *http.Request) int64 {
	if 0 <= r.ContentLength && r.ContentLength <= step {
		return r.ContentLength
	}
	return longStep
}

// nextStep returns how much more of a body is read at most, of which got bytes have arrived.
func nextStep(got int64) int64 { return min(max(got, longStep), step) }

// begin reserves memory for the beginning of a body. An empty key is replaced by that of KeyOf.
func (s *share) begin(r *http.Request, m *Memory, key string) *Refusal {
	if m == nil {
		return nil
	}
	if key == "" {
		key = KeyOf(r)
	}
	s.pool = m.get()
	s.owner = s.pool.accounts.Enter(key)
	if r.ProtoMajor > 1 {
		s.conn = s.pool.enter(r.RemoteAddr)
		ctx, cancel := context.WithTimeout(r.Context(), roomTime)
		defer cancel()
		if !s.conn.readable(ctx) {
			s.end()
			return noRoom
		}
	}
	if !s.take(r.Context(), 2*firstStep(r)+bodyCost, func() {}) {
		s.end()
		return noRoom
	}
	return nil
}

// take reserves n bytes. If there is no room, it calls waits and then waits.
func (s *share) take(ctx context.Context, n int64, waits func()) bool {
	if s.intake == nil && s.owner.Take(n) {
		s.held += n
		return true
	}
	if s.intake != nil && s.intake.TryGrow(n) {
		s.held += n
		return true
	}
	waits()
	start := time.Now()
	most := roomTime
	if s.intake != nil {
		most = budget.ArrivalTime
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var err error
	if s.intake == nil {
		err = s.owner.Wait(ctx, n)
	} else {
		err = s.intake.Grow(ctx, n)
	}
	s.waited += time.Since(start)
	if err != nil {
		return false
	}
	s.held += n
	return true
}

// grow reserves memory for the next step of a body of which got bytes have arrived. If it has to
// wait for room, it calls waits before.
func (s *share) grow(r *http.Request, got int64, waits func()) bool {
	if s.pool == nil {
		return true
	}
	next := got + nextStep(got)
	if r.ContentLength >= 0 {
		next = min(next, r.ContentLength)
	}
	more := 2*next + bodyCost - s.held
	if more <= 0 {
		return true
	}
	if s.intake == nil {
		want := int64(budget.ArrivalWant)
		if r.ContentLength >= 0 {
			want = min(want, 2*r.ContentLength+bodyCost)
		}
		s.intake = s.owner.Begin(want - s.held)
	}
	return s.take(r.Context(), more, waits)
}

// unread returns the function that counts response bytes on their way to an HTTP/2 connection, or
// nil for HTTP/1. It may be used after end, and by several goroutines.
func (s *share) unread() func(n int) {
	if s.conn == nil {
		return nil
	}
	conn := s.conn
	return func(n int) { conn.writes(int64(n)) }
}

// arrived releases what a complete body of the given length does not need.
func (s *share) arrived(bytes int64) {
	if s.pool == nil {
		return
	}
	s.bytes = bytes
	if s.intake != nil {
		s.intake.End()
		s.intake = nil
	}
	if spare := s.held - (2*bytes + bodyCost); spare > 0 {
		s.owner.Give(spare)
		s.held -= spare
	}
}

// end releases everything.
func (s *share) end() {
	if s.pool == nil {
		return
	}
	s.written()
	if s.intake != nil {
		s.intake.End()
	}
	if s.held > 0 {
		s.owner.Give(s.held)
	}
	s.pool.accounts.Leave(s.owner)
	if s.conn != nil {
		s.pool.leave(s.conn)
	}
	*s = share{}
}

// holding counts a response as held, as far as it is longer than the body.
func (s *share) holding(bytes int64) {
	if more := bytes - s.bytes; s.pool != nil && more > 0 {
		s.owner.Force(more)
		s.held += more
	}
}

// writing counts a response as being written.
func (s *share) writing(bytes int64) {
	if s.pool == nil {
		return
	}
	s.holding(bytes)
	if s.conn != nil {
		s.writes += bytes
		s.conn.writes(bytes)
	}
}

func (s *share) written() {
	if s.writes > 0 {
		s.conn.writes(-s.writes)
		s.writes = 0
	}
}
