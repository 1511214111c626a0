package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// A schema is one that was read, checked and made ready to hold values against. References leave it for no network
// (MCP 2026-07-28, Tools).
type schema struct {
	resolved *jsonschema.Resolved
	isObject bool // type is object
	open     bool // lets everything pass
}

// A schemaCache keeps what was compiled: many tools have the same schema, and a form comes again with each answer to it.
type schemaCache struct {
	mu   sync.Mutex // guards what follows
	seen map[string]*schema
}

// maxSchemas bounds the cache.
const maxSchemas = 1000

func (c *schemaCache) compile(text jsonrpc.Raw) (*schema, error) {
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
	if c.seen == nil || len(c.seen) >= maxSchemas {
		c.seen = map[string]*schema{}
	}
	c.seen[string(text)] = made
	return made, nil
}

// What a schema may cost.
const (
	maxSchemaBytes = 256 << 10
	maxSchemaDepth = 64
	maxSchemaParts = 5000
	maxSchemaCost  = 5000 // schemas applied to one and the same value
)

// dialects are those that can be validated; any other gets a clear error.
var dialects = map[string]bool{
	"": true, "https://json-schema.org/draft/2020-12/schema": true, "https://json-schema.org/draft/2020-12/schema#": true,
	"http://json-schema.org/draft-07/schema#": true, "http://json-schema.org/draft-07/schema": true,
}

func compileSchema(text jsonrpc.Raw) (*schema, error) {
	if len(text) > maxSchemaBytes {
		return nil, fmt.Errorf("schema of %d bytes, over %d", len(text), maxSchemaBytes)
	}
	text, err := jsonrpc.ParseRaw(text)
	if err != nil {
		return nil, err
	}
	if string(text) == "true" || string(text) == "{}" {
		return &schema{open: true}, nil
	}
	if !isObject(text) {
		return nil, errors.New("a schema is an object")
	}
	if dialect, _ := textOf(member(text, "$schema")); !dialects[dialect] {
		return nil, fmt.Errorf("unsupported dialect %.100q", dialect)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	if err := checkTree(tree); err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if s.Schema == "https://json-schema.org/draft/2020-12/schema#" || s.Schema == "http://json-schema.org/draft-07/schema" {
		s.Schema = strings.TrimSuffix(s.Schema, "#")
		if strings.Contains(s.Schema, "draft-07") {
			s.Schema += "#"
		}
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		return nil, err
	}
	kind, _ := textOf(member(text, "type"))
	return &schema{resolved: resolved, isObject: kind == "object"}, nil
}

// validate holds a value against the schema.
func (s *schema) validate(text jsonrpc.Raw) (err error) {
	if s.open {
		return nil
	}
	value, err := valueOf(text)
	if err != nil {
		return err
	}
	return s.resolved.Validate(value)
}

// valueOf decodes a value. Integers keep all their digits as long as they fit into 64 bits: a number as text would count as a string
// for the validator, and one with a large exponent would cost it a large computation.
func valueOf(text jsonrpc.Raw) (any, error) {
	if !isStrict(text) {
		return nil, errors.New("a member comes twice")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	return numbers(value), nil
}

func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = numbers(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = numbers(inner)
		}
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64) // past its range it is infinite, which no bound lets pass
		return f
	}
	return value
}

// checkTree bounds a schema and refuses one that refers to itself without going into the value: to validate by it would never end.
func checkTree(root any) error {
	parts := 0
	var size func(node any, depth int) error
	anchors := map[string]any{}
	size = func(node any, depth int) error {
		if parts++; parts > maxSchemaParts || depth > maxSchemaDepth {
			return errors.New("schema is too large or too deep")
		}
		switch node := node.(type) {
		case map[string]any:
			for key, sub := range node {
				if name, ok := sub.(string); ok && (key == "$anchor" || key == "$dynamicAnchor") {
					anchors["#"+name] = node
				}
				if err := size(sub, depth+1); err != nil {
					return err
				}
			}
		case []any:
			for _, sub := range node {
				if err := size(sub, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := size(root, 0); err != nil {
		return err
	}

	// What is applied to the same value: a loop along these is one without end, and references that fan out multiply.
	const entered = -1
	costs := map[string]int{}
	var enter func(node any, at string) (cost int, err error)
	enter = func(node any, at string) (cost int, err error) {
		m, ok := node.(map[string]any)
		if !ok {
			return 1, nil
		}
		if known, ok := costs[at]; ok {
			if known == entered {
				return 0, errors.New("schema refers to itself without end")
			}
			return known, nil
		}
		costs[at] = entered
		cost = 1
		add := func(node any, at string) {
			if err != nil {
				return
			}
			var more int
			if more, err = enter(node, at); err == nil {
				if cost += more; cost > maxSchemaCost {
					err = errors.New("schema applies too much to one value")
				}
			}
		}
		for _, key := range []string{"$ref", "$dynamicRef"} {
			if ref, ok := m[key].(string); ok {
				if !strings.HasPrefix(ref, "#") {
					return 0, fmt.Errorf("reference %.100q leaves the schema", ref)
				}
				target := pointed(root, ref)
				if named, ok := anchors[ref]; ok {
					target = named
				}
				add(target, ref)
			}
		}
		for _, key := range []string{"not", "if", "then", "else"} {
			add(m[key], at+"/"+key)
		}
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			list, _ := m[key].([]any)
			for i, sub := range list {
				add(sub, fmt.Sprintf("%s/%s/%d", at, key, i))
			}
		}
		if deps, ok := m["dependentSchemas"].(map[string]any); ok {
			for name, sub := range deps {
				add(sub, at+"/dependentSchemas/"+name)
			}
		}
		if err != nil {
			return 0, err
		}
		costs[at] = cost
		return cost, nil
	}
	return subschemas(root, "#", func(node map[string]any, at string) error {
		if err := checkType(node["type"]); err != nil {
			return err
		}
		_, err := enter(node, at)
		return err
	})
}

// subschemas visits a schema and all schemas in it.
func subschemas(node any, at string, visit func(node map[string]any, at string) error) error {
	m, ok := node.(map[string]any)
	if !ok {
		if _, ok := node.(bool); ok {
			return nil
		}
		return fmt.Errorf("%s is no schema", at)
	}
	if err := visit(m, at); err != nil {
		return err
	}
	for key, value := range m {
		below := at + "/" + key
		switch key {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			named, ok := value.(map[string]any)
			if !ok {
				return fmt.Errorf("%s is no object", below)
			}
			for name, sub := range named {
				if err := subschemas(sub, below+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), visit); err != nil {
					return err
				}
			}
		case "allOf", "anyOf", "oneOf", "prefixItems", "items":
			list, ok := value.([]any)
			if !ok && key != "items" {
				return fmt.Errorf("%s is no array", below)
			}
			if !ok {
				list = []any{value}
			}
			for i, sub := range list {
				place := fmt.Sprintf("%s/%d", below, i)
				if !ok {
					place = below
				}
				if err := subschemas(sub, place, visit); err != nil {
					return err
				}
			}
		case "additionalProperties", "additionalItems", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems",
			"unevaluatedProperties", "contentSchema":
			if err := subschemas(value, below, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkType holds the keyword type to the names that there are.
func checkType(value any) error {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, one := range list {
		switch one {
		case nil, "null", "boolean", "object", "array", "number", "integer", "string":
		default:
			return fmt.Errorf("there is no type %v", one)
		}
	}
	return nil
}

// pointed follows a JSON pointer in a fragment (RFC 6901, section 6).
func pointed(root any, ref string) any {
	node := root
	rest := strings.TrimPrefix(ref, "#")
	if rest == "" {
		return root
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(rest, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch n := node.(type) {
		case map[string]any:
			node = n[part]
		case []any:
			var i int
			if _, err := fmt.Sscanf(part, "%d", &i); err != nil || i < 0 || i >= len(n) {
				return nil
			}
			node = n[i]
		default:
			return nil
		}
	}
	return node
}
