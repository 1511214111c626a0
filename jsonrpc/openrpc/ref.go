package openrpc

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// ErrReference reports a reference that leads outside of the document, to nothing, or back to
// itself.
var ErrReference = errors.New("openrpc: unusable reference")

// maxHops bounds a chain of references.
const maxHops = 32

// Resolve returns the value that ref refers to: "#" followed by a JSON Pointer (RFC 6901) in URI
// form, such as "#/components/schemas/User". If the value is itself a reference, it is followed, up
// to 32 times. References to other documents are never fetched; for these and for references to
// nothing the error is [ErrReference].
func (d *Document) Resolve(ref string) (jsonrpc.Raw, error) {
	for range maxHops {
		at, err := d.lookup(ref)
		if err != nil {
			return nil, err
		}
		next, ok := refIn(at)
		if !ok {
			return at, nil
		}
		ref = next
	}
	return nil, fmt.Errorf("%w: %.100q is a reference loop", ErrReference, ref)
}

// lookup follows one pointer. Schemas, by far the most frequent target, are found without encoding
// the document.
func (d *Document) lookup(ref string) (jsonrpc.Raw, error) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, fmt.Errorf("%w: %.100q is not in this document", ErrReference, ref)
	}
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, fmt.Errorf("%w: %.100q", ErrReference, ref)
	}
	if rest, ok := strings.CutPrefix(pointer, "/components/schemas/"); ok && d.Components != nil {
		name, rest, deeper := strings.Cut(rest, "/")
		if schema, ok := d.Components.Schemas[unescape(name)]; ok {
			if !deeper {
				return schema, nil
			}
			return walk(schema, "/"+rest, ref)
		}
	}
	text, err := rawOf(d)
	if err != nil {
		return nil, err
	}
	return walk(text, pointer, ref)
}

// walk follows a JSON Pointer through text.
func walk(text jsonrpc.Raw, pointer, ref string) (jsonrpc.Raw, error) {
	at := jsontext.Value(text)
	for pointer != "" {
		if pointer[0] != '/' {
			return nil, fmt.Errorf("%w: %.100q", ErrReference, ref)
		}
		token, rest, more := strings.Cut(pointer[1:], "/")
		pointer = ""
		if more {
			pointer = "/" + rest
		}
		next, ok := child(at, unescape(token))
		if !ok {
			return nil, fmt.Errorf("%w: %.100q does not exist", ErrReference, ref)
		}
		at = next
	}
	return jsonrpc.Raw(at), nil
}

// child returns the member or element called token.
func child(at jsontext.Value, token string) (jsontext.Value, bool) {
	switch at.Kind() {
	case '{':
		var object map[string]jsontext.Value
		if err := decode(at, &object); err != nil {
			return nil, false
		}
		v, ok := object[token]
		return v, ok
	case '[':
		var array []jsontext.Value
		i, err := strconv.Atoi(token)
		if err != nil || decode(at, &array) != nil || i < 0 || i >= len(array) {
			return nil, false
		}
		return array[i], true
	}
	return nil, false
}

// unescape decodes the escapes of a JSON Pointer (RFC 6901, section 4).
func unescape(token string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

// refIn returns the $ref of an object, if it has one.
func refIn(text jsonrpc.Raw) (string, bool) {
	var r struct {
		Ref *string `json:"$ref"`
	}
	if err := decode(text, &r); err != nil || r.Ref == nil {
		return "", false
	}
	return *r.Ref, true
}

// descriptor resolves a parameter or result that is a reference. An unresolvable one is named after
// its pointer.
func (d *Document) descriptor(c ContentDescriptor) ContentDescriptor {
	if c.Ref == "" {
		return c
	}
	text, err := d.Resolve(c.Ref)
	if err == nil {
		var resolved ContentDescriptor
		if decode(text, &resolved) == nil {
			return resolved
		}
	}
	return ContentDescriptor{Name: lastOf(c.Ref)}
}

// Params returns the parameters of m with references resolved. For an invalid reference only the
// name is set.
func (d *Document) Params(m *Method) []ContentDescriptor {
	list := make([]ContentDescriptor, len(m.Params))
	for i, p := range m.Params {
		list[i] = d.descriptor(p)
	}
	return list
}

// Result returns the result of m with references resolved, and false for a method that is only for
// notifications.
func (d *Document) Result(m *Method) (ContentDescriptor, bool) {
	if m.Result == nil {
		return ContentDescriptor{}, false
	}
	return d.descriptor(*m.Result), true
}

// lastOf returns the last part of a reference, which is its readable name.
func lastOf(ref string) string {
	if i := strings.LastIndexAny(ref, "/#"); i >= 0 {
		ref = ref[i+1:]
	}
	if name, err := url.PathUnescape(ref); err == nil {
		ref = name
	}
	return unescape(ref)
}
