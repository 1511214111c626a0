package config

import (
	"bytes"
	"errors"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// parseTOML reads TOML 1.0. The decoder says what is wrong in it; the parser below the decoder knows where things stand and their order.
func parseTOML(text []byte) (*node, *Problem) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if depth(text) > maxDepth {
		return nil, &Problem{Text: errDeep.Error()}
	}
	var all map[string]any
	if err := toml.Unmarshal(text, &all); err != nil {
		if where, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := where.Position()
			return nil, &Problem{Line: line, Column: column, Text: "no TOML: " + trimTOML(where.Error())}
		}
		return nil, &Problem{Text: "no TOML: " + trimTOML(err.Error())}
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
	if err := t.p.Error(); err != nil && t.problem == nil { // cannot be: the decoder has read it
		t.problem = &Problem{Text: "no TOML: " + trimTOML(err.Error())}
	}
	return root, t.problem
}

func trimTOML(text string) string {
	return string(bytes.TrimPrefix([]byte(text), []byte("toml: ")))
}

type tomlReader struct {
	p       unstable.Parser
	places  jsonReader
	index   map[*node]map[string]int // members by name
	problem *Problem
}

// into finds the table that a header names, and makes what is missing on the way. appended: a new one at the end of a list.
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

// member is the member of a table that a key names; its value is nil if it is new.
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
		m := member{name: name}
		m.line, m.column = t.places.place(int(key.Raw.Offset))
		at.members = append(at.members, m)
	}
	return &at.members[i]
}

// set puts a value where its key, which may have dots, says.
func (t *tomlReader) set(at *node, pair *unstable.Node) {
	keys := pair.Key()
	for deep := 0; keys.Next(); deep++ {
		if deep > maxDepth {
			t.problem = &Problem{Line: at.line, Column: at.column, Text: errDeep.Error()}
			return
		}
		m := t.member(at, keys.Node())
		if keys.IsLast() {
			m.value = t.value(pair.Value(), m.line, m.column)
			return
		}
		if m.value == nil {
			m.value = &node{kind: isMap, line: m.line, column: m.column}
		}
		at = m.value
	}
}

// value makes a node of a value; what has no place of its own stands where its key does.
func (t *tomlReader) value(v *unstable.Node, line, column int) *node {
	n := &node{line: line, column: column, text: string(v.Data)}
	if v.Raw.Length > 0 {
		n.line, n.column = t.places.place(int(v.Raw.Offset))
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
		n.kind, n.text = isMap, ""
		for it := v.Children(); it.Next(); {
			t.set(n, it.Node())
		}
	default:
		n.kind = isText
	}
	return n
}
