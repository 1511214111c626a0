package openrpc

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// The types of the document encode and decode themselves, so that every codec, including
// encoding/json, preserves the extensions among the members. Maps are written in key order, so a
// document has exactly one text.

func encode(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) }
func decode(b []byte, v any) error { return json.Unmarshal(b, v) }

// reference is a Reference Object: only a pointer (OpenRPC 1.3.2, Reference Object).
type reference struct {
	Ref string `json:"$ref"`
}

// rawOf encodes a value with the codec of the engine, like a result.
func rawOf(v any) (jsonrpc.Raw, error) {
	text, err := jsonrpc.AppendResult(nil, jsonrpc.Version2, jsonrpc.NullID, v)
	if err != nil {
		return nil, fmt.Errorf("openrpc: %w", err)
	}
	var raw jsonrpc.Raw
	bad := jsonrpc.Scan(text, func(m *jsonrpc.Message) {
		if raw = m.Result; m.Bad != nil {
			err = m.Bad
		}
	})
	if bad != nil {
		err = bad
	}
	if err != nil {
		return nil, fmt.Errorf("openrpc: a value does not marshal to JSON: %w", err)
	}
	return raw, nil
}

func (d Document) MarshalJSON() ([]byte, error) {
	type plain Document
	return encode(plain(d))
}

func (d *Document) UnmarshalJSON(b []byte) error {
	type plain Document
	return decode(b, (*plain)(d))
}

func (i Info) MarshalJSON() ([]byte, error) {
	type plain Info
	return encode(plain(i))
}

func (i *Info) UnmarshalJSON(b []byte) error {
	type plain Info
	return decode(b, (*plain)(i))
}

func (c Contact) MarshalJSON() ([]byte, error) {
	type plain Contact
	return encode(plain(c))
}

func (c *Contact) UnmarshalJSON(b []byte) error {
	type plain Contact
	return decode(b, (*plain)(c))
}

func (l License) MarshalJSON() ([]byte, error) {
	type plain License
	return encode(plain(l))
}

func (l *License) UnmarshalJSON(b []byte) error {
	type plain License
	return decode(b, (*plain)(l))
}

func (s Server) MarshalJSON() ([]byte, error) {
	type plain Server
	return encode(plain(s))
}

func (s *Server) UnmarshalJSON(b []byte) error {
	type plain Server
	return decode(b, (*plain)(s))
}

func (v ServerVariable) MarshalJSON() ([]byte, error) {
	type plain ServerVariable
	return encode(plain(v))
}

func (v *ServerVariable) UnmarshalJSON(b []byte) error {
	type plain ServerVariable
	return decode(b, (*plain)(v))
}

func (e ExternalDocs) MarshalJSON() ([]byte, error) {
	type plain ExternalDocs
	return encode(plain(e))
}

func (e *ExternalDocs) UnmarshalJSON(b []byte) error {
	type plain ExternalDocs
	return decode(b, (*plain)(e))
}

func (m Method) MarshalJSON() ([]byte, error) {
	if m.Ref != "" {
		return encode(reference{m.Ref})
	}
	if m.Params == nil {
		m.Params = []ContentDescriptor{} // the member is required
	}
	type plain Method
	return encode(plain(m))
}

func (m *Method) UnmarshalJSON(b []byte) error {
	type plain Method
	return decode(b, (*plain)(m))
}

func (c ContentDescriptor) MarshalJSON() ([]byte, error) {
	if c.Ref != "" {
		return encode(reference{c.Ref})
	}
	type plain ContentDescriptor
	return encode(plain(c))
}

func (c *ContentDescriptor) UnmarshalJSON(b []byte) error {
	type plain ContentDescriptor
	return decode(b, (*plain)(c))
}

func (e ErrorObject) MarshalJSON() ([]byte, error) {
	if e.Ref != "" {
		return encode(reference{e.Ref})
	}
	type plain ErrorObject
	return encode(plain(e))
}

func (e *ErrorObject) UnmarshalJSON(b []byte) error {
	type plain ErrorObject
	return decode(b, (*plain)(e))
}

func (p ExamplePairing) MarshalJSON() ([]byte, error) {
	if p.Ref != "" {
		return encode(reference{p.Ref})
	}
	if p.Params == nil {
		p.Params = []Example{} // required since 1.3.2
	}
	type plain ExamplePairing
	return encode(plain(p))
}

func (p *ExamplePairing) UnmarshalJSON(b []byte) error {
	type plain ExamplePairing
	return decode(b, (*plain)(p))
}

func (e Example) MarshalJSON() ([]byte, error) {
	if e.Ref != "" {
		return encode(reference{e.Ref})
	}
	type plain Example
	return encode(plain(e))
}

func (e *Example) UnmarshalJSON(b []byte) error {
	type plain Example
	return decode(b, (*plain)(e))
}

func (l Link) MarshalJSON() ([]byte, error) {
	if l.Ref != "" {
		return encode(reference{l.Ref})
	}
	type plain Link
	return encode(plain(l))
}

func (l *Link) UnmarshalJSON(b []byte) error {
	type plain Link
	return decode(b, (*plain)(l))
}

func (t Tag) MarshalJSON() ([]byte, error) {
	if t.Ref != "" {
		return encode(reference{t.Ref})
	}
	type plain Tag
	return encode(plain(t))
}

func (t *Tag) UnmarshalJSON(b []byte) error {
	type plain Tag
	return decode(b, (*plain)(t))
}

func (c Components) MarshalJSON() ([]byte, error) {
	type plain Components
	return encode(plain(c))
}

func (c *Components) UnmarshalJSON(b []byte) error {
	type plain Components
	return decode(b, (*plain)(c))
}
