package config

import (
	"bytes"
	"errors"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML parses TOML 1.0. The decoder reports errors; its lower-level parser provides positions
// and order.
func parseTOML(text []byte) (*node, []Problem) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if depth(text) > maxDepth {
		return nil, []Problem{{Text: errDeep.Error()}}
	}
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		if where, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := where.Position()
			return nil, []Problem{{Line: line, Column: column, Text: "not TOML: " + trimTOML(where.Error())}}
		}
		return nil, []Problem{{Text: "not TOML: " + trimTOML(err.Error())}}
	}
	t := &tomlReader{places: jsonReader{text: text}, index: map[*node]map[string]int{}}
	t.p.Reset(text)
	root := &node{kind: isMap, line: 1, column: 1}
	at := root
	for t.p.NextExpression() && t.problem == nil {
		switch e := t.p.Expression(); e.Kind {
		case unstable.Table:
			at = t.into(root, e.Key(), false)
		case unstable.ArrayTable:
			at = t.into(root, e.Key(), true)
		case unstable.KeyValue:
			t.set(at, e)
		}
	}
	// Cannot happen: the decoder has accepted the text.
	if err := t.p.Error(); err != nil && t.problem == nil {
		t.problem = &Problem{Text: "not TOML: " + trimTOML(err.Error())}
	}
	if t.problem != nil {
		return nil, []Problem{*t.problem}
	}
	return root, nil
}

func trimTOML(text string) string {
	return string(bytes.TrimPrefix([]byte(text), []byte("toml: ")))
}

type tomlReader struct {
	p       unstable.Parser
	places  jsonReader
	index   map[*node]map[string]int // member indexes by name
	problem *Problem
}

// into returns the table of a header and creates missing tables on the way. If appended is true, it
// appends a new table to a list.
func (t *tomlReader) into(at *node, keys unstable.Iterator, appended bool) *node {
	for deep := 0; keys.Next(); deep++ {
		if deep > maxDepth {
			t.problem = &Problem{Line: at.line, Column: at.column, Text: errDeep.Error()}
			return at
		}
		m := t.member(at, keys.Node())
		last := appended && keys.IsLast()
		switch {
		case last && m.value == nil:
			m.value = &node{kind: isList, line: m.line, column: m.column}
		case m.value == nil:
			m.value = &node{kind: isMap, line: m.line, column: m.column}
		}
		if next := m.value; next.kind == isList {
			if last || len(next.items) == 0 {
				next.items = append(next.items, &node{kind: isMap, line: m.line, column: m.column})
			}
			at = next.items[len(next.items)-1]
		} else {
			at = next
		}
	}
	return at
}

// member returns the member of a table for a key. The value of a new member is nil.
func (t *tomlReader) member(at *node, key *unstable.Node) *member {
	names := t.index[at]
	if names == nil {
		names = map[string]int{}
		t.index[at] = names
	}
	name := string(key.Data)
	i, known := names[name]
	if !known {
		i = len(at.members)
		names[name] = i
		m := member{name: name, start: int(key.Raw.Offset)}
		m.line, m.column = t.places.place(int(key.Raw.Offset))
		at.members = append(at.members, m)
	}
	return &at.members[i]
}

// set stores a value at its key, which may contain dots.
func (t *tomlReader) set(at *node, pair *unstable.Node) {
	keys := pair.Key()
	first := -1
	for deep := 0; keys.Next(); deep++ {
		if deep > maxDepth {
			t.problem = &Problem{Line: at.line, Column: at.column, Text: errDeep.Error()}
			return
		}
		m, offset := t.member(at, keys.Node()), int(keys.Node().Raw.Offset)
		if first < 0 {
			first = offset
		}
		if keys.IsLast() {
			m.value = t.value(pair.Value(), m.line, m.column)
			m.prefix = string(t.places.text[first:offset])
			m.value.start, m.value.end = tomlValue(t.places.text, offset+int(keys.Node().Raw.Length))
			return
		}
		if m.value == nil {
			m.value = &node{kind: isMap, line: m.line, column: m.column}
		}
		at = m.value
	}
}

// value converts a value to a node. A value without a position of its own gets the position of its
// key.
func (t *tomlReader) value(v *unstable.Node, line, column int) *node {
	n := &node{line: line, column: column, text: string(v.Data)}
	if v.Raw.Length > 0 {
		n.line, n.column = t.places.place(int(v.Raw.Offset))
		n.start, n.end = int(v.Raw.Offset), int(v.Raw.Offset+v.Raw.Length)
	}
	switch v.Kind {
	case unstable.Bool:
		n.kind = isBool
	case unstable.Integer, unstable.Float:
		n.kind = isNumber
	case unstable.Array:
		n.kind, n.text = isList, ""
		for it := v.Children(); it.Next(); {
			n.items = append(n.items, t.value(it.Node(), n.line, n.column))
		}
	case unstable.InlineTable:
		n.kind, n.text, n.inline = isMap, "", true
		for it := v.Children(); it.Next(); {
			t.set(n, it.Node())
		}
	default:
		n.kind = isText
	}
	return n
}

// tomlValue returns the offsets of the value after the key that ends at offset. The text is valid
// TOML.
func tomlValue(text []byte, offset int) (start, end int) {
	start = offset
	for start < len(text) && (text[start] == ' ' || text[start] == '\t' || text[start] == '=') {
		start++
	}
	depth := 0
	for end = start; end < len(text); {
		switch c := text[end]; c {
		case '"', '\'':
			end = tomlString(text, end)
			if depth == 0 {
				return start, end
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth <= 0 {
				return start, end + depth + 1 // the bracket of an enclosing value is not ours
			}
		case '#':
			if depth == 0 {
				return start, start + len(bytes.TrimRight(text[start:end], " \t"))
			}
			for end < len(text) && text[end] != '\n' {
				end++
			}
			continue
		case ',', '\n', '\r':
			if depth == 0 {
				return start, start + len(bytes.TrimRight(text[start:end], " \t"))
			}
		}
		end++
	}
	return start, end
}

// tomlString returns the offset after the string that starts at offset.
func tomlString(text []byte, offset int) int {
	quote, basic := text[offset:offset+1], text[offset] == '"'
	if triple := bytes.Repeat(quote, 3); bytes.HasPrefix(text[offset:], triple) {
		quote = triple
	}
	for i := offset + len(quote); i < len(text); i++ {
		if basic && text[i] == '\\' {
			i++
			continue
		}
		if bytes.HasPrefix(text[i:], quote) {
			i += len(quote)
			for len(quote) == 3 && i < len(text) && text[i] == quote[0] { // """" ends with a quote inside
				i++
			}
			return i
		}
	}
	return len(text)
}
