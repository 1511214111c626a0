package jsonrpc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// A SyntaxError is a position where a text is not JSON (RFC 8259), or exceeds a limit.
type SyntaxError struct {
	Offset int    // in bytes, from the start of the text
	Reason string // what is wrong at Offset
	Limit  bool   // the text may be JSON, but is nested too deeply or has too many values
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("jsonrpc: %s at byte %d", e.Reason, e.Offset)
}

// A scanner checks the grammar of JSON in one pass: RFC 8259, valid UTF-8, bounded depth and number
// of tokens. It uses one bit per level, copies nothing, and does not depend on JSON-RPC.
type scanner struct {
	depth  int      // levels that may still be opened; set by limit
	tokens int      // values and names that may still follow
	lone   bool     // a string had an escaped surrogate without its other half
	escape bool     // a string had an escape sequence
	outer  []uint64 // kinds of the levels above the innermost 64
}

// limit sets the limits of one message.
func (s *scanner) limit(depth, tokens int) {
	s.depth, s.tokens, s.lone, s.escape = depth, tokens, false, false
}

// defaultScanner returns a scanner with the default limits.
func defaultScanner() scanner {
	return scanner{depth: defaultDepth, tokens: defaultTokens}
}

// value checks the value that starts at b[i], including white space before it, and returns the
// index after it.
func (s *scanner) value(b []byte, i int) (int, error) {
	var (
		level int    // open objects and arrays
		kinds uint64 // a bit for each of the innermost 64: 1 means object
		err   error
	)
	for {
		if i = skipSpace(b, i); i >= len(b) {
			return i, s.fail(i, "unexpected end")
		}
		if s.tokens--; s.tokens < 0 {
			return i, s.overLimit(i, "too many values")
		}
		switch c := b[i]; c {
		case '"':
			i, err = s.str(b, i)
		case '{', '[':
			if level >= s.depth {
				return i, s.overLimit(i, "nested too deeply")
			}
			if level > 0 && level&63 == 0 {
				s.outer = append(s.outer, kinds)
			}
			level++
			kinds <<= 1
			i = skipSpace(b, i+1)
			if c == '[' {
				if i < len(b) && b[i] == ']' {
					break // closed below as usual
				}
				continue
			}
			kinds |= 1
			if i < len(b) && b[i] == '}' {
				break
			}
			var closed bool
			if i, closed = s.plainMembers(b, i); closed {
				break
			}
			if i, err = s.name(b, skipSpace(b, i)); err != nil {
				return i, err
			}
			continue
		case 't':
			i, err = s.literal(b, i, "true")
		case 'f':
			i, err = s.literal(b, i, "false")
		case 'n':
			i, err = s.literal(b, i, "null")
		default:
			i, err = s.number(b, i)
		}
		if err != nil {
			return i, err
		}
		for { // a value ends here, and possibly the array or object around it
			if level == 0 {
				return i, nil
			}
			if i = skipSpace(b, i); i >= len(b) {
				return i, s.fail(i, "unexpected end")
			}
			if b[i] == ',' {
				break
			}
			if b[i] != ']'+byte(kinds&1)*('}'-']') {
				return i, s.fail(i, "expected a comma or the end")
			}
			i++
			level--
			kinds >>= 1
			if level > 0 && level&63 == 0 {
				kinds = s.outer[len(s.outer)-1]
				s.outer = s.outer[:len(s.outer)-1]
			}
		}
		i++
		if kinds&1 == 1 {
			if i, err = s.name(b, skipSpace(b, i)); err != nil {
				return i, err
			}
		}
	}
}

// plainMembers skips the members from b[i] on that have the usual form: no white space, an ASCII
// name, and a positive integer or an ASCII string as value. It returns the index of the first
// member of another form, or of the closing brace, and whether it is the brace.
func (s *scanner) plainMembers(b []byte, i int) (next int, closed bool) {
	for start := i; s.tokens >= 2; start = i {
		end := plainString(b, i)
		if end+1 >= len(b) || b[end] != ':' {
			return start, false
		}
		if c := b[end+1]; c == '"' {
			i = plainString(b, end+1)
		} else if '1' <= c && c <= '9' {
			i = digits(b, end+2)
		} else {
			return start, false
		}
		if i >= len(b) || b[i] != ',' && b[i] != '}' {
			return start, false
		}
		s.tokens -= 2
		if b[i] == '}' {
			return i, true
		}
		i++
	}
	return i, false
}

// plainString returns the index after the string that starts at b[i], or len(b) if there is no
// string or it contains anything but plain ASCII.
func plainString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return len(b)
	}
	for i++; i+8 <= len(b); i += 8 {
		if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			if i += bits.TrailingZeros64(m) >> 3; b[i] == '"' {
				return i + 1
			}
			break
		}
	}
	return len(b)
}

// member is value for the usual values of a small object: strings and numbers, without the stack
// for nesting.
func (s *scanner) member(b []byte, i int) (int, error) {
	if i < len(b) {
		switch c := b[i]; {
		case c == '"':
			s.tokens--
			return s.str(b, i)
		case '0' <= c && c <= '9':
			s.tokens--
			return s.number(b, i)
		}
	}
	return s.value(b, i)
}

// name checks the member name at b[i] and the colon after it.
func (s *scanner) name(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return i, s.fail(i, "expected a member name")
	}
	if s.tokens--; s.tokens < 0 {
		return i, s.overLimit(i, "too many values")
	}
	i, err := s.str(b, i)
	if err != nil {
		return i, err
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return i, s.fail(i, "expected a colon")
	}
	return i + 1, nil
}

func (s *scanner) fail(at int, reason string) error {
	s.outer = s.outer[:0]
	return &SyntaxError{Offset: at, Reason: reason}
}

func (s *scanner) overLimit(at int, reason string) error {
	s.outer = s.outer[:0]
	return &SyntaxError{Offset: at, Reason: reason, Limit: true}
}

// spaces has a bit for each byte that is white space in JSON; all are at most ' '.
const spaces uint64 = 1<<' ' | 1<<'\n' | 1<<'\t' | 1<<'\r'

// skipSpace returns the index of the first byte at or after i that is not white space.
func skipSpace(b []byte, i int) int {
	// unsigned: one comparison instead of two
	for uint(i) < uint(len(b)) && b[i] <= ' ' && spaces>>(b[i]&63)&1 == 1 {
		i++
	}
	return i
}

func (s *scanner) literal(b []byte, i int, text string) (int, error) {
	if len(b)-i < len(text) || string(b[i:i+len(text)]) != text {
		return i, s.fail(i, "unknown word")
	}
	return i + len(text), nil
}

func (s *scanner) number(b []byte, i int) (int, error) {
	start := i
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && '1' <= b[i] && b[i] <= '9':
		i = digits(b, i)
	default:
		if i == start {
			return i, s.fail(i, "expected a value")
		}
		return i, s.fail(i, "expected a digit")
	}
	if i < len(b) && b[i] == '.' {
		end := digits(b, i+1)
		if end == i+1 {
			return end, s.fail(end, "expected a digit")
		}
		i = end
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := digits(b, i)
		if end == i {
			return end, s.fail(end, "expected a digit")
		}
		i = end
	}
	return i, nil
}

func digits(b []byte, i int) int {
	for uint(i) < uint(len(b)) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

const (
	eachByte = 0x0101010101010101
	eachHigh = 0x8080808080808080
)

// special marks the bytes of a word that end a plain run of string bytes: a quote, a backslash, a
// control character, or a byte above ASCII. Marks above the lowest one may be wrong.
func special(w uint64) uint64 {
	quote := w ^ eachByte*'"'
	slash := w ^ eachByte*'\\'
	return (w | (w-eachByte*0x20)&^w | (quote-eachByte)&^quote | (slash-eachByte)&^slash) & eachHigh
}

// str checks the string whose opening quote is b[i] and returns the index after its closing quote.
func (s *scanner) str(b []byte, i int) (int, error) {
	i++
	for {
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, s.fail(len(b), "unexpected end in a string")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			s.escape = true
			n, err := s.escaped(b, i)
			if err != nil {
				return i, err
			}
			i = n
		case c < 0x20:
			return i, s.fail(i, "control character in a string")
		case c < utf8.RuneSelf:
			i++ // the last bytes of b are checked one by one
		default:
			_, n := utf8.DecodeRune(b[i:])
			if n == 1 {
				return i, s.fail(i, "invalid UTF-8")
			}
			i += n
		}
	}
}

// escaped checks the escape sequence at b[i] and returns the index after it.
func (s *scanner) escaped(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return i, s.fail(len(b), "unexpected end in a string")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		r, ok := hex4(b, i+2)
		if !ok {
			return i, s.fail(i, "invalid escape sequence")
		}
		switch {
		case r < 0xD800 || r > 0xDFFF:
		case r >= 0xDC00:
			s.lone = true
		default:
			if _, ok := lowSurrogate(b, i+6); ok {
				return i + 12, nil
			}
			s.lone = true
		}
		return i + 6, nil
	}
	return i, s.fail(i, "invalid escape sequence")
}

// lowSurrogate parses the escaped second half of a surrogate pair.
func lowSurrogate(b []byte, i int) (rune, bool) {
	if i+2 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return 0, false
	}
	r, ok := hex4(b, i+2)
	return r, ok && 0xDC00 <= r && r <= 0xDFFF
}

// hex4 parses four hexadecimal digits.
func hex4(b []byte, i int) (rune, bool) {
	if i+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
