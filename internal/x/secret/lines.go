package secret

import "strings"

// lineValue reports whether text[from:to], the value after a name that begins at start, is the
// whole rest of a line that has only the name before it, in a place where a value is more likely
// than a word of a sentence: a header such as X-Api-Key, "name = value", or a line among others of
// the same form, as in YAML, in a list of headers or in quotes.
func lineValue(text string, start, at, from, to int) bool {
	line := start
	for line > 0 && start-line < 64 && (text[line-1] == ' ' || text[line-1] == '-' || text[line-1] == '\t') {
		line--
	}
	quoted := line > 0 && adorned(text[line-1]) && text[line-1] != '\\'
	begins := line == 0 || quoted || text[line-1] == '\n' || line > 1 && text[line-2] == '\\' && (text[line-1] == 'n' || text[line-1] == 'r')
	if !begins && line+1 < start && text[line] == 'n' { // the name is cut before the escape of a line end
		begins = true
	}
	end := to
	if quoted && end < len(text) && text[end] == '\\' && end+1 < len(text) && adorned(text[end+1]) {
		end++
	}
	ends := end == len(text) || lineEnd(text[end:]) > 0 || quoted && adorned(text[end])
	name := text[start:at]
	if !begins || !ends || to-from < minValue || isStateWord(text[from:to]) || isCount([]byte(strings.TrimRight(name, " "))) {
		return false
	}
	if text[at] == '=' || isAuthorization(name) || strings.IndexByte(strings.TrimLeft(name, "-"), '-') > 0 {
		return true
	}
	if quoted || from != at+2 {
		return false
	}
	if n := lineEnd(text[end:]); n > 0 && isPairLine(text[end+n:]) {
		return true
	}
	before := text[max(0, line-maxName):line]
	before = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(before, "\n"), "\r"), `\n`), `\r`)
	if i := strings.LastIndexByte(before, '\n'); i >= 0 {
		before = before[i+1:]
	} else if i := strings.LastIndex(before, `\n`); i >= 0 {
		before = before[i+2:]
	}
	return line > 0 && isPairLine(before)
}

// isPairLine reports whether text begins with a name and a colon, as a header or a line of YAML.
func isPairLine(text string) bool {
	text = strings.TrimLeft(text[:min(len(text), maxName)], " -")
	i := 0
	for i < len(text) && isNameByte(text[i]) {
		i++
	}
	if i < 2 || i == len(text) || text[i] != ':' {
		return false
	}
	return i+1 == len(text) || text[i+1] == ' ' || lineEnd(text[i+1:]) > 0
}

// isStateWord reports whether a word after the name of a secret describes it, as in
// "Authorization: missing" and in declarations of types.
func isStateWord(word string) bool {
	switch strings.ToLower(word) {
	case "string", "str", "text", "integer", "number", "boolean", "bool", "object", "array", "list", "bytes", "any", "null", "none", "nil", "true", "false", "undefined",
		"missing", "required", "optional", "needed", "invalid", "valid", "expired", "unknown", "unset", "empty", "absent", "malformed", "unsupported", "incorrect", "wrong",
		"denied", "rejected", "accepted", "revoked", "hidden", "redacted", "masked", "enabled", "disabled", "default", "present", "header", "query", "body", "error", "failed":
		return true
	}
	return false
}

// formData finds the values of the parts of a multipart form whose name is secret (RFC 7578). The
// line ends may be escaped, as in JSON.
func (s *Set) formData(text string, offset int, edits *edits) {
	const mark = "form-data;"
	if strings.IndexByte(text, ';') < 0 {
		return
	}
	for done := 0; ; {
		i := strings.Index(text[done:], mark)
		if i < 0 {
			return
		}
		at := done + i + len(mark)
		line := at
		for line < len(text) && lineEnd(text[line:]) == 0 && line-at < maxArgument {
			line++
		}
		done = line
		from, to := parameter(text[at:line], "name")
		if to-from < 3 || !s.rules.query(text[at+from:at+to]) {
			continue
		}
		// The content follows an empty line.
		for line < len(text) {
			n := lineEnd(text[line:])
			if n == 0 {
				line++
				continue
			}
			line += n
			if n = lineEnd(text[line:]); n > 0 {
				line += n
				break
			}
		}
		end := line
		for end < len(text) && (lineEnd(text[end:]) == 0 || !strings.HasPrefix(text[end+lineEnd(text[end:]):], "--")) {
			end++
		}
		if _, to := fresh(text, line, end); to > line {
			edits.add(offset+line, offset+end, Hidden)
		}
		done = end
	}
}

// parameter returns the position of the value of a parameter of a header.
func parameter(text, name string) (from, to int) {
	for at := 0; ; {
		i := strings.Index(text[at:], name+"=")
		if i < 0 {
			return 0, 0
		}
		at += i
		if at == 0 || text[at-1] == ' ' || text[at-1] == ';' {
			return valueAt(text, at+len(name)+1)
		}
		at += len(name)
	}
}

// afterWords returns the position of a password after words and a blank: IDENTIFIED BY 'x' and
// PASSWORD 'x' of SQL, "login me password x" of .netrc, "setenv NAME x" of shells and "ENV NAME x"
// of Docker; or zeros. The blank precedes the index at.
func (s *Set) afterWords(text string, at int) (from, to int) {
	before := text[max(0, at-maxName):at]
	sql, variable := false, false
	switch {
	case strings.HasSuffix(before, "IDENTIFIED BY "), strings.HasSuffix(before, "identified by "), strings.HasSuffix(before, " PASSWORD "):
		sql = true
	case (strings.HasSuffix(before, " password ") || strings.HasSuffix(before, "npassword ") || strings.HasSuffix(before, "\npassword ")) && strings.Contains(before, "login "):
	case strings.HasSuffix(before, "config set "), strings.HasSuffix(before, "CONFIG SET "), strings.HasSuffix(before, "configure set "), strings.HasSuffix(before, "setx "), strings.HasSuffix(before, "SETX "):
		return s.assigns(text, at)
	case strings.HasSuffix(before, "setenv ") && beginsLine(before[:len(before)-len("setenv ")]), strings.HasSuffix(before, "ENV ") && beginsLine(before[:len(before)-len("ENV ")]):
		end := at
		for end < len(text) && end-at < maxName && isNameByte(text[end]) {
			end++
		}
		if end == len(text) || text[end] != ' ' || !s.rules.hides([]byte(text[at:end])) {
			return 0, 0
		}
		at, variable = end+1, true
	default:
		return 0, 0
	}
	from, to = valueAt(text, at)
	if from == to || sql && from == at || variable && from == at && !looksSecret(text[from:to]) || isPlaceholder(text[from:to]) {
		return 0, 0
	}
	return fresh(text, from, to)
}

// afterPass returns the position of a password after the command PASS of FTP and POP3, which
// follows USER; or zeros. The blank precedes the index at.
func afterPass(text string, at int) (from, to int) {
	before := text[max(0, at-maxName):at]
	if !strings.HasSuffix(before, "PASS ") || !beginsLine(before[:len(before)-len("PASS ")]) || !strings.Contains(before, "USER ") {
		return 0, 0
	}
	if from, to = valueAt(text, at); to < len(text) && lineEnd(text[to:]) == 0 {
		return 0, 0
	}
	return fresh(text, from, to)
}

// beginsLine reports whether what follows text begins a line.
func beginsLine(text string) bool {
	return text == "" || strings.HasSuffix(text, "\n") || strings.HasSuffix(text, `\n`)
}

// couples finds names and values that other languages print as pairs: ('Authorization', 'x') of
// Python, ["x-api-key", "x"] among other pairs, and ['password', 'x'].
func (s *Set) couples(text string, offset int, edits *edits) {
	for _, open := range [...]byte{'(', '['} {
		for at := next(text, open, 0); at >= 0; at = next(text, open, at+1) {
			alone := open == '[' && !(at > 0 && text[at-1] == '[' || at > 1 && strings.HasSuffix(strings.TrimRight(text[max(0, at-4):at], " "), "],"))
			if alone && (at+1 == len(text) || text[at+1] != '\'') {
				continue
			}
			nameFrom, nameTo := quotedAt(text, at+1)
			if nameTo-nameFrom < 3 || nameTo-nameFrom > maxName || !s.rules.header(text[nameFrom:nameTo]) {
				continue
			}
			i := afterQuote(text, nameTo)
			if i == len(text) || text[i] != ',' {
				continue
			}
			from, to := quotedAt(text, i+1)
			if to == from {
				continue
			}
			if end := afterQuote(text, to); end == len(text) || text[end] != ')' && text[end] != ']' {
				continue
			}
			if alone && (isFieldName(s.rules, []byte(text[from:to])) || !s.rules.hides([]byte(text[nameFrom:nameTo]))) {
				continue // a list of names
			}
			if from, to = fresh(text, from, to); to > from {
				edits.add(offset+from, offset+to, Hidden)
			}
		}
	}
}

// quotedAt returns the position of the text in the quotes that follow, after blanks and the letter
// of a string of bytes; or zeros.
func quotedAt(text string, at int) (from, to int) {
	for at < len(text) && text[at] == ' ' {
		at++
	}
	if n := quotePrefix(text, at); n > 0 {
		at += n
	}
	for at < len(text) && text[at] == '\\' {
		at++
	}
	if at == len(text) || text[at] != '"' && text[at] != '\'' {
		return 0, 0
	}
	return valueAt(text, at)
}

// afterQuote returns the index after the quote and the blanks at an index.
func afterQuote(text string, at int) int {
	for at < len(text) && (adorned(text[at]) || text[at] == ' ') {
		at++
	}
	return at
}

// quotePrefix returns 1 if a letter or "$" before a quote begins at an index: b'x' of Python, $'x'
// of shells.
func quotePrefix(text string, at int) int {
	if at+1 < len(text) && strings.IndexByte("bBrRuU$@", text[at]) >= 0 && (text[at+1] == '"' || text[at+1] == '\'') {
		return 1
	}
	return 0
}
