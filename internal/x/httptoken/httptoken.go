// Package httptoken recognizes tokens of HTTP: methods, names of headers, and the parts of media
// types.
package httptoken

// chars are the bytes of a token (RFC 9110, section 5.6.2).
const chars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

var isChar = func() (table [256]bool) {
	for _, c := range []byte(chars) {
		table[c] = true
	}
	return table
}()

// Valid reports whether text is a token: not empty, and of ASCII letters, digits and
// !#$%&'*+-.^_`|~ only.
func Valid[T string | []byte](text T) bool {
	for i := range len(text) {
		if !isChar[text[i]] {
			return false
		}
	}
	return len(text) > 0
}

// Char reports whether c may occur in a token.
func Char(c byte) bool { return isChar[c] }
