package openrpc

import (
	"cmp"
	"context"
	"fmt"
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

// A Discovery describes the methods of a [jsonrpc.Mux]. Its fields are set before the first request for the document and
// not changed after; its methods are safe for concurrent use.
type Discovery struct {
	Info         Info
	Servers      []Server
	ExternalDocs *ExternalDocs
	Extra        Extensions // members "x-…" of the document

	// Version of OpenRPC to name in the document. Empty means [Version13]; the other choice is [Version14].
	Version string

	// Types gives the schemas of types whose form no reflection finds: those with a MarshalJSON of their own, which are
	// "anything" otherwise, or strings that are one of a few. Draft-07.
	Types map[reflect.Type]*jsonschema.Schema

	mux *jsonrpc.Mux

	mu     sync.Mutex // guards all below
	docs   map[string]Doc
	cached *Document
	text   jsonrpc.Raw
	count  int // methods of mux when cached was made
}

// Doc is what the type of a method cannot tell. The zero value says nothing.
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

	// Notification: the method is only for notifications, so that its document has no result.
	Notification bool

	// Function is the typed handler behind middleware, which hides it. Nil: the handler in the Mux.
	Function *jsonrpc.Function

	// Params are laid over the parameters that follow from the type, by position; members left empty stay as they are.
	// A handler without a type is described by these alone. Use it to name what has no name: the values of a variadic method.
	Params []ContentDescriptor

	// Result is laid over the result in the same way.
	Result *ContentDescriptor

	// ParamStructure replaces the one that follows from the type: [Either], [ByName] or [ByPosition].
	ParamStructure string
}

// New returns a Discovery of the methods that mux has and will have.
func New(mux *jsonrpc.Mux, info Info) *Discovery {
	return &Discovery{Info: info, mux: mux, docs: make(map[string]Doc)}
}

// Describe adds doc to method, in place of an earlier one. The method may be added to the Mux later; until then its doc waits.
func (d *Discovery) Describe(method string, doc Doc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.docs[method] = doc
	d.cached = nil
}

// Register adds "rpc.discover" to the Mux. It panics if the Mux has it already.
func (d *Discovery) Register() {
	d.mux.AddReserved(MethodDiscover, jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (any, error) {
		return d.JSON()
	}))
}

// Document returns the document: the methods in the order they were added, without those of JSON-RPC itself ("rpc."). It is
// made at the first request and made again when methods were added since. It is shared: do not change it.
func (d *Discovery) Document() (*Document, error) {
	doc, _, err := d.current()
	return doc, err
}

// JSON returns the text of the document, for a file or a page. It is shared: do not change it.
func (d *Discovery) JSON() (jsonrpc.Raw, error) {
	_, text, err := d.current()
	return text, err
}

// current makes the document if there is none for the methods of now. A Mux only grows, so their number tells.
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
	schemas := newSchemas(d.Types)
	for name, h := range d.mux.All() {
		if strings.HasPrefix(name, "rpc.") {
			continue
		}
		m, err := method(name, h, d.docs[name], schemas)
		if err != nil {
			return nil, fmt.Errorf("openrpc: method %q: %w", name, err)
		}
		doc.Methods = append(doc.Methods, m)
	}
	components, err := schemas.components()
	if err != nil {
		return nil, err
	}
	if len(components) > 0 {
		doc.Components = &Components{Schemas: components}
	}
	return doc, nil
}

// method joins what the type of h tells with doc.
func method(name string, h jsonrpc.Handler, doc Doc, schemas *schemas) (Method, error) {
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
	var err error
	if f == nil && doc.Params != nil {
		m.ParamStructure = Either
	} else if m.Params, m.ParamStructure, err = params(f, schemas); err != nil {
		return m, err
	}
	m.Params = overlay(m.Params, doc.Params)
	if doc.ParamStructure != "" {
		m.ParamStructure = doc.ParamStructure
	}
	if !doc.Notification {
		if m.Result, err = result(f, doc.Result, schemas); err != nil {
			return m, err
		}
	}
	for _, p := range doc.Examples {
		m.Examples = append(m.Examples, named(p, m.Params))
	}
	return m, nil
}

// params describes what f takes, as [jsonrpc.Func] explains it.
func params(f *jsonrpc.Function, schemas *schemas) ([]ContentDescriptor, string, error) {
	if f == nil {
		return variadic("params", &jsonschema.Schema{}, Either)
	}
	in := f.In
	if fields := f.Fields(); fields != nil {
		return fieldParams(elem(in), fields, schemas)
	}
	required := true
	if in.Kind() == reflect.Pointer { // optional as a whole
		in, required = in.Elem(), false
	}
	switch {
	case readsItself(in):
	case implements(in, fromText):
		return positions(in, 1, required, schemas)
	case in.Kind() == reflect.Struct && f.In == in:
		return []ContentDescriptor{}, Either, nil // no fields, no params
	case in.Kind() == reflect.Slice:
		return variadic("values", schemas.of(in.Elem()), ByPosition)
	case in.Kind() == reflect.Array:
		return positions(in.Elem(), in.Len(), required, schemas)
	case in.Kind() == reflect.Map:
		return variadic("members", schemas.of(in.Elem()), ByName)
	case in.Kind() != reflect.Interface && in.Kind() != reflect.Struct && in.Kind() != reflect.Pointer:
		return positions(in, 1, required, schemas)
	}
	return variadic("params", &jsonschema.Schema{}, Either)
}

// readsItself reports whether only t knows which params it takes.
func readsItself(t reflect.Type) bool {
	return t == reflect.TypeFor[jsonrpc.Raw]() || implements(t, []reflect.Type{reflect.TypeFor[jsonrpc.Parser](), reflect.TypeFor[json.Unmarshaler]()})
}

// fieldParams describes the fields of a struct. Required parameters come first, as the specification wants it (Method Object,
// params); if the fields stand otherwise, positions in the document are not those of the wire, and the method is described by
// name.
func fieldParams(in reflect.Type, fields []jsonrpc.Field, schemas *schemas) ([]ContentDescriptor, string, error) {
	list := make([]ContentDescriptor, 0, len(fields))
	for _, field := range fields {
		text, err := schemaText(schemas.member(field.Type, quoted(in, field.Index)))
		if err != nil {
			return nil, "", err
		}
		list = append(list, ContentDescriptor{
			Name: field.Name, Description: field.Doc, Required: field.Required, Schema: text,
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
		return list, Either, nil
	}
	slices.SortStableFunc(list, order)
	return list, ByName, nil
}

// maxPositions is how many positions are described one by one.
const maxPositions = 32

// positions describes n parameters of one type that have no names on the wire.
func positions(t reflect.Type, n int, required bool, schemas *schemas) ([]ContentDescriptor, string, error) {
	schema := schemas.of(t)
	if n > maxPositions {
		return variadic("values", schema, ByPosition)
	}
	text, err := schemaText(schema)
	if err != nil {
		return nil, "", err
	}
	list := make([]ContentDescriptor, n)
	for i := range list {
		list[i] = ContentDescriptor{Name: "value", Required: required, Schema: text}
		if n > 1 {
			list[i].Name = "value" + strconv.Itoa(i+1)
		}
	}
	return list, ByPosition, nil
}

// variadic describes any number of values, or of members with any name, that have one schema.
func variadic(name string, schema *jsonschema.Schema, structure string) ([]ContentDescriptor, string, error) {
	text, err := schemaText(schema)
	if err != nil {
		return nil, "", err
	}
	return []ContentDescriptor{{Name: name, Schema: text, Extra: Extensions{Variadic: jsonrpc.Raw("true")}}}, structure, nil
}

// quoted reports whether the tag of a field asks for numbers as strings.
func quoted(in reflect.Type, index []int) bool {
	_, options, _ := strings.Cut(in.FieldByIndex(index).Tag.Get("json"), ",")
	return has(options, "string")
}

func result(f *jsonrpc.Function, over *ContentDescriptor, schemas *schemas) (*ContentDescriptor, error) {
	schema := &jsonschema.Schema{}
	if f != nil && (schemas.types[f.Out] != nil || !f.Out.Implements(reflect.TypeFor[jsonrpc.Appender]())) {
		schema = schemas.of(f.Out) // an Appender may write anything
	}
	text, err := schemaText(schema)
	if err != nil {
		return nil, err
	}
	r := ContentDescriptor{Name: "result", Schema: text}
	if over != nil {
		r = overlay([]ContentDescriptor{r}, []ContentDescriptor{*over})[0]
	}
	return &r, nil
}

// overlay lays descriptors over others. What over leaves empty stays.
func overlay(under, over []ContentDescriptor) []ContentDescriptor {
	for i, o := range over {
		if i >= len(under) {
			if o.Schema == nil && o.Ref == "" {
				o.Schema = jsonrpc.Raw("true")
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

// Pair makes an example: params by their position in the document, and the result they give. Encoding follows the
// codec; a [jsonrpc.Raw] is taken as it is. It panics if a value cannot be encoded, as regexp.MustCompile does.
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

// named gives the params of an example the names of the parameters, where they have none: the member is required.
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
