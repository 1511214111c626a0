package jsonrpc

import (
	"bytes"
	"iter"
	"slices"
)

// Members yields the members of the object in r in source order, with duplicates: the unescaped
// name and the value. It yields nothing if r is not an object. White space before the object is
// skipped, and text after it is ignored. In a name, the escape of a lone surrogate becomes U+FFFD.
//
// A value is a part of r without a copy; its capacity ends with the value, so that append copies. A
// name is valid until the next iteration, and must not be changed: without escapes it is a part of
// r too. If no name has an escape, Members does not allocate memory.
//
// Members does not check r again (see [Raw]). If r is not valid JSON, the iteration stops early, at
// the latest where r ends, and the yielded values may be invalid too.
func (r Raw) Members() iter.Seq2[[]byte, Raw] {
	return func(yield func(name []byte, value Raw) bool) { r.eachMember(yield) }
}

// Elements yields the elements of the array in r in order. It yields nothing if r is not an array.
// Otherwise it is like [Raw.Members].
func (r Raw) Elements() iter.Seq[Raw] {
	return func(yield func(Raw) bool) { r.eachElement(yield) }
}

func (r Raw) eachMember(yield func(name []byte, value Raw) bool) {
	start := skipSpace(r, 0)
	if start >= len(r) || r[start] != '{' {
		return
	}
	w := walker{text: r, at: skipSpace(r, start+1)}
	for {
		name, value, ok := w.member()
		if !ok || !yield(name, value) {
			return
		}
	}
}

func (r Raw) eachElement(yield func(Raw) bool) {
	start := skipSpace(r, 0)
	if start >= len(r) || r[start] != '[' {
		return
	}
	w := walker{text: r, at: skipSpace(r, start+1)}
	for {
		value, ok := w.element()
		if !ok || !yield(value) {
			return
		}
	}
}

// A walker iterates over the elements of an array, or the members of an object. If the text is not
// valid JSON, it ends early, and every index is checked.
type walker struct {
	text      Raw
	at        int    // of the next element or member, or of the closing bracket
	unescaped []byte // buffer for names with escapes
}

// walk returns a walker for an array or an object, which begins with its bracket.
func walk(text Raw) walker { return walker{text: text, at: skipSpace(text, 1)} }

// element returns the next element of an array.
func (w *walker) element() (Raw, bool) {
	if w.at >= len(w.text) || w.text[w.at] == ']' {
		return nil, false
	}
	value := w.value()
	return value, value != nil
}

// member returns the next member of an object. The name is unescaped, and valid until the next
// call.
func (w *walker) member() (name []byte, value Raw, ok bool) {
	start := w.at
	if start >= len(w.text) || w.text[start] != '"' {
		return nil, nil, false
	}
	end := skipString(w.text, start)
	colon := skipSpace(w.text, end)
	if colon >= len(w.text) || w.text[colon] != ':' {
		w.at = len(w.text)
		return nil, nil, false
	}
	name = w.text[start+1 : end-1]
	if isEscaped(name) {
		w.unescaped = unescape(slices.Grow(w.unescaped[:0], len(name)), w.text[start:end])
		name = w.unescaped
	}
	w.at = skipSpace(w.text, colon+1)
	value = w.value()
	return name, value, value != nil
}

// atEnd reports whether the closing bracket comes next.
func (w *walker) atEnd(bracket byte) bool { return w.at < len(w.text) && w.text[w.at] == bracket }

// skip skips text if it comes next, and reports whether it does.
func (w *walker) skip(text string) bool {
	if w.at > len(w.text) {
		return false
	}
	rest := w.text[w.at:]
	if len(rest) < len(text) || string(rest[:len(text)]) != text {
		return false
	}
	w.at = skipSpace(w.text, w.at+len(text))
	return true
}

// value returns the value at the current position and moves to the next one. It returns nil if the
// text is not valid JSON; then nothing follows.
func (w *walker) value() Raw {
	start := w.at
	end := start
	for end < len(w.text) && '0' <= w.text[end] && w.text[end] <= '9' { // most numbers are digits only
		end++
	}
	if end == start || end < len(w.text) && w.text[end] != ',' && w.text[end] != '}' && w.text[end] != ']' {
		end = skipValue(w.text, start)
	}
	w.at = skipSpace(w.text, end)
	if w.at >= len(w.text) || end == start {
		w.at = len(w.text)
		return nil // not even the closing bracket follows
	}
	switch w.text[w.at] {
	case ',':
		w.at = skipSpace(w.text, w.at+1)
	case '}', ']':
	default:
		w.at = len(w.text)
	}
	return w.text[start:end:end]
}

// skipValue returns the index after the value at b[i]. If there is no value, it returns i, or an
// index at the end of b.
func skipValue(b []byte, i int) int {
	for level := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			level++
			i++
		case '}', ']':
			if level == 0 {
				return i
			}
			level--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if level == 0 {
				return i
			}
			i++
		default:
			start := i
			for i < len(b) && (b[i] > ',' && b[i] != ':' && b[i] != ']' && b[i] != '}' || b[i] == '+') {
				i++
			}
			if i == start {
				return len(b) // no value begins with this byte
			}
		}
		if level == 0 {
			return i
		}
	}
	return len(b)
}

// nearby is the number of bytes of a string that skipString reads one by one: most strings end
// there, and for those a call of bytes.IndexByte takes longer.
const nearby = 32

// skipString returns the index after the string at b[i], or len(b) if the string does not end.
func skipString(b []byte, i int) int {
	i++
	for near := min(len(b), i+nearby); i < near; i++ {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	for i < len(b) {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			break
		}
		escapes := 0 // the backslashes before the quote
		for escapes < n && b[i+n-1-escapes] == '\\' {
			escapes++
		}
		i += n + 1
		if escapes%2 == 0 {
			return i
		}
	}
	return len(b)
}
