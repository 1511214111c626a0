package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A node is a JSON value with its exact text.
type node struct {
	kind  byte // { [ " t f n, or 0 for a number
	raw   []byte
	names []string
	spelt [][]byte // the names as received
	kids  []*node
}

// member returns a member of an object, or nil.
func (n *node) member(name string) *node {
	for i, have := range n.names {
		if have == name {
			return n.kids[i]
		}
	}
	return nil
}

// text returns the value of a string, or "" for another value.
func (n *node) text() string {
	var s string
	if n.kind == '"' {
		_ = json.Unmarshal(n.raw, &s) // already validated
	}
	return s
}

// twice returns a member name that occurs more than once in an object, or "".
func (n *node) twice() string {
	seen := make(map[string]bool)
	for _, name := range n.names {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}

// read parses one JSON text, which must be UTF-8 without a byte order mark.
func read(text []byte) (*node, error) {
	switch {
	case !utf8.Valid(text):
		return nil, errors.New("not UTF-8")
	case bytes.HasPrefix(text, []byte("\uFEFF")):
		return nil, errors.New("a byte order mark")
	case !json.Valid(text):
		return nil, fmt.Errorf("no JSON: %s", short(text))
	}
	r := &reader{text: text}
	r.space()
	return r.value(), nil
}

// A reader parses valid JSON.
type reader struct {
	text []byte
	at   int
}

func (r *reader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *reader) value() *node {
	start := r.at
	n := &node{kind: r.text[r.at]}
	switch n.kind {
	case '"':
		r.str()
	case '{', '[':
		r.items(n)
	default:
		for r.at < len(r.text) && strings.IndexByte(" \t\r\n,]}", r.text[r.at]) < 0 {
			r.at++
		}
		if strings.IndexByte("tfn", n.kind) < 0 {
			n.kind = 0
		}
	}
	n.raw = r.text[start:r.at]
	return n
}

func (r *reader) str() []byte {
	start := r.at
	for r.at++; r.text[r.at] != '"'; r.at++ {
		if r.text[r.at] == '\\' {
			r.at++
		}
	}
	r.at++
	return r.text[start:r.at]
}

func (r *reader) items(n *node) {
	r.at++
	for r.space(); r.text[r.at] != '}' && r.text[r.at] != ']'; r.space() {
		if n.kind == '{' {
			var name string
			spelt := r.str()
			_ = json.Unmarshal(spelt, &name) // already validated
			n.names = append(n.names, name)
			n.spelt = append(n.spelt, spelt)
			r.space()
			r.at++ // the colon
			r.space()
		}
		n.kids = append(n.kids, r.value())
		if r.space(); r.text[r.at] == ',' {
			r.at++
		}
	}
	r.at++
}
