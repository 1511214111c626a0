package orchestrator

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/internal/x/private"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// ReadPlan reads a plan file and checks it.
func ReadPlan(name string) (*Plan, error) {
	b, err := readFile(name)
	if err != nil {
		return nil, err
	}
	return ParsePlan(name, b)
}

// ReadTeam reads a file that contains only a team:, in the form used in plans, and checks it. If it
// is invalid, the error is a [*PlanError].
func ReadTeam(name string) (map[string]Member, error) {
	text, err := readFile(name)
	if err != nil {
		return nil, err
	}
	r := &planReader{plan: &Plan{file: name, positions: map[string]Position{}}}
	if root := r.parse(text); root != nil {
		r.mapping(root, "", map[string]field{"team": r.team})
		if len(r.problems) == 0 && len(r.plan.Team) == 0 {
			r.wrong(root.pos, "team", "needs members")
		}
	}
	if len(r.problems) == 0 {
		c := &checker{plan: r.plan}
		c.checkTeam()
		r.problems = c.found
	}
	if len(r.problems) > 0 {
		return nil, problemsError(name, r.problems)
	}
	return r.plan.Team, nil
}

// readFile reads a file up to the size of a plan. The file selects programs to run, so a file that
// other users can write is rejected.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxPlan {
		return nil, tooLong(name)
	}
	return private.Read(name, false)
}

func tooLong(name string) error {
	return &PlanError{File: name, Problems: []Problem{{Path: "plan", Text: fmt.Sprintf("a plan can have at most %d bytes", maxPlan)}}}
}

// ParsePlan parses a plan from YAML or JSON and checks it. name is used in messages. If the plan is
// invalid, the error is a [*PlanError]. Anchors and aliases are rejected, so a plan is no larger
// than its text.
func ParsePlan(name string, text []byte) (*Plan, error) {
	if len(text) > maxPlan {
		return nil, tooLong(name)
	}
	r := &planReader{plan: &Plan{file: name, positions: map[string]Position{}}}
	if root := r.parse(text); root != nil {
		r.readPlan(root)
	}
	if len(r.problems) == 0 {
		r.problems = r.plan.problems()
	}
	if len(r.problems) > 0 {
		return nil, problemsError(name, r.problems)
	}
	return r.plan, nil
}

func problemsError(file string, problems []Problem) error {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &PlanError{File: file, Problems: problems[:min(len(problems), maxProblems)]}
}

// A yamlNode is the part of a YAML node that this package uses.
type yamlNode struct {
	pos   Position
	at    Position // where the text of a scalar starts
	kind  byte     // 'm'apping, 'l'ist, 's'tring, or 'v'alue: a number, bool or null
	text  string   // of strings
	value jsonrpc.Raw
	list  []*yamlNode
	keys  []*yamlNode // of mappings; parallel to list
}

type planReader struct {
	plan     *Plan
	lines    []string
	problems []Problem
}

func (r *planReader) wrong(pos Position, path, format string, args ...any) {
	r.problems = append(r.problems, Problem{Position: pos, Path: path, Text: fmt.Sprintf(format, args...)})
}

// parse converts the text to nodes and records errors.
func (r *planReader) parse(text []byte) *yamlNode {
	if line := tooDeep(text); line > 0 {
		r.wrong(Position{Line: line, Column: 1}, "plan", "nested too deeply")
		return nil
	}
	r.lines = strings.Split(string(text), "\n")
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		pos, what := Position{Line: 1, Column: 1}, err.Error()
		if e, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			what = e.GetMessage()
			if t := e.GetToken(); t != nil && t.Position != nil {
				pos = Position{Line: t.Position.Line, Column: t.Position.Column}
			}
		}
		r.wrong(pos, "plan", "%s", what)
		return nil
	}
	var bodies []ast.Node
	for _, d := range file.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) != 1 {
		r.wrong(Position{Line: 1, Column: 1}, "plan", "a plan must be one YAML document, this has %d", len(bodies))
		return nil
	}
	return r.convert(bodies[0], "plan", 0)
}

// tooDeep returns the line in which the text is nested too deeply for a plan, or 0. It runs before
// the recursive parser.
func tooDeep(text []byte) int {
	line, flow, indent, counting := 1, 0, 0, true
	for _, c := range text {
		switch c {
		case '\n':
			line, indent, counting = line+1, 0, true
			continue
		case '[', '{':
			flow++
		case ']', '}':
			flow = max(flow-1, 0)
		}
		if counting = counting && strings.IndexByte(" -?:\t", c) >= 0; counting {
			indent++
		}
		if flow > 4*maxNesting || indent > 32*maxNesting {
			return line
		}
	}
	return 0
}

// indent returns the number of leading spaces of a line.
func (r *planReader) indent(line int) int {
	if line < 1 || line > len(r.lines) {
		return 0
	}
	return len(r.lines[line-1]) - len(strings.TrimLeft(r.lines[line-1], " "))
}

func position(n ast.Node) Position {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return Position{Line: t.Position.Line, Column: t.Position.Column}
	}
	return Position{}
}

func (r *planReader) convert(n ast.Node, path string, depth int) *yamlNode {
	pos := position(n)
	if depth > 8*maxNesting {
		r.wrong(pos, path, "nested too deeply")
		return nil
	}
	out := &yamlNode{pos: pos, at: pos}
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = 'm'
		if !n.IsFlowStyle && len(n.Values) > 0 { // otherwise it is the colon
			out.pos = position(n.Values[0].Key)
		}
		for _, v := range n.Values {
			r.pair(out, v, path, depth)
		}
	case *ast.MappingValueNode:
		out.kind = 'm'
		out.pos = position(n.Key)
		r.pair(out, n, path, depth)
	case *ast.SequenceNode:
		out.kind = 'l'
		for i, v := range n.Values {
			if c := r.convert(v, fmt.Sprintf("%s[%d]", path, i), depth+1); c != nil {
				out.list = append(out.list, c)
			}
		}
	case *ast.StringNode:
		out.kind, out.text = 's', n.Value
		if t := n.GetToken(); t != nil && (t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType) {
			out.at.Column++
		}
	case *ast.LiteralNode:
		out.kind, out.text = 's', n.Value.Value
		out.at.Line++
		out.at.Column = r.indent(out.at.Line) + 1
	case *ast.IntegerNode, *ast.FloatNode:
		out.kind = 'v'
		raw, err := jsonrpc.ParseRaw([]byte(n.String()))
		if err != nil { // a number that JSON does not have, such as 0x1f
			out.kind, out.text = 's', n.String()
			break
		}
		out.value = raw
	case *ast.BoolNode:
		out.kind, out.value = 'v', expr.Bool(n.Value)
	case *ast.NullNode:
		out.kind, out.value = 'v', jsonrpc.Raw("null")
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.wrong(pos, path, "anchors and aliases are not supported")
		return nil
	default:
		r.wrong(pos, path, "a %s is not allowed here", strings.ToLower(n.Type().String()))
		return nil
	}
	return out
}

func (r *planReader) pair(out *yamlNode, v *ast.MappingValueNode, path string, depth int) {
	key := r.convert(v.Key, path, depth+1)
	if key == nil {
		return
	}
	if key.kind == 'v' {
		key.kind, key.text = 's', string(key.value) // a case may be named 1 or true
	}
	if key.kind != 's' {
		r.wrong(key.pos, path, "a key must be text")
		return
	}
	for _, k := range out.keys {
		if k.text == key.text {
			r.wrong(key.pos, path+"."+key.text, "is a duplicate")
			return
		}
	}
	if value := r.convert(v.Value, path+"."+key.text, depth+1); value != nil {
		out.keys = append(out.keys, key)
		out.list = append(out.list, value)
	}
}
