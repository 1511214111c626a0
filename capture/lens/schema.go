package lens

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/capture"
	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
	"github.com/da1ed7bb/parley/mcp"
)

// The schemas of the protocols, reduced to the checked keywords. schema_test.go makes these files
// from the vendored ones.
//
//go:embed schema/*.json.gz
var schemaFiles embed.FS

// A protocol is the content of one file: the messages of one protocol in one version.
type protocol struct {
	Methods map[string]*methodSchema `json:"methods"`
	Defs    map[string]*part         `json:"defs"`
}

type methodSchema struct {
	Params *part   `json:"params,omitempty"`
	Result []*part `json:"result,omitempty"` // one of them must match
}

// A part is the subset of JSON Schema that the protocols use. Members without a schema are allowed,
// because receivers ignore unknown members.
type part struct {
	Ref        string           `json:"$ref,omitempty"` // a name in Defs
	Type       any              `json:"type,omitempty"` // a string or a list of strings
	Required   []string         `json:"required,omitempty"`
	Properties map[string]*part `json:"properties,omitempty"`
	Items      *part            `json:"items,omitempty"`
	Values     *part            `json:"additionalProperties,omitempty"`
	AnyOf      []*part          `json:"anyOf,omitempty"`
	OneOf      []*part          `json:"oneOf,omitempty"`
	AllOf      []*part          `json:"allOf,omitempty"`
	Const      any              `json:"const,omitempty"`
	Enum       []any            `json:"enum,omitempty"`
}

// each calls f for a part and all parts in it.
func (w *part) each(f func(*part)) {
	if w == nil {
		return
	}
	f(w)
	for _, x := range w.Properties {
		x.each(f)
	}
	w.Items.each(f)
	w.Values.each(f)
	for _, list := range [][]*part{w.AnyOf, w.OneOf, w.AllOf} {
		for _, x := range list {
			x.each(f)
		}
	}
}

// schemas holds the compiled schemas of one protocol in one version, by method.
type schemas struct {
	params map[string]*schema.Schema
	result map[string][]*schema.Schema
}

var loaded sync.Map // by file: func() *schemas

// load reads a file once, on first use.
func load(name string) *schemas {
	once, _ := loaded.LoadOrStore(name, sync.OnceValue(func() *schemas {
		text, err := readSchema(name)
		p := new(protocol)
		if err == nil {
			err = json.Unmarshal(text, p)
		}
		var s *schemas
		if err == nil {
			if strings.HasPrefix(name, "mcp-") {
				p.correctMCP()
			}
			s, err = p.compile()
		}
		if err != nil {
			panic("lens: " + name + ": " + err.Error()) // the file is embedded in the program
		}
		return s
	}))
	return once.(func() *schemas)()
}

// correctMCP fixes an error in MCP's published schemas since 2025-06-18: where schema.ts has
// string | number | boolean, such as for the answer to an elicitation, schema.json has "integer"
// instead of "number". A NumberSchema accepts any number (MCP 2025-11-25, Elicitation, Requested
// Schema).
func (p *protocol) correctMCP() {
	for _, w := range p.Defs {
		w.each(func(w *part) {
			list, ok := w.Type.([]any)
			if ok && len(list) == 3 && slices.Contains(list, any("string")) && slices.Contains(list, any("integer")) && slices.Contains(list, any("boolean")) {
				w.Type = []any{"string", "number", "boolean"}
			}
		})
	}
	if w := p.Defs["JSONValue"]; w != nil { // null is a valid JSON value
		w.AnyOf = append(w.AnyOf, &part{Type: "null"})
	}
}

// compile makes one document of all parts and compiles it.
func (p *protocol) compile() (*schemas, error) {
	all := map[string]*part{}
	for name, w := range p.Defs {
		all["type "+name] = w
	}
	for method, m := range p.Methods {
		if m.Params != nil {
			all["params "+method] = m.Params
		}
		for i, r := range m.Result {
			all["result "+strconv.Itoa(i)+" "+method] = r
		}
	}
	for _, w := range all {
		w.each(func(w *part) {
			if w.Ref != "" && p.Defs[w.Ref] == nil {
				w.Ref = ""
			} else if w.Ref != "" {
				w.Ref = "#" + inDefs("type "+w.Ref)
			}
			// It is not checked that only one matches, because the schemas are not that exact.
			if w.AnyOf == nil {
				w.AnyOf = w.OneOf
			} else if w.OneOf != nil {
				w.AllOf = append(w.AllOf, &part{AnyOf: w.OneOf})
			}
			w.OneOf = nil
		})
	}
	text, err := json.Marshal(map[string]any{"$defs": all})
	if err != nil {
		return nil, err
	}
	whole, err := schema.Compile(text)
	if err != nil {
		return nil, err
	}
	at := func(name string) *schema.Schema {
		found, _ := whole.At(inDefs(name))
		return found
	}
	s := &schemas{params: map[string]*schema.Schema{}, result: map[string][]*schema.Schema{}}
	for method, m := range p.Methods {
		if m.Params != nil {
			s.params[method] = at("params " + method)
		}
		for i := range m.Result {
			s.result[method] = append(s.result[method], at("result "+strconv.Itoa(i)+" "+method))
		}
	}
	return s, nil
}

// inDefs returns the JSON pointer of a part in the document that compile makes.
func inDefs(name string) string { return string(jsontext.Pointer("/$defs").AppendToken(name)) }

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

// checkParams checks the params of a known method against its schema.
func checkParams(l *capture.Look, s *schemas, method string) {
	want := s.params[method]
	if want == nil {
		return
	}
	if l.Message.Params == nil {
		if mismatch(jsonrpc.Raw(`{}`), want, "params") != "" {
			l.Broken("schema", method+" needs params")
		}
		return
	}
	if problem := mismatch(l.Message.Params, want, "params"); problem != "" {
		l.Broken("schema", problem)
	}
}

// checkResult checks a result against the schema of its method.
func checkResult(l *capture.Look, s *schemas, method string) {
	if l.Message.Result == nil {
		return
	}
	first := ""
	for _, r := range s.result[method] {
		problem := mismatch(l.Message.Result, r, "result")
		if problem == "" {
			return
		}
		if first == "" {
			first = problem
		}
	}
	if first != "" {
		l.Broken("schema", first)
	}
}

// mismatch returns the first mismatch in text, or "". A value that is too expensive to validate
// matches.
func mismatch(text jsonrpc.Raw, want *schema.Schema, at string) string {
	err := want.Validate(context.Background(), text)
	invalid, ok := errors.AsType[*schema.InvalidError](err)
	if !ok {
		return ""
	}
	p := invalid.Problems[0]
	at += dotted(p.Pointer)
	switch {
	case p.Keyword == "required":
		return at + " is missing"
	case p.Keyword == "type":
		return at + " is " + p.Got + ", not " + strings.Join(p.Want, " or ")
	case p.Keyword == "enum" && len(p.Want) == 1:
		return at + " is not " + p.Want[0]
	case p.Keyword == "enum":
		return at + " is " + short(p.Got) + ", not one of " + strings.Join(p.Want, ", ")
	case p.Keyword == "anyOf" && len(p.Want) > 1:
		last := len(p.Want) - 1
		return at + " is " + short(p.Got) + "; " + strings.Join(p.Want[:last], ", ") + " or " + p.Want[last] + " expected"
	}
	return at + " " + p.Reason
}

// dotted converts a JSON pointer to the notation of the findings: .content[0].text
func dotted(pointer string) string {
	var b strings.Builder
	for name := range jsontext.Pointer(pointer).Tokens() {
		if _, err := strconv.ParseUint(name, 10, 32); err == nil {
			b.WriteString("[" + name + "]")
			continue
		}
		b.WriteString("." + name)
	}
	return b.String()
}
