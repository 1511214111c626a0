package openrpc

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// Check holds the document against what types cannot know: that every description has its method, that examples fit the schemas of
// their method, and that the codes of a method's errors differ. It is for a test of the program that describes. The error
// joins all that is wrong.
func (d *Discovery) Check() error {
	doc, err := d.Document()
	if err != nil {
		return err
	}
	d.mu.Lock()
	described := slices.Sorted(maps.Keys(d.docs))
	d.mu.Unlock()

	var wrong []error
	for _, name := range described {
		if _, ok := doc.Method(name); !ok {
			wrong = append(wrong, fmt.Errorf("openrpc: %q is described, but not a method", name))
		}
	}
	for i := range doc.Methods {
		for _, err := range doc.check(&doc.Methods[i]) {
			wrong = append(wrong, fmt.Errorf("openrpc: method %q: %w", doc.Methods[i].Name, err))
		}
	}
	return errors.Join(wrong...)
}

// check looks at one method of a document that holds no references but to schemas.
func (d *Document) check(m *Method) (wrong []error) {
	codes := make(map[int64]bool)
	for _, e := range m.Errors {
		if codes[e.Code] {
			wrong = append(wrong, fmt.Errorf("error code %d comes twice (Method Object, errors)", e.Code))
		}
		codes[e.Code] = true
	}
	for _, x := range m.Examples {
		if err := d.checkExample(m, x); err != nil {
			wrong = append(wrong, fmt.Errorf("example %q: %w", x.Name, err))
		}
	}
	return wrong
}

func (d *Document) checkExample(m *Method, x ExamplePairing) error {
	variadic := false
	if n := len(m.Params); n > 0 {
		_, variadic = m.Params[n-1].Extra[Variadic]
	}
	if len(x.Params) > len(m.Params) && !variadic {
		return fmt.Errorf("%d params, want at most %d", len(x.Params), len(m.Params))
	}
	for i, p := range m.Params {
		if p.Required && i >= len(x.Params) {
			return fmt.Errorf("param %q is missing", p.Name)
		}
	}
	for i, v := range x.Params {
		p := m.Params[min(i, len(m.Params)-1)]
		if err := d.fits(p.Schema, v.Value); err != nil {
			return fmt.Errorf("param %q: %w", p.Name, err)
		}
	}
	if x.Result == nil || m.Result == nil {
		return nil
	}
	if err := d.fits(m.Result.Schema, x.Result.Value); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	return nil
}

// fits validates a value. The schema becomes a document of its own, with the named schemas under the name that draft-07 has for them.
func (d *Document) fits(schema, value jsonrpc.Raw) error {
	if schema == nil {
		return nil
	}
	definitions := map[string]jsonrpc.Raw{}
	if d.Components != nil {
		definitions = d.Components.Schemas
	}
	text, err := encode(struct {
		Schema      string                 `json:"$schema"`
		Definitions map[string]jsonrpc.Raw `json:"definitions"`
		AllOf       []jsonrpc.Raw          `json:"allOf"`
	}{"http://json-schema.org/draft-07/schema#", definitions, []jsonrpc.Raw{schema}})
	if err != nil {
		return err
	}
	var root jsonschema.Schema
	if err := stdjson.Unmarshal([]byte(strings.ReplaceAll(string(text), `"`+schemaPrefix, `"#/definitions/`)), &root); err != nil {
		return err
	}
	resolved, err := root.Resolve(nil)
	if err != nil {
		return err
	}
	var v any
	if err := stdjson.Unmarshal(value, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}
