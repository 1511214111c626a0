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

// A Digest is the SHA-256 of a token: what is kept instead of it.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// NewToken makes a token of 256 random bits, in the characters of a URL.
func NewToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, and ends the program if it would
	return base64.RawURLEncoding.EncodeToString(b[:])
}

const (
	maxToken   = 8 << 10          // bytes; a longer one is not even hashed
	maxStrikes = 10               // wrong tokens of one address in a strikeSpan
	strikeSpan = time.Minute      // how long a wrong token counts
	lockTime   = 60 * time.Second // how long an address waits then
	maxGuests  = 4096             // addresses that are remembered
	sample     = 32               // of which so many are looked at to find an old one
)

// checkToken asks for one of the tokens. No credentials at all are no attempt and do not count.
func (d *Door) checkToken(r *http.Request) *Refusal {
	guest := guestOf(r.RemoteAddr)
	if wait := d.strikes.wait(guest, time.Now()); wait > 0 {
		return &Refusal{Status: http.StatusTooManyRequests, Text: "too many wrong tokens, wait",
			Name: "Retry-After", Value: seconds(int((wait + time.Second - 1) / time.Second))}
	}
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return d.challenge("", "a bearer token is needed")
	}
	token, ok := bearer(values[0])
	if ok && len(values) == 1 && d.knows(token) {
		return nil
	}
	d.strikes.count(guest, time.Now())
	return d.challenge(`error="invalid_token"`, "this token is not valid here")
}

// challenge is a 401 (RFC 6750, section 3).
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

// bearer takes the token out of an Authorization header (RFC 6750, section 2.1). The scheme's case does not matter.
func bearer(value string) (string, bool) {
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false
	}
	return token, true
}

// knows compares with all tokens, in a time that does not depend on which one it is.
func (d *Door) knows(token string) bool {
	digest := DigestOf(token)
	found := 0
	for i := range d.o.Tokens {
		found |= subtle.ConstantTimeCompare(digest[:], d.o.Tokens[i][:])
	}
	return found == 1
}

// strikes counts wrong tokens per address. The zero value is ready. It remembers maxGuests addresses; past that each new
// one costs one of the older ones its place.
type strikes struct {
	mu     sync.Mutex // guards guests and what they point to
	guests map[netip.Addr]*record
}

type record struct {
	times  [maxStrikes]time.Time // a ring
	next   int                   // the oldest entry, or one that is still empty
	latest time.Time
	locked time.Time // until when
}

// wait returns how long the address must stay away.
func (s *strikes) wait(guest netip.Addr, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.guests[guest]
	if c == nil {
		return 0
	}
	return c.locked.Sub(now)
}

// count notes a wrong token; the tenth within a minute locks the address out.
func (s *strikes) count(guest netip.Addr, now time.Time) {
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

func (s *strikes) makeRoomLocked(now time.Time) {
	if s.guests == nil {
		s.guests = make(map[netip.Addr]*record)
	}
	if len(s.guests) < maxGuests {
		return
	}
	var oldest netip.Addr
	at, seen := now, 0
	for guest, c := range s.guests { // Go begins anywhere, so this is a sample
		if !c.latest.After(at) {
			at, oldest = c.latest, guest
		}
		if seen++; seen == sample {
			break
		}
	}
	delete(s.guests, oldest)
}

// guestOf is the address that strikes count for: one IPv4 address, or an IPv6 network of 64 bits, since whoever has one
// address of it has all.
func guestOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{} // a Unix socket, or none: all such callers are one
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return network.Addr()
		}
	}
	return addr
}
