package config

import (
	"strconv"
	"strings"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A Document is a YAML file as JSON, for other formats than this package's own.
type Document struct {
	JSON jsonrpc.Raw

	root *node
}

// ParseDocument reads YAML as configuration files are read: without anchors, aliases and tags, so
// that the JSON is about as long as the text, and nested at most 64 levels deep. Only the first
// document of the text counts. Text that is not such YAML is a [*Problem].
//
// Numbers keep their digits; numbers that JSON does not have are strings, and so are dates.
func ParseDocument(text []byte) (*Document, error) {
	root, problem := inYAML.parseStrictly(text)
	if problem != nil {
		return nil, problem
	}
	return &Document{root.appendJSON(nil), root}, nil
}

// Position returns the line and the column, from 1, of a member's name or a list's element. pointer
// is a JSON pointer (RFC 6901). If there is no such value, the nearest value around it counts.
func (d *Document) Position(pointer string) (line, column int) {
	at := d.root
	line, column = at.line, at.column
	if len(at.members) > 0 { // the position of a mapping is that of its first colon
		line, column = at.members[0].line, at.members[0].column
	}
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var next *node
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(at.items) {
			next = at.items[i]
			line, column = next.line, next.column
			if len(next.members) > 0 {
				line, column = next.members[0].line, next.members[0].column
			}
		}
		for _, m := range at.members {
			if m.name == step {
				next, line, column = m.value, m.line, m.column
			}
		}
		if next == nil {
			break
		}
		at = next
	}
	return line, column
}

func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case isText:
		return jsonrpc.AppendString(dst, n.text)
	case isNumber:
		if _, err := jsonrpc.ParseRaw([]byte(n.text)); err == nil {
			return append(dst, n.text...)
		}
		if i, err := strconv.ParseInt(n.text, 0, 64); err == nil { // 0x1f, 1_000
			return strconv.AppendInt(dst, i, 10)
		}
		return jsonrpc.AppendString(dst, n.text)
	case isBool:
		return append(dst, n.text...)
	case isList:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	case isMap:
		dst = append(dst, '{')
		for i, m := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendString(dst, m.name), ':')
			dst = m.value.appendJSON(dst)
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}
