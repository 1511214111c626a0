package secret

import "strings"

// lineEnd returns the length of the line end at the beginning of text, which may be escaped as in
// JSON; or 0.
func lineEnd(text string) int {
	if text == "" {
		return 0
	}
	switch text[0] {
	case '\n':
		return 1
	case '\r':
		if strings.HasPrefix(text, "\r\n") {
			return 2
		}
	case '\\':
		if strings.HasPrefix(text, `\n`) {
			return 2
		}
		if strings.HasPrefix(text, `\r\n`) {
			return 4
		}
	}
	return 0
}

// maxBelow is the maximum length of a value on the lines after its name, in bytes.
const maxBelow = 64 << 10

// below returns the position of the value on the lines after a name, as in YAML:
//
//	password:
//	  x
//	token: |
//	  x
//	  y
//	keys:
//	- x
//
// The name begins at the index name, and at is the index after its colon and blanks. The lines have
// a deeper indentation than the name. Without "|" or ">", each line is one word or quoted, because
// the text may be a sentence. Names with values of their own are found on their own lines.
func below(text string, name, at int) (from, to int) {
	column, ok := indentation(text, name)
	if !ok {
		return 0, 0
	}
	// A tag or an anchor may precede the sign of a block (YAML 1.2.2, section 8.1).
	for at < len(text) && (text[at] == '!' || text[at] == '&') {
		for at < len(text) && text[at] > ' ' && text[at] != '\\' {
			at++
		}
		for at < len(text) && text[at] == ' ' {
			at++
		}
	}
	block := at < len(text) && (text[at] == '|' || text[at] == '>')
	if block {
		for at++; at < len(text) && (text[at] == '-' || text[at] == '+' || text[at] >= '1' && text[at] <= '9' || text[at] == ' '); {
			at++
		}
	}
	for limit := at + maxBelow; at < limit; {
		n := lineEnd(text[at:])
		if n == 0 {
			break
		}
		at += n
		begin := at
		for at < len(text) && text[at] == ' ' {
			at++
		}
		if at == len(text) || lineEnd(text[at:]) > 0 {
			continue // an empty line
		}
		depth := at - begin
		end := at
		for end < len(text) && lineEnd(text[end:]) == 0 {
			end++
		}
		item := strings.HasPrefix(text[at:end], "- ")
		if depth < column || depth == column && (block || !item) {
			break
		}
		if !block {
			if item {
				at += 2
			}
			if !isScalar(text[at:end]) {
				return 0, 0
			}
		}
		if to == 0 {
			from = at
		}
		to, at = end, end
	}
	return from, to
}

// isScalar reports whether a line is one value: one word, or a quoted text.
func isScalar(line string) bool {
	line = strings.TrimRight(line, " ")
	switch line {
	case "", "~", "null", "true", "false":
		return false
	}
	if quotes := strings.TrimLeft(line, `\`); quotes[:min(1, len(quotes))] == `"` || quotes[:min(1, len(quotes))] == `'` {
		return len(quotes) > 1 && quotes[len(quotes)-1] == quotes[0]
	}
	return !strings.ContainsAny(line, " \t{}[]<>") && !strings.HasSuffix(line, ":") && !strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "#")
}

// indentation returns the column of the name at an index, and whether nothing but the signs of
// lists and quotes precedes it on its line.
func indentation(text string, name int) (column int, ok bool) {
	const most = 256
	from := name
	for from > 0 && name-from < most && (text[from-1] == ' ' || text[from-1] == '-' || text[from-1] == '"' || text[from-1] == '\'') {
		from--
	}
	column = name - from
	if from > 0 && text[from-1] == '\\' && column > 0 && text[from] == '"' { // the escape of a quote
		from--
	}
	ok = from == 0 || text[from-1] == '\n' || from > 1 && text[from-1] == 'n' && text[from-2] == '\\'
	return column, ok
}
