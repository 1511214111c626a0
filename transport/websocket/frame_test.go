package websocket

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

func TestHeaderLengths(t *testing.T) {
	for _, masked := range []bool{false, true} {
		for _, c := range []struct {
			length, size int
		}{{0, 2}, {125, 2}, {126, 4}, {65535, 4}, {65536, 10}, {1 << 30, 10}} {
			want := c.size
			if masked {
				want += 4
			}
			b := appendHeader(nil, opText, c.length, masked, testMask)
			if len(b) != want {
				t.Errorf("appendHeader(%d, masked %v) has %d bytes, want %d", c.length, masked, len(b), want)
			}
			for i := range b {
				if _, n, bad := parseHeader(b[:i], masked); n != 0 || bad != nil {
					t.Errorf("parseHeader of %d of %d bytes = %d, %v, want 0 and no error", i, len(b), n, bad)
				}
			}
			h, n, bad := parseHeader(append(b, 1, 2, 3), masked)
			if bad != nil || n != want || h.length != int64(c.length) || !h.fin || h.op != opText || masked && h.key != testMask {
				t.Errorf("parseHeader(% x) = %+v, %d, %v", b, h, n, bad)
			}
		}
	}
}

// TestHeaderRefused checks that a violation is reported at the first byte that shows it, without
// waiting for the rest.
func TestHeaderRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		bytes  string
		masked bool
	}{
		{"reserved bit 1", "\xC1", true},
		{"reserved bit 2", "\xA1", true},
		{"reserved bit 3", "\x91", true},
		{"reserved opcode 3", "\x83", true},
		{"reserved opcode 7", "\x87", false},
		{"reserved opcode 11", "\x8B", false},
		{"reserved opcode 15", "\x8F", true},
		{"fragmented close", "\x08", true},
		{"fragmented ping", "\x09", true},
		{"fragmented pong", "\x0A", false},
		{"no mask from a client", "\x81\x05", true},
		{"a mask from a server", "\x81\x85", false},
		{"a long ping", "\x89\xFE", true},
		{"a very long close", "\x88\x7F", false},
		{"125 in two bytes", "\x81\xFE\x00\x7D", true},
		{"0 in two bytes", "\x81\x7E\x00\x00", false},
		{"65535 in eight bytes", "\x81\xFF\x00\x00\x00\x00\x00\x00\xFF\xFF", true},
		{"125 in eight bytes", "\x81\x7F\x00\x00\x00\x00\x00\x00\x00\x7D", false},
		{"64 bits", "\x81\x7F\x80\x00\x00\x00\x00\x00\x00\x00", false},
	} {
		b := []byte(c.bytes)
		if _, _, bad := parseHeader(b, c.masked); bad == nil || bad.code != CloseProtocolError {
			t.Errorf("%s: parseHeader(% x) = %v, want 1002", c.name, b, bad)
		}
		if len(b) > 2 { // a wrong length is detected with its last byte, not before
			if _, _, bad := parseHeader(b[:len(b)-1], c.masked); bad != nil {
				t.Errorf("%s: parseHeader(% x) = %v, want no error yet", c.name, b[:len(b)-1], bad)
			}
		}
	}
}

// TestXOR compares xor with the definition (RFC 6455, section 5.3), at all lengths and offsets, in
// place and moving down.
func TestXOR(t *testing.T) {
	src := make([]byte, 200)
	for i := range src {
		src[i] = byte(rand.Uint32())
	}
	mask := [4]byte{0xD4, 0xC3, 0xB2, 0xA1} // testMask
	for n := range len(src) + 1 {
		want := make([]byte, n)
		for i := range want {
			want[i] = src[i] ^ mask[i%4]
		}
		for _, gap := range []int{0, 1, 2, 6, 8, 14, 100} {
			buf := append(make([]byte, gap), src[:n]...)
			for cut := 0; cut <= n; cut += 1 + n/7 { // in two pieces, passing on the key
				work := bytes.Clone(buf)
				key := xor(work, work[gap:gap+cut], testMask)
				xor(work[cut:], work[gap+cut:], key)
				if !bytes.Equal(work[:n], want) {
					t.Fatalf("xor of %d bytes, cut at %d, moved by %d:\n got % x\nwant % x", n, cut, gap, work[:n], want)
				}
			}
		}
	}
}

// TestTextPrefix checks that b may still become UTF-8 exactly if some continuation of it is.
func TestTextPrefix(t *testing.T) {
	tails := []string{""}
	for _, c := range []string{"\x80", "\x90", "\xA0", "\xBF"} {
		for _, d := range []string{"", "\x80", "\x80\x80"} {
			tails = append(tails, c+d)
		}
	}
	alphabet := []byte("a\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xdf\xe0\xe1\xed\xf0\xf1\xf4\xf5")
	var check func(b []byte)
	check = func(b []byte) {
		want := false
		for _, tail := range tails {
			want = want || utf8.Valid(append(bytes.Clone(b), tail...))
		}
		n, ok := textPrefix(b)
		if ok != want || ok && !utf8.Valid(b[:n]) {
			t.Fatalf("textPrefix(% x) = %d, %v, want %v", b, n, ok, want)
		}
		if ok && utf8.Valid(b) && n != len(b) {
			t.Fatalf("textPrefix(% x) = %d, though all of it is whole", b, n)
		}
		if len(b) < 4 {
			for _, c := range alphabet {
				check(append(b[:len(b):len(b)], c))
			}
		}
	}
	check(nil)
}

func TestCloseReasonIsCut(t *testing.T) {
	long := bytes.Repeat([]byte("é"), 100) // the limit of 123 falls into a character
	p := appendClose(nil, CloseTryLater, string(long))
	if len(p) != 124 || !utf8.Valid(p[2:]) {
		t.Errorf("appendClose has %d bytes (% x), want 124 and whole characters", len(p), p)
	}
	if p := appendClose(nil, CloseNoStatus, "x"); len(p) != 0 {
		t.Errorf("appendClose without a code = % x, want nothing", p)
	}
}
