package mcp

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A SKILL.md begins with YAML between two lines of three dashes. This file implements the subset of
// YAML that such files use: mappings and lists by indentation, lists in brackets, plain, quoted and
// block strings, numbers, booleans and null. Unsupported syntax, such as anchors and tags, is an
// error, so that it is not misread.

// frontmatter returns the mapping at the beginning of a SKILL.md.
func frontmatter(text string) (map[string]any, error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return nil, errors.New("no front matter: the first line is not ---")
	}
	var lines []string
	closed := false
	for line := range strings.SplitSeq(rest, "\n") {
		if strings.TrimRight(line, " \t") == "---" {
			closed = true
			break
		}
		lines = append(lines, line)
	}
	if !closed {
		return nil, errors.New("the front matter has no end")
	}
	p := &yamlReader{lines: lines}
	m, err := p.mapping(0, 0)
	if err == nil && p.skip() {
		err = errors.New("unexpected text")
	}
	if err != nil {
		return nil, fmt.Errorf("front matter, line %d: %w", p.at+2, err)
	}
	return m, nil
}

type yamlReader struct {
	lines []string
	at    int
}

// maxYAMLDepth is the maximum nesting depth.
const maxYAMLDepth = 32

// skip advances to the next line with content, and reports whether there is one.
func (p *yamlReader) skip() bool {
	for ; p.at < len(p.lines); p.at++ {
		if line := strings.TrimSpace(p.lines[p.at]); line != "" && line[0] != '#' {
			return true
		}
	}
	return false
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

func (p *yamlReader) mapping(indent, depth int) (map[string]any, error) {
	m := map[string]any{}
	if depth > maxYAMLDepth {
		return nil, errors.New("nested too deep")
	}
	for p.skip() {
		line := p.lines[p.at]
		if strings.Contains(line[:indentOf(line)+min(1, len(line)-indentOf(line))], "\t") {
			return nil, errors.New("a tab instead of spaces")
		}
		switch n := indentOf(line); {
		case n < indent:
			return m, nil
		case n > indent:
			return nil, errors.New("more indented than the line above")
		}
		key, rest, err := splitKey(strings.TrimSpace(line))
		if err != nil {
			return nil, err
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("duplicate key %q", key)
		}
		if m[key], err = p.value(rest, indent, depth); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// splitKey splits "key: rest".
func splitKey(line string) (key, rest string, err error) {
	if line[0] == '"' || line[0] == '\'' {
		end := strings.IndexByte(line[1:], line[0])
		if end < 0 || !strings.HasPrefix(line[end+2:], ":") {
			return "", "", errors.New("a key without its colon")
		}
		return line[1 : end+1], strings.TrimSpace(line[end+3:]), nil
	}
	if strings.ContainsRune("-?&*!|>%@`[]{},#", rune(line[0])) && !plainStart(line) {
		return "", "", fmt.Errorf("not a key: %.20q", line)
	}
	i := strings.Index(line+" ", ": ")
	if i <= 0 {
		return "", "", errors.New("a key without its colon")
	}
	return line[:i], strings.TrimSpace(line[min(i+1, len(line)):]), nil
}

// plainStart reports whether a leading dash or question mark begins a word.
func plainStart(line string) bool {
	return len(line) > 1 && (line[0] == '-' || line[0] == '?') && line[1] != ' '
}

// value reads the value after a key or a dash at indent.
func (p *yamlReader) value(rest string, indent, depth int) (any, error) {
	switch {
	case rest == "" || rest[0] == '#':
		p.at++
		if !p.skip() {
			return nil, nil
		}
		next := p.lines[p.at]
		n := indentOf(next)
		isList := strings.HasPrefix(next[n:], "- ") || next[n:] == "-"
		switch {
		case isList && n >= indent:
			return p.list(n, depth+1)
		case n > indent:
			return p.mapping(n, depth+1)
		}
		return nil, nil
	case rest[0] == '|' || rest[0] == '>':
		return p.block(rest, indent)
	case rest[0] == '"' || rest[0] == '\'':
		p.at++
		return quoted(rest)
	case rest[0] == '[':
		p.at++
		return flowList(rest)
	case rest == "{}":
		p.at++
		return map[string]any{}, nil
	}
	p.at++
	words := []string{uncomment(rest)}
	for p.at < len(p.lines) { // a plain string may continue on the next lines
		line := p.lines[p.at]
		if strings.TrimSpace(line) == "" || indentOf(line) <= indent {
			break
		}
		words = append(words, uncomment(strings.TrimSpace(line)))
		p.at++
	}
	return plain(strings.Join(words, " "), len(words) > 1)
}

// uncomment removes a comment from a plain string.
func uncomment(s string) string {
	if i := strings.Index(s, " #"); i >= 0 {
		s = s[:i]
	}
	return strings.TrimSpace(s)
}

func (p *yamlReader) list(indent, depth int) ([]any, error) {
	list := []any{}
	if depth > maxYAMLDepth {
		return nil, errors.New("nested too deep")
	}
	for p.skip() {
		line := p.lines[p.at]
		n := indentOf(line)
		if n < indent || n == indent && !strings.HasPrefix(line[n:], "- ") && line[n:] != "-" {
			return list, nil
		}
		if n > indent {
			return nil, errors.New("more indented than the line above")
		}
		rest := strings.TrimSpace(line[n+1:])
		var item any
		var err error
		if _, _, keyed := splitKeyOf(rest); keyed {
			// a mapping that begins on the same line as the dash
			inner := n + 1 + len(line[n+1:]) - len(strings.TrimLeft(line[n+1:], " "))
			p.lines[p.at] = strings.Repeat(" ", inner) + rest
			item, err = p.mapping(inner, depth+1)
		} else {
			item, err = p.value(rest, n, depth)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func splitKeyOf(s string) (key, rest string, ok bool) {
	if s == "" || strings.ContainsRune("\"'[{|>#", rune(s[0])) {
		return "", "", false
	}
	key, rest, err := splitKey(s)
	return key, rest, err == nil
}

// block reads a string of several lines: | retains the line ends, > folds them.
func (p *yamlReader) block(header string, indent int) (any, error) {
	fold := header[0] == '>'
	mode := uncomment(header[1:])
	if mode != "" && mode != "-" && mode != "+" {
		return nil, fmt.Errorf("block string %q is not supported", header)
	}
	p.at++
	var lines []string
	inner := -1
	for ; p.at < len(p.lines); p.at++ {
		line := p.lines[p.at]
		if strings.TrimSpace(line) == "" {
			lines = append(lines, "")
			continue
		}
		if inner < 0 {
			inner = indentOf(line)
		}
		if indentOf(line) <= indent || indentOf(line) < inner {
			break
		}
		lines = append(lines, line[inner:])
	}
	end := len(lines)
	for end > 0 && lines[end-1] == "" {
		end--
	}
	trailing := len(lines) - end
	lines = lines[:end]
	text := strings.Join(lines, "\n")
	if fold {
		var out strings.Builder
		for i, line := range lines {
			switch {
			case i == 0:
			case line == "":
				out.WriteByte('\n')
			case lines[i-1] != "":
				out.WriteByte(' ')
			}
			out.WriteString(line)
		}
		text = out.String()
	}
	switch {
	case text == "" || mode == "-":
	case mode == "+":
		text += strings.Repeat("\n", trailing+1)
	default:
		text += "\n"
	}
	return text, nil
}

// quoted reads a string in quotes that ends on the same line.
func quoted(s string) (string, error) {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && q == '"':
			i++
		case s[i] == q && q == '\'' && i+1 < len(s) && s[i+1] == q:
			i++
		case s[i] == q:
			if rest := strings.TrimSpace(s[i+1:]); rest != "" && rest[0] != '#' {
				return "", errors.New("text after a quoted string")
			}
			if q == '\'' {
				return strings.ReplaceAll(s[1:i], "''", "'"), nil
			}
			raw, err := jsonrpc.ParseRaw([]byte(s[:i+1]))
			if err != nil {
				return "", errors.New("a string in double quotes has an escape that JSON does not have; use single quotes, or \\\\ for a backslash")
			}
			text, _ := textOf(raw)
			return text, nil
		}
	}
	return "", errors.New("a quoted string without its end")
}

// flowList reads a list of scalars in brackets.
func flowList(s string) (any, error) {
	s = uncomment(s)
	if !strings.HasSuffix(s, "]") {
		return nil, errors.New("a list without its end on the line")
	}
	list := []any{}
	inner := strings.TrimSpace(s[1 : len(s)-1])
	if inner == "" {
		return list, nil
	}
	for _, part := range splitFlow(inner) {
		part = strings.TrimSpace(part)
		var item any
		var err error
		switch {
		case part == "":
			return nil, errors.New("an empty item in a list")
		case part[0] == '"' || part[0] == '\'':
			item, err = quoted(part)
		case strings.ContainsAny(part, "[]{}"):
			err = errors.New("a list in a list is not supported")
		default:
			item, err = plain(part, false)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// splitFlow splits at commas outside quotes.
func splitFlow(s string) (parts []string) {
	start, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch {
		case quote == 0 && (s[i] == '"' || s[i] == '\''):
			quote = s[i]
		case quote == '"' && s[i] == '\\':
			i++
		case s[i] == quote:
			quote = 0
		case quote == 0 && s[i] == ',':
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}

var (
	yamlInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
)

// plain converts a string without quotes, which may be a number, a boolean or null (YAML 1.2, Core
// Schema).
func plain(s string, several bool) (any, error) {
	if strings.ContainsRune("&*!%@`,]}{", rune(s[0])) {
		return nil, fmt.Errorf("not understood: %.20q", s)
	}
	if strings.Contains(s, ": ") || strings.HasSuffix(s, ":") {
		return nil, errors.New("a colon in a string without quotes")
	}
	if several {
		return s, nil
	}
	switch s {
	case "~", "null", "Null", "NULL":
		return nil, nil
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	if yamlInt.MatchString(s) {
		if n, err := strconv.ParseInt(strings.TrimPrefix(s, "+"), 10, 64); err == nil {
			return n, nil
		}
	}
	if yamlFloat.MatchString(s) {
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f, nil
		}
	}
	return s, nil
}
