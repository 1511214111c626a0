package jsonrpc

// A walker goes through the elements of an array, or the members of an object, in text that is known to be valid.
type walker struct {
	text Raw
	at   int
}

func walk(text Raw) walker { return walker{text, skipSpace(text, 1)} }

// element returns the next element of an array.
func (w *walker) element() (Raw, bool) {
	if w.text[w.at] == ']' {
		return nil, false
	}
	return w.value(), true
}

// member returns the next member of an object. The name is unescaped.
func (w *walker) member() (name []byte, value Raw, ok bool) {
	if w.text[w.at] == '}' {
		return nil, nil, false
	}
	start := w.at
	w.at = skipString(w.text, start)
	name = w.text[start+1 : w.at-1]
	if isEscaped(name) {
		name = unescape(nil, w.text[start:w.at])
	}
	w.at = skipSpace(w.text, skipSpace(w.text, w.at)+1) // past the colon
	return name, w.value(), true
}

// skip goes past text, if that comes next.
func (w *walker) skip(text string) bool {
	rest := w.text[w.at:]
	if len(rest) < len(text) || string(rest[:len(text)]) != text {
		return false
	}
	w.at = skipSpace(w.text, w.at+len(text))
	return true
}

// value returns the value at the walker's place, and goes to the next one.
func (w *walker) value() Raw {
	start := w.at
	end := skipValue(w.text, start)
	if w.at = skipSpace(w.text, end); w.text[w.at] == ',' {
		w.at = skipSpace(w.text, w.at+1)
	}
	return w.text[start:end:end]
}

// skipValue returns the index behind the value at b[i], which is known to be valid.
func skipValue(b []byte, i int) int {
	for level := 0; ; {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			level++
			i++
		case '}', ']':
			level--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			i++
		default:
			for i < len(b) && b[i] > ',' && b[i] != ':' && b[i] != ']' && b[i] != '}' || i < len(b) && b[i] == '+' {
				i++
			}
		}
		if level == 0 {
			return i
		}
	}
}

// skipString returns the index behind the string at b[i], which is known to be valid.
func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}
