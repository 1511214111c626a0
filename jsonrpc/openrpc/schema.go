package openrpc

import (
	stdjson "encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

// The schemas are draft-07 (OpenRPC 1.3.2, Schema Object), so that a $ref has no siblings: draft-07
// ignores them.

const schemaPrefix = "#/components/schemas/"

// anything is the schema that allows every value.
var anything = jsonrpc.Raw("true")

// schemas creates the JSON Schemas of Go types and collects the named ones.
type schemas struct{ schema.Generator }

func newSchemas(types map[reflect.Type]*jsonschema.Schema) (*schemas, error) {
	own := make(map[reflect.Type]jsonrpc.Raw, len(types))
	for t, s := range types {
		text, err := stdjson.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("openrpc: cannot encode the schema of %v: %w", t, err)
		}
		own[t] = text
	}
	return &schemas{schema.Generator{Prefix: schemaPrefix, Types: own}}, nil
}

// of returns the schema of t: a $ref if t is named and not a scalar.
func (s *schemas) of(t reflect.Type) jsonrpc.Raw {
	text, _ := s.Of(t) // a type without a JSON form has the schema false
	return text
}

// ofField returns the schema of the values of a field.
func (s *schemas) ofField(f reflect.StructField) jsonrpc.Raw {
	text, _ := s.Field(f) // as above
	return text
}
