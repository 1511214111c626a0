// Package cursor locates the cursor in a JSON document that is being typed. The document may end
// inside a word, lack a comma or a quote, or be invalid JSON for another reason. The reader
// continues after errors, so that the text after the cursor is taken into account too.
package cursor

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth and maxNodes limit how much of a document is read. Positions after the limit
// have no place.
const (
	MaxDepth = 100
	maxNodes = 50_000
)

// A Node is the readable part of a value. Its methods may be called with a nil Node, which has
// nothing.
type Node struct {
	Kind     byte   // '{', '[', '"', or 'w' for a number or a word
	From, To int    // in bytes
	Text     string // a string without its quotes, or a word
	Members  []Member
	Items    []*Node
}

// A Member is a member of an object.
type Member struct {
	Name  string
	Value *Node // nil if the value is missing
}

// Member returns the value of the named member, or nil. If the name is repeated, the last one
// counts.
func (n *Node) Member(name string) (found *Node) {
	if n == nil {
		return nil
	}
	for _, m := range n.Members {
		if m.Name == name && m.Value != nil {
			found = m.Value
		}
	}
	return found
}

// Has reports whether n has the named member, with or without a value.
func (n *Node) Has(name string) bool {
	if n == nil {
		return false
	}
	for _, m := range n.Members {
		if m.Name == name {
			return true
		}
	}
	return false
}

// Step returns the child for a name or an index.
func (n *Node) Step(step any) *Node {
	switch step := step.(type) {
	case string:
		return n.Member(step)
	case int:
		if n != nil && step < len(n.Items) {
			return n.Items[step]
		}
	}
	return nil
}

// String returns the text of a string, or "" for any other node.
func (n *Node) String() string {
	if n == nil || n.Kind != '"' {
		return ""
	}
	return n.Text
}

// A Place describes the cursor position. Offsets are in bytes.
type Place struct {
	// Path leads to the value being typed, or to the object whose member name is typed. Its
	// elements are names and indexes.
	Path     []any
	Name     bool   // a member name is being typed
	From, To int    // the range to replace
	Typed    string // the part before the cursor, without quotes and escapes
	Begun    bool   // something was typed
	Quoted   bool   // the typed text starts with a quote
	Comma    bool   // a comma is missing before it
	Colon    bool   // a colon follows the name
	Next     byte   // the next byte, 0 at the end
}

// Find parses a document and returns the cursor's place in it. The place is nil if nothing can
// be completed.
func Find(text []byte, cursor int) (root *Node, at *Place) {
	r := &placer{text: text, cursor: cursor}
	root = r.value(0, 0, false)
	if r.found == nil {
		return root, nil
	}
	for i := r.found.To; i < len(text); i++ {
		if !isBlank(text[i]) {
			r.found.Next = text[i]
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
	arrays int // number of open arrays
	count  int
	found  *Place
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

// peek returns the next byte, or 0 at the end.
func (r *placer) peek() byte {
	if r.at < len(r.text) {
		return r.text[r.at]
	}
	return 0
}

// place records a place; only the first one counts.
func (r *placer) place(p Place, last ...any) *Place {
	if r.found != nil {
		return nil
	}
	p.Path = append(append([]any{}, r.path...), last...)
	r.found = &p
	return r.found
}

// here records an empty place if the cursor is between start and the read position.
func (r *placer) here(start int, p Place, last ...any) {
	if start <= r.cursor && r.cursor <= r.at {
		p.From, p.To = r.cursor, r.cursor
		if p.Comma {
			p.From = start
		}
		r.place(p, last...)
	}
}

// value reads a value, or returns nil if it is missing. start is where the white space before it
// begins.
func (r *placer) value(start, depth int, inObject bool) *Node {
	r.blank()
	r.count++
	if depth > MaxDepth || r.count > maxNodes {
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
			r.here(start, Place{})
			return nil
		}
	}
	from := r.at
	n, p := r.token()
	if after := bytes.TrimLeft(r.text[r.at:], " \t\r\n"); inObject && n.Kind == '"' && len(after) > 0 && after[0] == ':' {
		r.at = from // this is the name of the next member; the value is missing
		r.here(start, Place{})
		return nil
	}
	switch {
	case p != nil:
		r.place(*p)
	case start <= r.cursor && r.cursor <= n.From:
		r.place(Place{From: n.From, To: n.To, Quoted: n.Kind == '"'})
	}
	return n
}

// token reads a string or a word. p is the cursor's place if the cursor is inside it.
func (r *placer) token() (n *Node, p *Place) {
	from, open := r.at, 0
	if r.text[from] == '"' {
		open = 1
		to, closed := r.quote()
		inside := from < r.cursor && (r.cursor < to || !closed && r.cursor == to)
		r.at = to
		if closed {
			to--
		}
		n = &Node{Kind: '"', From: from, To: r.at, Text: looseText(r.text[from+1 : to])}
		if !inside {
			return n, nil
		}
	} else {
		r.at++ // skip one byte of any kind
		for r.at < len(r.text) && !isBlank(r.text[r.at]) && strings.IndexByte(`{}[]:,"`, r.text[r.at]) < 0 {
			r.at++
		}
		n = &Node{Kind: 'w', From: from, To: r.at, Text: string(r.text[from:r.at])}
		if r.cursor <= from || r.cursor > r.at {
			return n, nil
		}
	}
	return n, &Place{From: from, To: n.To, Typed: looseText(r.text[from+open : r.cursor]), Begun: true, Quoted: open > 0}
}

// quote finds the end of the string at the read position. A string ends at the end of its line.
// While a string is being typed, the next quote is often the start of the following token.
// Therefore, if the cursor is in the string and the text after that quote cannot follow a string,
// the string ends with the word under the cursor.
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

// mayFollow reports whether rest can follow the end of a string.
func mayFollow(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t")
	return len(rest) == 0 || strings.IndexByte(":,}]\r\n", rest[0]) >= 0
}

// The token that was read last in an object or an array.
const (
	readNothing = iota // or a comma
	readValue
	readName // without a colon
)

func (r *placer) object(depth int) *Node {
	n := &Node{Kind: '{', From: r.at}
	r.at++
	for last := readNothing; ; {
		start := r.at
		r.blank()
		if last != readName {
			r.here(start, Place{Name: true, Comma: last == readValue})
		}
		n.To = r.at
		switch c := r.peek(); {
		case r.at >= len(r.text), c == ']' && r.arrays > 0:
			return n
		case c == '}':
			r.at++
			n.To = r.at
			return n
		case c == ',':
			r.at++
			last = readNothing
		case c == ']', c == ':':
			r.at++
		case c == '{', c == '[':
			_ = r.value(r.at, depth+1, true) // a value without a name is dropped
			last = readValue
		default:
			last = r.named(n, depth)
		}
	}
}

// named reads a member, starting with its name.
func (r *placer) named(n *Node, depth int) (last int) {
	key, p := r.token()
	var at *Place
	if p != nil {
		p.Name = true
		at = r.place(*p)
	}
	after := r.at
	if r.blank(); r.peek() != ':' || r.at >= len(r.text) {
		r.at = after
		if at == nil { // a name that is being typed does not count yet
			n.Members = append(n.Members, Member{Name: key.Text})
		}
		return readName
	}
	r.at++
	if at != nil {
		at.Colon = true
	}
	r.path = append(r.path, key.Text)
	v := r.value(r.at, depth+1, true)
	r.path = r.path[:len(r.path)-1]
	if at == nil {
		n.Members = append(n.Members, Member{key.Text, v})
	}
	return readValue
}

func (r *placer) array(depth int) *Node {
	n := &Node{Kind: '[', From: r.at}
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
				r.here(start, Place{Comma: true}, index+1)
			} else {
				r.here(start, Place{}, index)
			}
		}
		n.To = r.at
		switch {
		case r.at >= len(r.text), c == '}' && depth > 0:
			return n
		case c == ']':
			r.at++
			n.To = r.at
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
			for len(n.Items) < index && len(n.Items) < maxNodes {
				n.Items = append(n.Items, nil)
			}
			n.Items = append(n.Items, v)
			last = readValue
		}
	}
}

// looseText returns the content of a possibly invalid string, as far as it can be decoded.
func looseText(inner []byte) string {
	quoted := append(append([]byte{'"'}, inner...), '"')
	if text, err := jsontext.AppendUnquote(nil, quoted); err == nil {
		return string(text)
	}
	return string(inner)
}
