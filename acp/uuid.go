package acp

import (
	"crypto/rand"
	"encoding/hex"
)

// newUUID returns a random UUID (RFC 9562, section 5.4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	var out [36]byte
	at := 0
	for i, n := range []int{4, 2, 2, 2, 6} {
		if i > 0 {
			out[at] = '-'
			at++
		}
		hex.Encode(out[at:], b[:n])
		copy(b[:], b[n:])
		at += 2 * n
	}
	return string(out[:])
}

// isUUID reports whether s looks like a UUID, of any version and in any case (RFC 9562, section 4).
func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return false
			}
		}
	}
	return true
}
