package jsonrpc

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// A long text gets room for itself and for what usually follows it: growing step by step would
// allocate several times its length.
const (
	longText  = 1 << 10
	textSlack = 128
)

// AppendString appends s to dst as a JSON string with as few escapes as possible: those that
// encoding/json/v2 writes too. Each byte of invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	if len(s) >= longText {
		dst = slices.Grow(dst, len(s)+textSlack)
	}
	dst = append(dst, '"')
	plain := 0 // the start of the bytes that need no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			_, n := utf8.DecodeRuneInString(s[i:])
			if n == 1 {
				dst = append(append(dst, s[plain:i]...), "\uFFFD"...)
				plain = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		plain = i
	}
	return append(append(dst, s[plain:]...), '"')
}

// unescape appends the decoded value of text, a JSON string, to dst. An escaped lone
// surrogate becomes U+FFFD.
func unescape(dst, text []byte) []byte {
	for i := 1; i < len(text)-1; {
		c := text[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		switch c = text[i+1]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, ok := hex4(text, i+2)
			if !ok {
				r = utf8.RuneError // only in text that was not checked
			}
			i += 6
			if low, ok := lowSurrogate(text, i); ok && 0xD800 <= r && r < 0xDC00 {
				r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
		i += 2
	}
	return dst
}

// isEscaped reports whether the JSON string in text contains an escape sequence, so that its value
// differs from the bytes between the quotes.
func isEscaped(text []byte) bool { return bytes.IndexByte(text, '\\') >= 0 }

// textOf returns the decoded value of text, a checked JSON string.
func textOf(text []byte) string {
	if !isEscaped(text) {
		return string(text[1 : len(text)-1])
	}
	return string(unescape(make([]byte, 0, len(text)), text))
}
