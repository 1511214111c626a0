package playground

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// This file finds where a cursor stands in a document that is being typed: one that ends in the middle of a word, lacks a comma or a
// quote, or is no JSON for another reason. It reads on past what is wrong, so that what stands behind the cursor counts too.

// maxPlaceDepth and maxPlaceNodes bound what is read of a document; behind them there is no place.
const (
	maxPlaceDepth = 100
	maxPlaceNodes = 50_000
)

// A node is what could be read of a value.
type node struct {
	kind     byte // '{', '[', '"', or 'w' for a number or a word
	from, to int
	text     string // of a string, without its quotes; of a word, the word
	members  []nodeMember
	items    []*node
}

type nodeMember struct {
	name  string
	value *node // nil: there is none yet
}

// member is the value of that name, nil if there is none. Of several the last counts.
func (n *node) member(name string) (found *node) {
	if n == nil {
		return nil
	}
	for _, m := range n.members {
		if m.name == name && m.value != nil {
			found = m.value
		}
	}
	return found
}

// has reports whether there is such a name, with a value or without.
func (n *node) has(name string) bool {
	if n == nil {
		return false
	}
	for _, m := range n.members {
		if m.name == name {
			return true
		}
	}
	return false
}

// step follows a name or an index.
func (n *node) step(step any) *node {
	switch step := step.(type) {
	case string:
		return n.member(step)
	case int:
		if n != nil && step < len(n.items) {
			return n.items[step]
		}
	}
	return nil
}

// string is the text of a string, "" for all else.
func (n *node) string() string {
	if n == nil || n.kind != '"' {
		return ""
	}
	return n.text
}

// A place is where the cursor stands. Offsets are in bytes.
type place struct {
	path     []any  // names and indexes: to the value that is typed, or to the object whose member's name is
	name     bool   // the name of a member is typed
	from, to int    // what is replaced
	typed    string // what of it stands before the cursor, without quotes and escapes
	begun    bool   // something was typed
	quoted   bool   // and it began with a quote
	comma    bool   // a comma is missing before it
	colon    bool   // a colon follows the name
	next     byte   // what follows, 0 at the end
}

// findPlace reads a document and says where the cursor stands in it; no place is where nothing can be completed.
func findPlace(text []byte, cursor int) (root *node, at *place) {
	r := &placer{text: text, cursor: cursor}
	root = r.value(0, 0, false)
	if r.found == nil {
		return root, nil
	}
	for i := r.found.to; i < len(text); i++ {
		if !isBlank(text[i]) {
			r.found.next = text[i]
			break
		}
	}
	return root, r.found
}

// A placer reads one document.
type placer struct {
	text   []byte
	at     int
	cursor int
	path   []any
	arrays int // that are open
	count  int
	found  *place
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isWord reports whether a byte belongs to the word under the cursor.
func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("_-./$#+@~%*", c) >= 0 || c >= utf8.RuneSelf
}

func (r *placer) blank() {
	for r.at < len(r.text) && isBlank(r.text[r.at]) {
		r.at++
	}
}

// peek is the next byte, 0 at the end.
func (r *placer) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

// place notes a place, the first that is found.
func (r *placer) place(p place, last ...any) *place {
	if r.found != nil {
		return nil
	}
	p.path = append(append([]any{}, r.path...), last...)
	r.found = &p
	return r.found
}

// here notes an empty place if the cursor is between start and where the reader is.
func (r *placer) here(start int, p place, last ...any) {
	if start <= r.cursor && r.cursor <= r.at {
		p.from, p.to = r.cursor, r.cursor
		if p.comma {
			p.from = start
		}
		r.place(p, last...)
	}
}

// value reads a value; blanks from start on are in front of it. It returns nil if there is none.
func (r *placer) value(start, depth int, inObject bool) *node {
	r.blank()
	r.count++
	if depth > maxPlaceDepth || r.count > maxPlaceNodes {
		r.at = len(r.text)
		return nil
	}
	c := r.peek()
	switch c {
	case '{':
		return r.object(depth)
	case '[':
		return r.array(depth)
	case 0, '}', ']', ',', ':':
		if c != 0 || r.at >= len(r.text) {
			r.here(start, place{})
			return nil
		}
	}
	from := r.at
	n, p := r.token()
	if after := bytes.TrimLeft(r.text[r.at:], " \t\r\n"); inObject && n.kind == '"' && len(after) > 0 && after[0] == ':' {
		r.at = from // the name of the next member; the value is not there yet
		r.here(start, place{})
		return nil
	}
	switch {
	case p != nil:
		r.place(*p)
	case start <= r.cursor && r.cursor <= n.from:
		r.place(place{from: n.from, to: n.to, quoted: n.kind == '"'})
	}
	return n
}

// token reads a string or a word. p is the place of the cursor if that is in it.
func (r *placer) token() (n *node, p *place) {
	from, open := r.at, 0
	if r.text[from] == '"' {
		open = 1
		to, closed := r.quote()
		inside := from < r.cursor && (r.cursor < to || !closed && r.cursor == to)
		r.at = to
		if closed {
			to--
		}
		n = &node{kind: '"', from: from, to: r.at, text: looseText(r.text[from+1 : to])}
		if !inside {
			return n, nil
		}
	} else {
		r.at++ // whatever it is
		for r.at < len(r.text) && !isBlank(r.text[r.at]) && strings.IndexByte(`{}[]:,"`, r.text[r.at]) < 0 {
			r.at++
		}
		n = &node{kind: 'w', from: from, to: r.at, text: string(r.text[from:r.at])}
		if r.cursor <= from || r.cursor > r.at {
			return n, nil
		}
	}
	return n, &place{from: from, to: n.to, typed: looseText(r.text[from+open : r.cursor]), begun: true, quoted: open > 0}
}

// quote finds the end of the string at which the reader is. A string ends with its line. While somebody types, the next quote is
// often not its end but the beginning of what follows: if the cursor is in the string and nothing that may follow a string comes
// after that quote, then the string ends with the word under the cursor.
func (r *placer) quote() (end int, closed bool) {
	i := r.at + 1
	for i < len(r.text) && strings.IndexByte("\"\n\r", r.text[i]) < 0 {
		if r.text[i] == '\\' && i+1 < len(r.text) && strings.IndexByte("\n\r", r.text[i+1]) < 0 {
			i++
		}
		i++
	}
	if closed = i < len(r.text) && r.text[i] == '"'; closed {
		i++
	}
	if r.cursor <= r.at || r.cursor > i || closed && (r.cursor == i || mayFollow(r.text[i:])) {
		return i, closed
	}
	for i = r.cursor; i < len(r.text) && isWord(r.text[i]); {
		i++
	}
	return i, false
}

// mayFollow reports whether a string may end before rest.
func mayFollow(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t")
	return len(rest) == 0 || strings.IndexByte(":,}]\r\n", rest[0]) >= 0
}

// What was read last in an object or an array.
const (
	readNothing = iota // or a comma
	readValue
	readName // and no colon
)

func (r *placer) object(depth int) *node {
	n := &node{kind: '{', from: r.at}
	r.at++
	for last := readNothing; ; {
		start := r.at
		r.blank()
		if last != readName {
			r.here(start, place{name: true, comma: last == readValue})
		}
		n.to = r.at
		switch c := r.peek(); {
		case r.at >= len(r.text), c == ']' && r.arrays > 0:
			return n
		case c == '}':
			r.at++
			n.to = r.at
			return n
		case c == ',':
			r.at++
			last = readNothing
		case c == ']', c == ':':
			r.at++
		case c == '{', c == '[':
			_ = r.value(r.at, depth+1, true) // a value without a name belongs to nobody
			last = readValue
		default:
			last = r.named(n, depth)
		}
	}
}

// named reads a member, from its name on.
func (r *placer) named(n *node, depth int) (last int) {
	key, p := r.token()
	var at *place
	if p != nil {
		p.name = true
		at = r.place(*p)
	}
	after := r.at
	if r.blank(); r.peek() != ':' || r.at >= len(r.text) {
		r.at = after
		if at == nil { // one that is being typed is none yet
			n.members = append(n.members, nodeMember{name: key.text})
		}
		return readName
	}
	r.at++
	if at != nil {
		at.colon = true
	}
	r.path = append(r.path, key.text)
	v := r.value(r.at, depth+1, true)
	r.path = r.path[:len(r.path)-1]
	if at == nil {
		n.members = append(n.members, nodeMember{key.text, v})
	}
	return readValue
}

func (r *placer) array(depth int) *node {
	n := &node{kind: '[', from: r.at}
	r.at++
	r.arrays++
	defer func() { r.arrays-- }()
	index := 0
	for last := readNothing; ; {
		start := r.at
		r.blank()
		c := r.peek()
		if r.at >= len(r.text) || strings.IndexByte("]},:", c) >= 0 {
			if last == readValue {
				r.here(start, place{comma: true}, index+1)
			} else {
				r.here(start, place{}, index)
			}
		}
		n.to = r.at
		switch {
		case r.at >= len(r.text), c == '}' && depth > 0:
			return n
		case c == ']':
			r.at++
			n.to = r.at
			return n
		case c == ',':
			r.at++
			index++
			last = readNothing
		case c == '}', c == ':':
			r.at++
		default:
			if last == readValue {
				index++ // a comma is missing
			}
			r.path = append(r.path, index)
			v := r.value(start, depth+1, false)
			r.path = r.path[:len(r.path)-1]
			for len(n.items) < index && len(n.items) < maxPlaceNodes {
				n.items = append(n.items, nil)
			}
			n.items = append(n.items, v)
			last = readValue
		}
	}
}

// looseText is what stands in a string, as far as that can be told.
func looseText(inner []byte) string {
	quoted := append(append([]byte{'"'}, inner...), '"')
	if text, err := jsontext.AppendUnquote(nil, quoted); err == nil {
		return string(text)
	}
	return string(inner)
}
