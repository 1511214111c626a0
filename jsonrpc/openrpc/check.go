package openrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

// Check returns an error if the document contradicts what types cannot express: every description
// must have its method, examples must match the schemas of their method, and a method's errors must
// have different codes. It is meant for tests. The error joins all problems.
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
			wrong = append(wrong, fmt.Errorf("openrpc: %q has a description, but is not a method", name))
		}
	}
	for i := range doc.Methods {
		for _, err := range doc.check(&doc.Methods[i]) {
			wrong = append(wrong, fmt.Errorf("openrpc: method %q: %w", doc.Methods[i].Name, err))
		}
	}
	return errors.Join(wrong...)
}

// check checks one method of a document that contains only references to schemas.
func (d *Document) check(m *Method) (wrong []error) {
	codes := make(map[int64]bool)
	for _, e := range m.Errors {
		if codes[e.Code] {
			wrong = append(wrong, fmt.Errorf("duplicate error code %d (Method Object, errors)", e.Code))
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
		return fmt.Errorf("it has %d params; the method takes at most %d", len(x.Params), len(m.Params))
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

// fits validates a value. The schema is made a document of its own, with the components that it
// refers to, at the same place.
func (d *Document) fits(text, value jsonrpc.Raw) error {
	if text == nil {
		return nil
	}
	var components struct {
		Schemas map[string]jsonrpc.Raw `json:"schemas,omitzero"`
	}
	if d.Components != nil {
		components.Schemas = schema.Referenced(text, schemaPrefix, d.Components.Schemas)
	}
	whole, err := encode(struct {
		Schema     string        `json:"$schema"`
		Components any           `json:"components"`
		AllOf      []jsonrpc.Raw `json:"allOf"`
	}{"http://json-schema.org/draft-07/schema#", components, []jsonrpc.Raw{text}})
	if err != nil {
		return err
	}
	s, err := schema.Compile(whole)
	if err != nil {
		return err
	}
	return s.Validate(context.Background(), value)
}
