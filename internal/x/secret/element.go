package secret

import "strings"

// elements finds secrets in XML: the content of <password>x</password>, and the value that belongs
// to a name, as in <add key="token" value="x"/>, <entry name="token">x</entry> and
// <key>token</key><string>x</string>. An element without an end, as in a help text with
// <password> for a value, has no content.
func (s *Set) elements(text string, offset int, edits *edits) {
	open := ""       // the name of the innermost element with a secret
	content := 0     // where its content begins
	inner := 0       // where the content of the last element begins
	pending := false // the content of the next element is a secret
	for at := next(text, '<', 0); at >= 0; at = next(text, '<', at+1) {
		name, closes := elementName(text, at)
		if name == "" {
			continue
		}
		if closes {
			switch {
			case open != "" && name == open:
				if from, to := trimmed(text, content, at); to > from && !strings.HasPrefix(text[from:], Hidden) {
					edits.add(offset+from, offset+to, Hidden)
				}
				open = ""
			case inner > 0 && isKeyElement(name):
				from, to := trimmed(text, inner, at)
				pending = to-from >= 3 && to-from <= maxName && s.rules.hides([]byte(text[from:to]))
			}
			inner = 0
			continue
		}
		size := strings.IndexAny(text[at+1:], "<>")
		if size < 0 || text[at+1+size] == '<' {
			continue
		}
		end := at + 1 + size
		attributes := text[at+1+len(name) : end]
		hidden := pending || s.rules.hides([]byte(localName(name)))
		if !hidden && strings.IndexByte(attributes, '=') > 0 {
			if from, to := attribute(attributes, "name", "key"); to-from >= 3 && s.rules.hides([]byte(attributes[from:to])) {
				hidden = true
				base := at + 1 + len(name)
				if from, to := attribute(attributes, "value"); to > from && !strings.HasPrefix(attributes[from:], Hidden) {
					edits.add(offset+base+from, offset+base+to, Hidden)
				}
			}
		}
		pending = false
		if strings.HasSuffix(attributes, "/") {
			continue
		}
		inner = end + 1
		if hidden {
			open, content = name, end+1
		}
	}
	// The text may be truncated after the beginning of the content.
	if open != "" && inner == content {
		if rest := text[content:]; looksSecret(rest) && !strings.ContainsAny(rest, " \t\n\\<>\"'") && !strings.HasPrefix(rest, Hidden) {
			edits.add(offset+content, offset+len(text), Hidden)
		}
	}
}

// elementName returns the name of the tag at an index, and whether the tag ends the element.
func elementName(text string, at int) (name string, closes bool) {
	from := at + 1
	if from < len(text) && text[from] == '/' {
		closes = true
		from++
	}
	to := from
	for to < len(text) && to-from < maxName && (isNameByte(text[to]) || text[to] == ':') {
		to++
	}
	return text[from:to], closes
}

// localName returns name without its prefix (Namespaces in XML 1.0, section 4).
func localName(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

// isKeyElement reports whether the content of an element is the name of the next one.
func isKeyElement(name string) bool {
	switch localName(name) {
	case "key", "name", "Key", "Name":
		return true
	}
	return false
}

// attribute returns the position of the value of the first attribute that has one of the names.
func attribute(attributes string, names ...string) (from, to int) {
	for _, name := range names {
		for at := 0; ; {
			i := strings.Index(attributes[at:], name)
			if i < 0 {
				break
			}
			at += i + len(name)
			if before := at - len(name) - 1; before < 0 || attributes[before] > ' ' || at == len(attributes) || attributes[at] != '=' {
				continue
			}
			return valueAt(attributes, at+1)
		}
	}
	return 0, 0
}

// trimmed returns the position of content without white space, without escapes of line ends, and
// without the marks of CDATA.
func trimmed(text string, from, to int) (int, int) {
	for from < to {
		if n := lineEnd(text[from:to]); n > 0 {
			from += n
		} else if text[from] <= ' ' {
			from++
		} else if strings.HasPrefix(text[from:to], `\t`) {
			from += 2
		} else {
			break
		}
	}
	for to > from {
		if text[to-1] <= ' ' {
			to--
		} else if end := text[max(from, to-2):to]; end == `\n` || end == `\r` || end == `\t` {
			to -= 2
		} else {
			break
		}
	}
	if body, ok := strings.CutPrefix(text[from:to], "<![CDATA["); ok {
		from = to - len(body)
		to -= len(body) - len(strings.TrimSuffix(body, "]]>"))
	}
	return from, to
}
