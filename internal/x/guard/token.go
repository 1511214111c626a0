package guard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A Digest is the SHA-256 of a token. It is stored instead of the token.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// NewToken returns a token of 256 random bits, in URL-safe characters.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

const (
	// MaxToken bounds a token, in bytes; longer tokens are rejected before they are hashed.
	MaxToken   = 8 << 10
	maxStrikes = 10               // wrong tokens of one address within strikeSpan
	strikeSpan = time.Minute      // how long a wrong token counts
	lockTime   = 60 * time.Second // how long further wrong tokens of the address get 429
	maxGuests  = 4096             // maximum number of remembered addresses
	sample     = 32               // how many of them are examined to find an old one
)

// A Rejection is the reason why [Options.Verify] rejects a token.
type Rejection struct {
	// Status is 401 for a token that is not valid, 403 for one that grants too little, and 503 if
	// tokens cannot be verified at the moment. Only 401 counts as a wrong token.
	Status int
	Text   string // one sentence
	Scope  string // for 403: the required scopes, separated by spaces
}

// checkToken requires one of the tokens, or one that Verify accepts, and returns the request for
// the handler. A correct token is always accepted: all users of a machine or a proxy share an
// address, and one faulty program must not lock out the others. This does not help attackers,
// because tokens are too long to guess. Missing credentials do not count as an attempt.
func (d *Door) checkToken(r *http.Request) (*http.Request, *Refusal) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return nil, d.challenge("", "a bearer token is required")
	}
	rejected := &Rejection{Status: http.StatusUnauthorized, Text: "this token is not valid"}
	if token, ok := bearer(values[0]); ok && len(values) == 1 {
		if d.knows(token) {
			return r, nil
		}
		if d.o.Verify != nil {
			ctx, no := d.o.Verify(r, token)
			if no == nil {
				delete(r.Header, "Authorization") // the request belongs to this server
				return r.WithContext(ctx), nil
			}
			rejected = no
		}
	}
	switch rejected.Status {
	case http.StatusForbidden:
		return nil, d.insufficient(rejected)
	case http.StatusServiceUnavailable:
		return nil, &Refusal{Status: rejected.Status, Text: rejected.Text, Name: "Retry-After", Value: "5"}
	}
	if wait := d.strikes.Strike(r.RemoteAddr); wait > 0 {
		return nil, &Refusal{Status: http.StatusTooManyRequests, Text: "too many invalid tokens, wait",
			Name: "Retry-After", Value: seconds(int((wait + time.Second - 1) / time.Second))}
	}
	return nil, d.challenge(`error="invalid_token"`, rejected.Text)
}

// insufficient returns a 403 response with the required scopes (RFC 6750, section 3.1).
func (d *Door) insufficient(no *Rejection) *Refusal {
	f := d.challenge(`error="insufficient_scope"`, no.Text)
	f.Status = no.Status
	if no.Scope != "" {
		f.Value += `, scope="` + no.Scope + `"`
	}
	return f
}

// challenge returns a 401 response (RFC 6750, section 3).
func (d *Door) challenge(fault, text string) *Refusal {
	parts := make([]string, 0, 2)
	if d.o.Challenge != "" {
		parts = append(parts, d.o.Challenge)
	}
	if fault != "" {
		parts = append(parts, fault)
	}
	value := strings.TrimRight("Bearer "+strings.Join(parts, ", "), " ")
	return &Refusal{Status: http.StatusUnauthorized, Text: text, Name: "WWW-Authenticate", Value: value}
}

// bearer returns the token of an Authorization header (RFC 6750, section 2.1). The case of the
// scheme is ignored.
func bearer(value string) (string, bool) {
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > MaxToken {
		return "", false
	}
	return token, true
}

// knows compares token with all tokens, in a time that does not depend on which one matches.
func (d *Door) knows(token string) bool {
	digest := DigestOf(token)
	found := 0
	for i := range d.o.Tokens {
		found |= subtle.ConstantTimeCompare(digest[:], d.o.Tokens[i][:])
	}
	return found == 1
}

// Strikes counts wrong tokens per address. The zero value is ready for use. It stores up to 4,096
// addresses; beyond that each new address replaces an older one.
type Strikes struct {
	mu     sync.Mutex // guards guests and their entries
	guests map[netip.Addr]*record
}

type record struct {
	times  [maxStrikes]time.Time // a ring buffer
	next   int                   // the oldest entry, or an empty one
	latest time.Time
	locked time.Time // end of the lock
}

// Strike counts a wrong token of a remote address, "host:port". If the address has sent ten within
// a minute, Strike counts nothing and returns how long further wrong tokens of it get 429.
func (s *Strikes) Strike(remote string) time.Duration {
	guest, now := guestOf(remote), time.Now()
	if wait := s.wait(guest, now); wait > 0 {
		return wait
	}
	s.count(guest, now)
	return 0
}

// wait returns how long further wrong tokens of the address get 429.
func (s *Strikes) wait(guest netip.Addr, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.guests[guest]
	if c == nil {
		return 0
	}
	return c.locked.Sub(now)
}

// count records a wrong token. After ten within a minute, wait returns more than zero.
func (s *Strikes) count(guest netip.Addr, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.guests[guest]
	if c == nil {
		s.makeRoomLocked(now)
		c = new(record)
		s.guests[guest] = c
	}
	c.latest = now
	c.times[c.next] = now
	c.next = (c.next + 1) % maxStrikes
	if tenth := c.times[c.next]; !tenth.IsZero() && now.Sub(tenth) < strikeSpan {
		*c = record{latest: now, locked: now.Add(lockTime)}
	}
}

func (s *Strikes) makeRoomLocked(now time.Time) {
	if s.guests == nil {
		s.guests = make(map[netip.Addr]*record)
	}
	if len(s.guests) < maxGuests {
		return
	}
	var oldest netip.Addr
	at, seen := now, 0
	for guest, c := range s.guests { // map iteration starts at a random entry, so this is a sample
		if !c.latest.After(at) {
			at, oldest = c.latest, guest
		}
		if seen++; seen == sample {
			break
		}
	}
	delete(s.guests, oldest)
}

// guestOf returns the address that strikes count for: one IPv4 address, or an IPv6 network of 64
// bits, because the holder of one of its addresses can use all of them.
func guestOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{} // a Unix socket, or no address: all such callers count as one
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return addr
}
