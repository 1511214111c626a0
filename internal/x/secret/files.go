package secret

import "strings"

// manifests finds the data of Secrets of Kubernetes in YAML: each value below data and stringData
// of a document, or an item of a list, of that kind. Line ends may be escaped, as in JSON.
func (s *Set) manifests(text string, offset int, edits *edits) {
	const mark = "kind: Secret"
	for done := 0; ; {
		i := strings.Index(text[done:], mark)
		if i < 0 {
			return
		}
		at := done + i
		column, ok := indentation(text, at)
		if end := at + len(mark); !ok || end < len(text) && lineEnd(text[end:]) == 0 {
			done = at + len(mark)
			continue
		}
		done = s.manifest(text, done, at, column, offset, edits)
	}
}

// manifest handles one document or item, in which the kind is at an index and in a column. It
// begins at from, or later. The result is the index of its end.
func (s *Set) manifest(text string, from, kind, column, offset int, edits *edits) (end int) {
	first := len(edits.list)
	key := -1 // the column of the names of data, -2 before the first one, -1 outside
	for at := from; at < len(text); {
		line, stop := at, at
		for stop < len(text) && lineEnd(text[stop:]) == 0 {
			stop++
		}
		for line < stop && (text[line] == ' ' || text[line] == '-' && line+1 < stop && text[line+1] == ' ') {
			line++
		}
		depth, content := line-at, text[line:stop]
		begins := strings.HasPrefix(text[at:stop], "---") || depth <= column && depth > 0 && strings.Contains(text[at:line], "-")
		switch {
		case begins && at > kind:
			return at
		case begins:
			edits.list, key = edits.list[:first], -1
		}
		switch {
		case content == "":
		case depth == column:
			if key = -1; content == "data:" || content == "stringData:" {
				key = -2
			}
		case depth < column:
			key = -1
		case key != -1:
			if key == -2 {
				key = depth
			}
			value := 0
			if depth == key {
				if value = strings.Index(content, ":") + 1; value == 0 {
					break
				}
				for value < len(content) && (content[value] == ' ' || adorned(content[value])) {
					value++
				}
			}
			last := len(strings.TrimRight(content, " \"'\\"))
			if from := line + value; value < last && content[value:last] != "|" && content[value:last] != ">" && content[value:last] != "|-" {
				if a, b := fresh(text, from, line+last); b > a {
					edits.add(offset+a, offset+b, Hidden)
				}
			}
		}
		if at = stop; at < len(text) {
			at += lineEnd(text[at:])
		}
	}
	return len(text)
}

// maxVariable is how far after its name the default of a variable is found, in bytes.
const maxVariable = 1 << 10

// variables finds the defaults of secret variables of Terraform, as in
// variable "token" { default = "x" }.
func (s *Set) variables(text string, offset int, edits *edits) {
	const mark = "variable "
	for done := 0; ; {
		i := strings.Index(text[done:], mark)
		if i < 0 {
			return
		}
		done += i + len(mark)
		from, to := quotedAt(text, done)
		if to-from < 3 || to-from > maxName || !s.rules.hides([]byte(text[from:to])) {
			continue
		}
		at := afterQuote(text, to)
		if at == len(text) || text[at] != '{' {
			continue
		}
		block := text[at:min(len(text), at+maxVariable)]
		if n := strings.Index(block, mark); n >= 0 {
			block = block[:n]
		}
		n := strings.Index(block, "default")
		if n < 0 {
			continue
		}
		rest := strings.TrimLeft(block[n+len("default"):], " \t")
		if !strings.HasPrefix(rest, "=") {
			continue
		}
		at += len(block) - len(rest) + 1
		if from, to = quotedAt(text, at); to > from {
			if from, to = fresh(text, from, to); to > from {
				edits.add(offset+from, offset+to, Hidden)
			}
		}
	}
}

// passwordLine returns the position of the password in a line of .pgpass, as in
// "host:5432:database:user:password", whose first colon is at an index; or zeros.
func passwordLine(text string, at int) (from, to int) {
	port := at + 1
	end := port
	for end < len(text) && end-port < 6 && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	switch n := text[port:end]; {
	case end == port && strings.HasPrefix(text[port:], "*:"):
		end++
	case len(n) != 4 || !strings.HasPrefix(n, "543") && n != "6432" && n != "6543":
		return 0, 0
	}
	begin := at
	for begin > 0 && at-begin < maxName && (isNameByte(text[begin-1]) || text[begin-1] == '*' || text[begin-1] == '/') {
		begin--
	}
	switch {
	case begin > 0 && text[begin-1] == '\\' && text[begin] == 'n':
		begin++
	case begin > 0 && text[begin-1] != '\n' && !adorned(text[begin-1]):
		return 0, 0
	}
	if begin == at || end == len(text) || text[end] != ':' {
		return 0, 0
	}
	field := end + 1
	for fields := 0; ; {
		for field < len(text) && text[field] > ' ' && text[field] != ':' && lineEnd(text[field:]) == 0 && text[field] != '"' {
			for field+1 < len(text) && text[field] == '\\' { // in JSON there are two
				field++
			}
			field++
		}
		field = min(field, len(text))
		if field-at > 4*maxName {
			return 0, 0
		}
		if fields++; fields == 3 {
			if field < len(text) && lineEnd(text[field:]) == 0 && text[field] != '"' {
				return 0, 0
			}
			return fresh(text, lastField(text, at, field), field)
		}
		if field == len(text) || text[field] != ':' {
			return 0, 0
		}
		field++
	}
}

// lastField returns the index after the last colon before an index that no backslash precedes.
func lastField(text string, from, to int) int {
	for i := to; i > from; i-- {
		if text[i-1] == ':' && text[i-2] != '\\' {
			return i
		}
	}
	return to
}
