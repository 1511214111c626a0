package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/tailscale/hujson"
)

// A node is a value of a file in any of the languages, with its position.
type node struct {
	kind         kind
	text         string // of a scalar
	members      []member
	items        []*node
	line, column int

	// Offsets of the value in the text, without a byte order mark; both 0 in YAML.
	start, end int
	inline     bool // of a mapping in TOML: {a = 1}
}

type member struct {
	name         string
	line, column int
	value        *node

	start  int    // offset of the name in the text
	prefix string // in TOML: the keys and dots in front of the name, such as "notes."
}

type kind uint8

const (
	isNull kind = iota
	isText
	isNumber
	isBool
	isList
	isMap
)

var kindNames = [...]string{"nothing", "a text", "a number", "true or false", "a list", "a mapping"}

// maxDepth is the maximum nesting depth of a file.
const maxDepth = 64

// get returns a member, or nil if it is missing.
func (n *node) get(name string) *node {
	if n == nil || n.kind != isMap {
		return nil
	}
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// parse parses a text. If the node is nil, the text has a problem that makes it unreadable.
// Otherwise the problems are names that a mapping has twice, of which the first counts.
func (l language) parse(text []byte) (*node, []Problem) { return parsers[l](text) }

// parseStrictly is like parse and accepts no duplicate names.
func (l language) parseStrictly(text []byte) (*node, *Problem) {
	root, problems := parsers[l](text)
	if len(problems) > 0 {
		return nil, &problems[0]
	}
	return root, nil
}

var errDeep = errors.New("nested too deeply")

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(text []byte) (*node, []Problem) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if depth(text) > maxDepth {
		return nil, []Problem{{Text: errDeep.Error()}}
	}
	value, err := hujson.Parse(text)
	if err != nil {
		return nil, []Problem{*jsonProblem(err)}
	}
	c := &jsonReader{text: text}
	n, problem := c.value(&value, 0)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	return n, c.twice
}

// depth returns an upper bound of the nesting depth. It also counts brackets in strings.
func depth(text []byte) (deepest int) {
	now := 0
	for _, b := range text {
		switch b {
		case '{', '[':
			now++
			deepest = max(deepest, now)
		case '}', ']':
			now--
		}
	}
	return deepest
}

var jsonPlace = regexp.MustCompile(`^hujson: line (\d+), column (\d+): (.*)$`)

func jsonProblem(err error) *Problem {
	m := jsonPlace.FindStringSubmatch(err.Error())
	if m == nil {
		return &Problem{Text: "not JSON: " + strings.TrimPrefix(err.Error(), "hujson: ")}
	}
	line, _ := strconv.Atoi(m[1])   // digits
	column, _ := strconv.Atoi(m[2]) // likewise
	return &Problem{Line: line, Column: column, Text: "not JSON: " + m[3]}
}

// A jsonReader converts the values of hujson to nodes. Positions are requested in order, so that
// lines are counted once.
type jsonReader struct {
	text  []byte
	at    int
	line  int
	start int // of the line
	twice []Problem
}

// duplicate returns the problem of a name that a mapping has already.
func duplicate(m member) Problem {
	return Problem{Line: m.line, Column: m.column, Text: fmt.Sprintf("duplicate name %q", m.name)}
}

func (c *jsonReader) place(offset int) (line, column int) {
	if offset < c.at {
		c.at, c.line, c.start = 0, 0, 0
	}
	for ; c.at < offset && c.at < len(c.text); c.at++ {
		if c.text[c.at] == '\n' {
			c.line++
			c.start = c.at + 1
		}
	}
	return c.line + 1, offset - c.start + 1
}

func (c *jsonReader) value(v *hujson.Value, depth int) (*node, *Problem) {
	n := &node{start: v.StartOffset, end: v.EndOffset}
	n.line, n.column = c.place(v.StartOffset)
	if depth > maxDepth {
		return nil, &Problem{Line: n.line, Column: n.column, Text: errDeep.Error()}
	}
	switch x := v.Value.(type) {
	case *hujson.Object:
		n.kind = isMap
		seen := make(map[string]bool)
		for i := range x.Members {
			m := &x.Members[i]
			name, ok := m.Name.Value.(hujson.Literal)
			if !ok {
				return nil, &Problem{Line: n.line, Column: n.column, Text: "a name must be a string"}
			}
			out := member{name: name.String(), start: m.Name.StartOffset}
			out.line, out.column = c.place(m.Name.StartOffset)
			if seen[out.name] {
				c.twice = append(c.twice, duplicate(out))
				continue
			}
			seen[out.name] = true
			var problem *Problem
			if out.value, problem = c.value(&m.Value, depth+1); problem != nil {
				return nil, problem
			}
			n.members = append(n.members, out)
		}
	case *hujson.Array:
		n.kind = isList
		for i := range x.Elements {
			item, problem := c.value(&x.Elements[i], depth+1)
			if problem != nil {
				return nil, problem
			}
			n.items = append(n.items, item)
		}
	case hujson.Literal:
		n.text = x.String()
		switch x.Kind() {
		case '"':
			n.kind = isText
		case '0':
			n.kind = isNumber
		case 't', 'f':
			n.kind = isBool
		}
	}
	return n, nil
}

// parseYAML parses YAML without anchors, so that the parsed size of a file is proportional to its
// text.
func parseYAML(text []byte) (*node, []Problem) {
	if depth(text) > maxDepth {
		return nil, []Problem{{Text: errDeep.Error()}}
	}
	if widest(text) > maxMembers {
		return nil, []Problem{{Text: fmt.Sprintf("a mapping has more than %d members", maxMembers)}}
	}
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, []Problem{*yamlProblem(err)}
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		r := &yamlReader{}
		n, problem := r.node(doc.Body, 0)
		if problem != nil {
			return nil, []Problem{*problem}
		}
		return n, r.twice
	}
	return &node{}, nil
}

// maxMembers bounds the members of a mapping in YAML, because the time of the parser grows with
// their square.
const maxMembers = 10_000

// widest returns an upper bound of the number of members of one mapping that is not in braces: the
// lines with the same indentation and none with less between them.
func widest(text []byte) (most int) {
	type level struct{ indent, lines int }
	var levels []level
	for line := range bytes.Lines(text) {
		rest := bytes.TrimLeft(line, " ")
		if len(bytes.TrimSpace(rest)) == 0 || rest[0] == '#' {
			continue
		}
		indent := len(line) - len(rest)
		for len(levels) > 0 && levels[len(levels)-1].indent > indent {
			levels = levels[:len(levels)-1]
		}
		if len(levels) == 0 || levels[len(levels)-1].indent < indent {
			levels = append(levels, level{indent: indent})
		}
		top := &levels[len(levels)-1]
		if rest[0] == '-' { // an element of a list, which begins new mappings
			continue
		}
		top.lines++
		most = max(most, top.lines)
	}
	return most
}

// A yamlReader converts the syntax tree of YAML to nodes.
type yamlReader struct{ twice []Problem }

var yamlPlace = regexp.MustCompile(`^\[(\d+):(\d+)\] ([^\n]*)`)

func yamlProblem(err error) *Problem {
	m := yamlPlace.FindStringSubmatch(err.Error())
	if m == nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return &Problem{Text: "not YAML: " + first}
	}
	line, _ := strconv.Atoi(m[1])   // digits
	column, _ := strconv.Atoi(m[2]) // likewise
	return &Problem{Line: line, Column: column, Text: "not YAML: " + m[3]}
}

func placeOf(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return t.Position.Line, t.Position.Column
}

func (r *yamlReader) node(x ast.Node, depth int) (*node, *Problem) {
	n := &node{}
	n.line, n.column = placeOf(x.GetToken())
	if depth > maxDepth {
		return nil, &Problem{Line: n.line, Column: n.column, Text: errDeep.Error()}
	}
	switch x := x.(type) {
	case *ast.MappingNode:
		return n, r.members(n, x.Values, depth)
	case *ast.MappingValueNode:
		return n, r.members(n, []*ast.MappingValueNode{x}, depth)
	case *ast.SequenceNode:
		n.kind = isList
		for _, v := range x.Values {
			item, problem := r.node(v, depth+1)
			if problem != nil {
				return nil, problem
			}
			n.items = append(n.items, item)
		}
	case *ast.StringNode:
		n.kind, n.text = isText, x.Value
	case *ast.LiteralNode:
		n.kind, n.text = isText, x.Value.Value
	case *ast.IntegerNode:
		n.kind, n.text = isNumber, x.GetToken().Value
	case *ast.FloatNode:
		n.kind, n.text = isNumber, x.GetToken().Value
	case *ast.BoolNode:
		n.kind, n.text = isBool, strconv.FormatBool(x.Value)
	case *ast.NullNode:
	default:
		return nil, &Problem{Line: n.line, Column: n.column, Text: "anchors, aliases and tags are not supported"}
	}
	return n, nil
}

// members adds the members of a mapping.
func (r *yamlReader) members(n *node, values []*ast.MappingValueNode, depth int) *Problem {
	n.kind = isMap
	seen := make(map[string]bool)
	for _, v := range values {
		m := member{}
		m.line, m.column = placeOf(v.Key.GetToken())
		key, ok := v.Key.(ast.ScalarNode)
		if !ok {
			return &Problem{Line: m.line, Column: m.column, Text: "a name must be a string"}
		}
		m.name = fmt.Sprint(key.GetValue())
		if seen[m.name] {
			r.twice = append(r.twice, duplicate(m))
			continue
		}
		seen[m.name] = true
		if len(n.members) == 0 && n.inBlock(values) {
			n.line, n.column = m.line, m.column // the syntax tree has the place of the first colon
		}
		var problem *Problem
		if m.value, problem = r.node(v.Value, depth+1); problem != nil {
			return problem
		}
		n.members = append(n.members, m)
	}
	return nil
}

// inBlock reports whether a mapping is written without braces.
func (n *node) inBlock(values []*ast.MappingValueNode) bool {
	line, column := placeOf(values[0].GetToken())
	return n.line == line && n.column == column
}
