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

// A node is a value of a file, whatever it is written in, and where it stands.
type node struct {
	kind         kind
	text         string // of a scalar
	members      []member
	items        []*node
	line, column int
}

type member struct {
	name         string
	line, column int
	value        *node
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

// maxDepth bounds how deep a file nests.
const maxDepth = 64

// get returns a member, nil if there is none.
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

var errDeep = errors.New("it nests too deep")

// parseJSON reads JSON with comments and trailing commas.
func parseJSON(text []byte) (*node, *Problem) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if depth(text) > maxDepth {
		return nil, &Problem{Text: errDeep.Error()}
	}
	value, err := hujson.Parse(text)
	if err != nil {
		return nil, jsonProblem(err)
	}
	c := &jsonReader{text: text}
	n, problem := c.value(&value, 0)
	return n, problem
}

// depth is how deep brackets nest; those in texts count too, which is a bound above.
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
		return &Problem{Text: "no JSON: " + strings.TrimPrefix(err.Error(), "hujson: ")}
	}
	line, _ := strconv.Atoi(m[1])   // digits
	column, _ := strconv.Atoi(m[2]) // likewise
	return &Problem{Line: line, Column: column, Text: "no JSON: " + m[3]}
}

// A jsonReader makes nodes of what hujson found. Its places are asked for in order, so that lines are counted once.
type jsonReader struct {
	text  []byte
	at    int
	line  int
	start int // of the line
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
	n := &node{}
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
				return nil, &Problem{Line: n.line, Column: n.column, Text: "a name is a text"}
			}
			out := member{name: name.String()}
			out.line, out.column = c.place(m.Name.StartOffset)
			if seen[out.name] {
				return nil, &Problem{Line: out.line, Column: out.column, Text: fmt.Sprintf("%q is there twice", out.name)}
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

// parseYAML reads YAML without anchors, so that a file is as long as it looks.
func parseYAML(text []byte) (*node, *Problem) {
	if depth(text) > maxDepth {
		return nil, &Problem{Text: errDeep.Error()}
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, yamlProblem(err)
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		return yamlNode(doc.Body, 0)
	}
	return &node{}, nil
}

var yamlPlace = regexp.MustCompile(`^\[(\d+):(\d+)\] ([^\n]*)`)

func yamlProblem(err error) *Problem {
	m := yamlPlace.FindStringSubmatch(err.Error())
	if m == nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return &Problem{Text: "no YAML: " + first}
	}
	line, _ := strconv.Atoi(m[1])   // digits
	column, _ := strconv.Atoi(m[2]) // likewise
	return &Problem{Line: line, Column: column, Text: "no YAML: " + m[3]}
}

func placeOf(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return t.Position.Line, t.Position.Column
}

func yamlNode(x ast.Node, depth int) (*node, *Problem) {
	n := &node{}
	n.line, n.column = placeOf(x.GetToken())
	if depth > maxDepth {
		return nil, &Problem{Line: n.line, Column: n.column, Text: errDeep.Error()}
	}
	switch x := x.(type) {
	case *ast.MappingNode:
		return n, n.addMembers(x.Values, depth)
	case *ast.MappingValueNode:
		return n, n.addMembers([]*ast.MappingValueNode{x}, depth)
	case *ast.SequenceNode:
		n.kind = isList
		for _, v := range x.Values {
			item, problem := yamlNode(v, depth+1)
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
		return nil, &Problem{Line: n.line, Column: n.column, Text: "anchors, aliases and tags are not taken"}
	}
	return n, nil
}

func (n *node) addMembers(values []*ast.MappingValueNode, depth int) *Problem {
	n.kind = isMap
	seen := make(map[string]bool)
	for _, v := range values {
		m := member{}
		m.line, m.column = placeOf(v.Key.GetToken())
		key, ok := v.Key.(ast.ScalarNode)
		if !ok {
			return &Problem{Line: m.line, Column: m.column, Text: "a name is a text"}
		}
		m.name = fmt.Sprint(key.GetValue())
		if seen[m.name] {
			return &Problem{Line: m.line, Column: m.column, Text: fmt.Sprintf("%q is there twice", m.name)}
		}
		seen[m.name] = true
		var problem *Problem
		if m.value, problem = yamlNode(v.Value, depth+1); problem != nil {
			return problem
		}
		n.members = append(n.members, m)
	}
	return nil
}
