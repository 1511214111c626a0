package openrpc

import (
	"cmp"
	"context"
	"encoding"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// MethodDiscover is the service discovery method (OpenRPC 1.3.2, Service Discovery Method).
const MethodDiscover = "rpc.discover"

// A Discovery describes the methods of a [jsonrpc.Mux]. Set its fields before the first request for
// the document and do not change them afterwards. Its methods are safe for concurrent use.
type Discovery struct {
	Info         Info
	Servers      []Server
	ExternalDocs *ExternalDocs
	Extra        Extensions // members "x-…" of the document

	// Version is the OpenRPC version named in the document: [Version13] or [Version14]. If empty,
	// it is [Version13].
	Version string

	// Types holds the schemas, in draft-07, of types whose form cannot be found by reflection:
	// types with their own MarshalJSON, which otherwise get a schema that allows anything, and
	// strings with a fixed set of values.
	Types map[reflect.Type]*jsonschema.Schema

	mux *jsonrpc.Mux

	mu     sync.Mutex // guards the fields below
	docs   map[string]Doc
	cached *Document
	text   jsonrpc.Raw
	count  int // methods of mux when cached was made
}

// Doc describes what the type of a method cannot express. The zero value adds nothing.
type Doc struct {
	Summary      string // one line
	Description  string // GitHub Flavored Markdown
	Tags         []string
	Deprecated   bool
	Examples     []ExamplePairing // see [Pair]
	Errors       []*jsonrpc.Error // each code once
	Links        []Link
	Servers      []Server
	ExternalDocs *ExternalDocs
	Extra        Extensions // members "x-…"

	// Notification marks a method that is only for notifications, so that its description has no
	// result.
	Notification bool

	// Function is the typed handler if middleware hides it. If nil, the handler in the Mux is used.
	Function *jsonrpc.Function

	// Params is merged over the parameters derived from the type, by position; empty members change
	// nothing. A handler without a type is described by these alone. Use it to name unnamed
	// parameters: the values of a variadic method.
	Params []ContentDescriptor

	// Result is merged over the result in the same way.
	Result *ContentDescriptor

	// ParamStructure replaces the derived one: [Either], [ByName] or [ByPosition].
	ParamStructure string
}

// New returns a Discovery of the methods of mux, including those added later.
func New(mux *jsonrpc.Mux, info Info) *Discovery {
	return &Discovery{Info: info, mux: mux, docs: make(map[string]Doc)}
}

// Describe sets the doc of method and replaces an earlier one. The method may be added to the Mux
// later.
func (d *Discovery) Describe(method string, doc Doc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.docs[method] = doc
	d.cached = nil
}

// Register adds "rpc.discover" to the Mux. It panics if the Mux already has it.
func (d *Discovery) Register() {
	d.mux.AddReserved(MethodDiscover, jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		return d.JSON()
	}))
}

// Document returns the document. It contains the methods in the order in which they were added,
// except those of JSON-RPC itself ("rpc."). It is built on the first request and rebuilt after
// methods were added. It is shared: do not change it.
func (d *Discovery) Document() (*Document, error) {
	doc, _, err := d.current()
	return doc, err
}

// JSON returns the text of the document, for a file or a page. It is shared: do not change it.
func (d *Discovery) JSON() (jsonrpc.Raw, error) {
	_, text, err := d.current()
	return text, err
}

// current builds the document if the cached one is not current. A Mux only grows, so comparing the
// number of methods is sufficient.
func (d *Discovery) current() (*Document, jsonrpc.Raw, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := 0
	for range d.mux.All() {
		count++
	}
	if d.cached != nil && d.count == count {
		return d.cached, d.text, nil
	}
	doc, err := d.buildLocked()
	if err != nil {
		return nil, nil, err
	}
	text, err := rawOf(doc)
	if err != nil {
		return nil, nil, err
	}
	d.cached, d.text, d.count = doc, text, count
	return doc, text, nil
}

func (d *Discovery) buildLocked() (*Document, error) {
	doc := &Document{
		OpenRPC: d.Version, Info: d.Info, Servers: d.Servers, ExternalDocs: d.ExternalDocs, Extra: d.Extra,
		Methods: []Method{},
	}
	if doc.OpenRPC == "" {
		doc.OpenRPC = Version13
	}
	schemas, err := newSchemas(d.Types)
	if err != nil {
		return nil, err
	}
	for name, h := range d.mux.All() {
		if strings.HasPrefix(name, "rpc.") {
			continue
		}
		doc.Methods = append(doc.Methods, method(name, h, d.docs[name], schemas))
	}
	if components := schemas.Components(); len(components) > 0 {
		doc.Components = &Components{Schemas: components}
	}
	return doc, nil
}

// method combines the description derived from the type of h with doc.
func method(name string, h jsonrpc.Handler, doc Doc, schemas *schemas) Method {
	m := Method{
		Name: name, Summary: doc.Summary, Description: doc.Description, Deprecated: doc.Deprecated, Links: doc.Links,
		Servers: doc.Servers, ExternalDocs: doc.ExternalDocs, Extra: doc.Extra,
	}
	for _, t := range doc.Tags {
		m.Tags = append(m.Tags, Tag{Name: t})
	}
	for _, e := range doc.Errors {
		m.Errors = append(m.Errors, ErrorObject{Code: e.Code, Message: e.Message, Data: e.Data})
	}
	f := doc.Function
	if f == nil {
		f, _ = h.(*jsonrpc.Function)
	}
	if f == nil && doc.Params != nil {
		m.ParamStructure = Either
	} else {
		m.Params, m.ParamStructure = params(f, schemas)
	}
	m.Params = overlay(m.Params, doc.Params)
	if doc.ParamStructure != "" {
		m.ParamStructure = doc.ParamStructure
	}
	if !doc.Notification {
		m.Result = result(f, doc.Result, schemas)
	}
	for _, p := range doc.Examples {
		m.Examples = append(m.Examples, named(p, m.Params))
	}
	return m
}

// params describes the parameters of f, as documented for [jsonrpc.Func].
func params(f *jsonrpc.Function, schemas *schemas) ([]ContentDescriptor, string) {
	if f == nil {
		return variadic("params", anything, Either)
	}
	in := f.In
	if fields := f.Fields(); fields != nil {
		for in.Kind() == reflect.Pointer {
			in = in.Elem()
		}
		return fieldParams(in, fields, schemas)
	}
	required := true
	if in.Kind() == reflect.Pointer { // optional as a whole
		in, required = in.Elem(), false
	}
	switch {
	case readsItself(in):
	case reflect.PointerTo(in).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return positions(in, 1, required, schemas)
	case in.Kind() == reflect.Struct && f.In == in:
		return []ContentDescriptor{}, Either // no fields, no params
	case in.Kind() == reflect.Slice:
		return variadic("values", schemas.of(in.Elem()), ByPosition)
	case in.Kind() == reflect.Array:
		return positions(in.Elem(), in.Len(), required, schemas)
	case in.Kind() == reflect.Map:
		return variadic("members", schemas.of(in.Elem()), ByName)
	case in.Kind() != reflect.Interface && in.Kind() != reflect.Struct && in.Kind() != reflect.Pointer:
		return positions(in, 1, required, schemas)
	}
	return variadic("params", anything, Either)
}

// readsItself reports whether t decodes its params with its own method.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t == reflect.TypeFor[jsonrpc.Raw]() || p.Implements(reflect.TypeFor[jsonrpc.Parser]()) || p.Implements(reflect.TypeFor[json.Unmarshaler]())
}

// fieldParams describes the fields of a struct. Required parameters come first, as the
// specification requires (Method Object, params). If the fields have another order, positions in
// the document differ from those on the wire, and the method is described by name.
func fieldParams(in reflect.Type, fields []jsonrpc.Field, schemas *schemas) ([]ContentDescriptor, string) {
	list := make([]ContentDescriptor, 0, len(fields))
	for _, field := range fields {
		list = append(list, ContentDescriptor{
			Name: field.Name, Description: field.Doc, Required: field.Required, Schema: schemas.ofField(in.FieldByIndex(field.Index)),
		})
	}
	order := func(a, b ContentDescriptor) int {
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	}
	if slices.IsSortedFunc(list, order) {
		return list, Either
	}
	slices.SortStableFunc(list, order)
	return list, ByName
}

// maxPositions bounds how many positions are described one by one.
const maxPositions = 32

// positions describes n parameters of one type that have no names on the wire.
func positions(t reflect.Type, n int, required bool, schemas *schemas) ([]ContentDescriptor, string) {
	schema := schemas.of(t)
	if n > maxPositions {
		return variadic("values", schema, ByPosition)
	}
	list := make([]ContentDescriptor, n)
	for i := range list {
		list[i] = ContentDescriptor{Name: "value", Required: required, Schema: schema}
		if n > 1 {
			list[i].Name = "value" + strconv.Itoa(i+1)
		}
	}
	return list, ByPosition
}

// variadic describes any number of values, or of members with any name, that have one schema.
func variadic(name string, schema jsonrpc.Raw, structure string) ([]ContentDescriptor, string) {
	return []ContentDescriptor{{Name: name, Schema: schema, Extra: Extensions{Variadic: jsonrpc.Raw("true")}}}, structure
}

func result(f *jsonrpc.Function, over *ContentDescriptor, schemas *schemas) *ContentDescriptor {
	r := ContentDescriptor{Name: "result", Schema: anything}
	if f != nil && (schemas.Types[f.Out] != nil || !f.Out.Implements(reflect.TypeFor[jsonrpc.Appender]())) {
		r.Schema = schemas.of(f.Out) // an Appender may write anything
	}
	if over != nil {
		r = overlay([]ContentDescriptor{r}, []ContentDescriptor{*over})[0]
	}
	return &r
}

// overlay merges descriptors over others. Empty members of over change nothing.
func overlay(under, over []ContentDescriptor) []ContentDescriptor {
	for i, o := range over {
		if i >= len(under) {
			if o.Schema == nil && o.Ref == "" {
				o.Schema = anything
			}
			under = append(under, o)
			continue
		}
		u := &under[i]
		u.Ref = o.Ref
		u.Name = cmp.Or(o.Name, u.Name)
		u.Summary = cmp.Or(o.Summary, u.Summary)
		u.Description = cmp.Or(o.Description, u.Description)
		u.Required = u.Required || o.Required
		u.Deprecated = u.Deprecated || o.Deprecated
		if o.Schema != nil {
			u.Schema = o.Schema
		}
		if o.Extra != nil {
			extra := maps.Clone(u.Extra)
			if extra == nil {
				extra = make(Extensions)
			}
			maps.Copy(extra, o.Extra)
			u.Extra = extra
		}
	}
	return under
}

// Pair returns an example: params by their position in the document, and their result. Values are
// encoded with the codec; a [jsonrpc.Raw] is used unchanged. Pair panics if a value cannot be
// encoded, like regexp.MustCompile.
func Pair(name string, params []any, result any) ExamplePairing {
	p := ExamplePairing{Name: name, Params: []Example{}}
	for _, v := range params {
		p.Params = append(p.Params, Example{Value: mustRaw(v)})
	}
	p.Result = &Example{Name: "result", Value: mustRaw(result)}
	return p
}

func mustRaw(v any) jsonrpc.Raw {
	text, err := rawOf(v)
	if err != nil {
		panic(err)
	}
	return text
}

// named adds the parameter names to unnamed params of an example, because the member is required.
func named(p ExamplePairing, params []ContentDescriptor) ExamplePairing {
	p.Params = slices.Clone(p.Params)
	for i := range p.Params {
		if p.Params[i].Name != "" || p.Params[i].Ref != "" {
			continue
		}
		p.Params[i].Name = "params"
		if len(params) > 0 {
			p.Params[i].Name = params[min(i, len(params)-1)].Name
		}
	}
	return p
}
