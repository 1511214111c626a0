package secret

import (
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxLayers is the maximum number of encodings inside each other that are decoded, as in
// "&amp;lt;password&amp;gt;", which has two.
const maxLayers = 2

// layers finds secrets in the parts of text that are encoded: entities of XML such as "&lt;",
// percent encoding, as of a form in a query, and the escapes of JSON strings in other text. It
// examines the decoded text and redacts the encoded one.
func (s *Set) layers(text string, offset int, out *edits) {
	if out.depth >= maxLayers {
		return
	}
	for _, l := range [...]struct {
		mark   byte
		decode func(text string, at int) (plain rune, n int)
	}{{'&', entity}, {'%', percent}, {'\\', escaped}} {
		if l.mark == '\\' && out.depth > 0 {
			continue // the caller decodes JSON in JSON
		}
		plain, at := decodeLayer(text, l.mark, l.decode)
		if len(at) == 0 {
			continue
		}
		inner := edits{depth: out.depth + 1}
		s.text(plain, 0, &inner)
		for _, e := range inner.list {
			from, to := at.before(e.from), at.before(e.to)
			if _, to := fresh(text, from, to); to > 0 {
				out.add(offset+from, offset+to, e.text)
			}
		}
	}
}

// A layer lists where decoded text differs from encoded text.
type layer []struct {
	plain, encoded int // the indexes after a decoded character
}

// before returns the index in the encoded text of an index in the decoded text.
func (l layer) before(plain int) int {
	i := sort.Search(len(l), func(i int) bool { return l[i].plain > plain })
	if i == 0 {
		return plain
	}
	return l[i-1].encoded + plain - l[i-1].plain
}

// decodeLayer decodes the characters that begin with mark. The list is empty unless one of them is
// a sign that separates names and values.
func decodeLayer(text string, mark byte, decode func(string, int) (rune, int)) (string, layer) {
	var b []byte
	var list layer
	done, useful := 0, false
	for at := next(text, mark, 0); at >= 0; at = next(text, mark, at) {
		plain, n := decode(text, at)
		if n == 0 {
			at++
			continue
		}
		useful = useful || strings.ContainsRune(`<>"'=:@&`, plain)
		b = append(b, text[done:at]...)
		if plain < 0x100 && mark == '%' {
			b = append(b, byte(plain))
		} else {
			b = utf8.AppendRune(b, plain)
		}
		at += n
		done = at
		list = append(list, struct{ plain, encoded int }{len(b), at})
	}
	if !useful {
		return "", nil
	}
	return string(append(b, text[done:]...)), list
}

// entity decodes the entity at an index (XML 1.0, sections 4.1 and 4.6).
func entity(text string, at int) (plain rune, n int) {
	name := text[at+1 : min(at+12, len(text))]
	end := strings.IndexByte(name, ';')
	if end < 2 {
		return 0, 0
	}
	n = end + len("&;")
	switch name = name[:end]; name {
	case "lt":
		return '<', n
	case "gt":
		return '>', n
	case "amp":
		return '&', n
	case "quot":
		return '"', n
	case "apos":
		return '\'', n
	}
	number, ok := strings.CutPrefix(name, "#")
	if !ok {
		return 0, 0
	}
	base := 10
	if number[0]|0x20 == 'x' {
		number, base = number[1:], 16
	}
	if c, err := strconv.ParseUint(number, base, 21); err == nil {
		return rune(c), n
	}
	return 0, 0
}

// percent decodes one byte of percent encoding (RFC 3986, section 2.1).
func percent(text string, at int) (plain rune, n int) {
	if at+3 > len(text) {
		return 0, 0
	}
	c, err := strconv.ParseUint(text[at+1:at+3], 16, 8)
	if err != nil {
		return 0, 0
	}
	return rune(c), 3
}

// escaped decodes an escape of a JSON string that s.text does not read as it is: \u003c, and the
// backslash before a slash.
func escaped(text string, at int) (plain rune, n int) {
	switch {
	case at+6 <= len(text) && text[at+1] == 'u':
		if c, err := strconv.ParseUint(text[at+2:at+6], 16, 16); err == nil && c >= ' ' {
			return rune(c), 6
		}
	case at+1 < len(text) && text[at+1] == '/':
		return '/', 2
	case at+2 < len(text) && text[at+1] == '\\' && text[at+2] == 'u': // of JSON in JSON
		if c, n := escaped(text, at+1); n > 0 {
			return c, n + 1
		}
	}
	return 0, 0
}
