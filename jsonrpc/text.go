package jsonrpc

import (
	"unicode/utf8"
)

// appendString adds s to dst as a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	plain := 0 // where the bytes begin that need no escape
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

// unescape adds what the checked JSON string in text means to dst. An escaped lone surrogate becomes U+FFFD.
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
			r, _ := hex4(text, i+2)
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

// isEscaped reports whether the JSON string in text means anything else than the bytes between its quotes.
func isEscaped(text []byte) bool {
	for _, c := range text {
		if c == '\\' {
			return true
		}
	}
	return false
}

// textOf returns what the checked JSON string in text means.
func textOf(text []byte) string {
	if !isEscaped(text) {
		return string(text[1 : len(text)-1])
	}
	return string(unescape(make([]byte, 0, len(text)), text))
}
