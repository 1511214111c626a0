package mcp

import (
	"context"
	"errors"
	"sync"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/schema"
)

// A compiledSchema is a compiled JSON Schema. Its references are resolved within the schema (MCP
// 2026-07-28, Tools). The cost of a schema and of a validation is bounded; see docs/limits.md.
type compiledSchema struct {
	*schema.Schema
	open bool // every value is valid
}

// A schemaCache caches compiled schemas: many tools have the same schema, and a form is needed
// again for each answer to it.
type schemaCache struct {
	mu    sync.Mutex // guards the fields below
	seen  map[string]*compiledSchema
	bytes int // of their texts
}

// Bounds of the cache, which is cleared when they would be exceeded. A compiled schema takes about
// 20 times the memory of its text.
const (
	maxSchemas     = 1000
	maxSchemaBytes = 1 << 20
)

func (c *schemaCache) compile(text jsonrpc.Raw) (*compiledSchema, error) {
	c.mu.Lock()
	found := c.seen[string(text)]
	c.mu.Unlock()
	if found != nil {
		return found, nil
	}
	made, err := compileSchema(text)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil || len(c.seen) >= maxSchemas || c.bytes+len(text) > maxSchemaBytes {
		c.seen, c.bytes = map[string]*compiledSchema{}, 0
	}
	if c.seen[string(text)] == nil {
		c.bytes += len(text)
	}
	c.seen[string(text)] = made
	return made, nil
}

func compileSchema(text jsonrpc.Raw) (*compiledSchema, error) {
	text, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return nil, err
	}
	if string(text) == "true" || string(text) == "{}" {
		return &compiledSchema{open: true}, nil
	}
	if !isObject(text) {
		return nil, errors.New("a schema must be an object")
	}
	made, err := schema.Compile(text)
	if err != nil {
		return nil, err
	}
	return &compiledSchema{Schema: made}, nil
}

// isObject reports whether the schema describes only objects.
func (s *compiledSchema) isObject() bool { return !s.open && s.IsObject() }

// validate checks a value. It returns a [*schema.InvalidError] if the value does not fit, and
// another error if that could not be decided: the cause of ctx, or [schema.ErrTooCostly].
func (s *compiledSchema) validate(ctx context.Context, text jsonrpc.Raw) error {
	if s.open {
		return nil
	}
	if !isStrict(text) {
		return errors.New("duplicate member")
	}
	return s.Validate(ctx, text)
}
