package lens

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/mcp"
)

// The schemas of the protocols, cut down to what is checked: see schema_test.go, which makes these files of the vendored ones.
//
//go:embed schema/*.json.gz
var schemaFiles embed.FS

// A schemas is one protocol in one revision.
type schemas struct {
	Methods map[string]*methodSchema `json:"methods"`
	Defs    map[string]*schema       `json:"defs"`
}

type methodSchema struct {
	Params *schema   `json:"params,omitempty"`
	Result []*schema `json:"result,omitempty"` // any of them
}

// A schema is the part of JSON Schema that the protocols use. Members that it does not name are allowed: receivers ignore what they do
// not know.
type schema struct {
	Ref        string             `json:"$ref,omitempty"` // a name in Defs
	Type       any                `json:"type,omitempty"` // a string or a list of them
	Required   []string           `json:"required,omitempty"`
	Properties map[string]*schema `json:"properties,omitempty"`
	Items      *schema            `json:"items,omitempty"`
	Values     *schema            `json:"additionalProperties,omitempty"`
	AnyOf      []*schema          `json:"anyOf,omitempty"`
	OneOf      []*schema          `json:"oneOf,omitempty"`
	AllOf      []*schema          `json:"allOf,omitempty"`
	Const      any                `json:"const,omitempty"`
	Enum       []any              `json:"enum,omitempty"`
}

var loaded sync.Map // by file: func() *schemas

// load reads a file once, when it is first needed.
func load(name string) *schemas {
	once, _ := loaded.LoadOrStore(name, sync.OnceValue(func() *schemas {
		text, err := readSchema(name)
		s := new(schemas)
		if err == nil {
			err = json.Unmarshal(text, s)
		}
		if err != nil {
			panic("lens: " + name + ": " + err.Error()) // it is part of the program
		}
		return s
	}))
	return once.(func() *schemas)()
}

func readSchema(name string) ([]byte, error) {
	packed, err := schemaFiles.ReadFile("schema/" + name + ".json.gz")
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func mcpSchema(v mcp.Version) *schemas { return load("mcp-" + v.String()) }

// checkParams holds the params of a known method against its schema.
func checkParams(l *capture.Look, s *schemas, method string) {
	m := s.Methods[method]
	if m == nil || m.Params == nil {
		return
	}
	if l.Message.Params == nil {
		if len(s.resolve(m.Params).Required) > 0 {
			l.Broken("schema", method+" needs params")
		}
		return
	}
	if problem := s.check(l.Message.Params, m.Params, "params"); problem != "" {
		l.Broken("schema", problem)
	}
}

// checkResult holds a result against the schema of its method.
func checkResult(l *capture.Look, s *schemas, method string) {
	m := s.Methods[method]
	if m == nil || len(m.Result) == 0 || l.Message.Result == nil {
		return
	}
	first := ""
	for _, r := range m.Result {
		problem := s.check(l.Message.Result, r, "result")
		if problem == "" {
			return
		}
		if first == "" {
			first = problem
		}
	}
	l.Broken("schema", first)
}

// check returns the first thing that is wrong with text, "" for nothing.
func (s *schemas) check(text jsonrpc.Raw, want *schema, at string) string {
	var v any
	if err := json.Unmarshal(text, &v, lenient); err != nil {
		return at + " is no JSON"
	}
	return s.value(v, want, at, 0)
}

// maxDepth bounds references that lead to themselves without going deeper into the value.
const maxDepth = 200

func (s *schemas) resolve(w *schema) *schema {
	for i := 0; w.Ref != "" && i < maxDepth; i++ {
		next := s.Defs[w.Ref]
		if next == nil {
			return &schema{}
		}
		w = next
	}
	return w
}

func (s *schemas) value(v any, w *schema, at string, depth int) string {
	if depth > maxDepth {
		return ""
	}
	w = s.resolve(w)
	if w.Type != nil && !hasType(v, w.Type) {
		return fmt.Sprintf("%s is %s, not %s", at, typeOf(v), typeNames(w.Type))
	}
	if w.Const != nil && v != w.Const {
		return fmt.Sprintf("%s is not %v", at, w.Const)
	}
	if len(w.Enum) > 0 && !contains(w.Enum, v) {
		return fmt.Sprintf("%s is %v, none of %v", at, short(fmt.Sprint(v)), w.Enum)
	}
	for _, all := range w.AllOf {
		if problem := s.value(v, all, at, depth+1); problem != "" {
			return problem
		}
	}
	for _, list := range [][]*schema{w.AnyOf, w.OneOf} { // that only one fits is not checked: the schemas are not that exact
		if problem := s.fits(v, list, at, depth); problem != "" {
			return problem
		}
	}
	switch v := v.(type) {
	case map[string]any:
		return s.object(v, w, at, depth)
	case []any:
		for i, e := range v {
			if w.Items == nil {
				break
			}
			if problem := s.value(e, w.Items, at+"["+strconv.Itoa(i)+"]", depth+1); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func (s *schemas) object(v map[string]any, w *schema, at string, depth int) string {
	for _, name := range w.Required {
		if _, there := v[name]; !there {
			return at + "." + name + " is missing"
		}
	}
	for name, e := range v {
		want := w.Properties[name]
		if want == nil {
			want = w.Values
		}
		if want == nil {
			continue
		}
		if problem := s.value(e, want, at+"."+name, depth+1); problem != "" {
			return problem
		}
	}
	return ""
}

// fits returns what is wrong with v if none of list takes it: what the one says that came furthest.
func (s *schemas) fits(v any, list []*schema, at string, depth int) string {
	best := ""
	for _, w := range list {
		problem := s.value(v, w, at, depth+1)
		if problem == "" {
			return ""
		}
		where, _, _ := strings.Cut(problem, " ")
		before, _, _ := strings.Cut(best, " ")
		if best == "" || len(where) > len(before) {
			best = problem
		}
	}
	return best
}

func contains(list []any, v any) bool {
	for _, e := range list {
		if e == v {
			return true
		}
	}
	return false
}

func hasType(v, want any) bool {
	switch want := want.(type) {
	case string:
		got := typeOf(v)
		return got == want || want == "number" && got == "integer"
	case []any:
		for _, w := range want {
			if hasType(v, w) {
				return true
			}
		}
	}
	return false
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

func typeNames(want any) string {
	if list, ok := want.([]any); ok {
		words := make([]string, len(list))
		for i, w := range list {
			words[i] = fmt.Sprint(w)
		}
		return strings.Join(words, " or ")
	}
	return fmt.Sprint(want)
}
