package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/da1ed7bb/parley/config"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(config.Schema)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("parley.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("parley.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestGatewaySchema checks with an independent validator that the schema accepts what the reader
// accepts, and rejects each problem that a schema can describe.
func TestGatewaySchema(t *testing.T) {
	schema := compiledSchema(t)
	validate := func(text string) error {
		d, err := config.ParseDocument([]byte(text))
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(d.JSON)))
		if err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	for _, text := range []string{
		theExample, "servers: {}\ngateway: {}\n", "servers: {}\ngateway:\n",
		"servers: {a: {command: x, breaker: off, health: false}}\ngateway: {upstream: {breaker: false, health: off}, mcp: {search: off}, replicas: '${N:-1}', drain: '${D:-1s}', listen: ':0'}\n",
	} {
		if err := validate(text); err != nil {
			t.Errorf("the schema rejects %s: %v", text, err)
		}
	}
	for _, c := range gatewayProblems {
		if err := validate(c.file()); (err != nil) != c.shape {
			t.Errorf("%s: the schema's error is %v, want one: %t", c.name, err, c.shape)
		}
	}
}

// A place is an object of the schema, and how a file with this object is made.
type schemaPlace struct {
	path  string // as problems have it
	names []string
	of    map[string]any // the schemas of the members
	file  func(object map[string]any) map[string]any
}

// schemaPlaces returns all objects of the gateway's configuration in the schema.
func schemaPlaces(t *testing.T) (places []schemaPlace) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(config.Schema, &root); err != nil {
		t.Fatal(err)
	}
	defs := root["$defs"].(map[string]any)
	var walk func(schema map[string]any, path string, file func(any) map[string]any)
	walk = func(schema map[string]any, path string, file func(any) map[string]any) {
		if ref, ok := schema["$ref"].(string); ok {
			walk(defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), path, file)
		}
		for _, other := range asList(schema["anyOf"]) {
			walk(other, path, file)
		}
		if items, ok := schema["items"].(map[string]any); ok {
			walk(items, path+"[0]", func(v any) map[string]any { return file([]any{v}) })
		}
		if more, ok := schema["additionalProperties"].(map[string]any); ok {
			walk(more, path+".x", func(v any) map[string]any { return file(map[string]any{"x": v}) })
		}
		properties, ok := schema["properties"].(map[string]any)
		if !ok {
			return
		}
		places = append(places, schemaPlace{path, slices.Sorted(maps.Keys(properties)), properties, func(o map[string]any) map[string]any { return file(o) }})
		for name, p := range properties {
			walk(p.(map[string]any), path+"."+name, func(v any) map[string]any { return file(map[string]any{name: v}) })
		}
	}
	walk(defs["gateway"].(map[string]any), "gateway", func(v any) map[string]any {
		return map[string]any{"servers": map[string]any{}, "gateway": v}
	})
	walk(defs["server"].(map[string]any), "servers.n", func(v any) map[string]any {
		entry := map[string]any{"url": "http://127.0.0.1:1/mcp"}
		if o, ok := v.(map[string]any); ok {
			maps.Copy(entry, o)
		}
		return map[string]any{"servers": map[string]any{"n": entry}, "gateway": map[string]any{}}
	})
	return places
}

func asList(v any) (list []map[string]any) {
	items, _ := v.([]any)
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			list = append(list, o)
		}
	}
	return list
}

// TestSchemaHasAllMembers checks that the reader and the schema know the same members of each
// object, and that the reader checks the type of each.
func TestSchemaHasAllMembers(t *testing.T) {
	places := schemaPlaces(t)
	if len(places) < 25 {
		t.Fatalf("only %d objects", len(places))
	}
	all := make(map[string]bool)
	for _, p := range places {
		for _, name := range p.names {
			all[name] = true
		}
	}
	// The reader ignores the types of these in the files of other programs.
	loose := []string{"disabled", "framing", "protocol", "type", "title", "description", "url", "command", "args", "env", "envFile", "cwd", "headers"}
	for _, p := range places {
		for name := range all {
			known := slices.Contains(p.names, name)
			if known && p.path == "servers.n" && slices.Contains(loose, name) {
				continue
			}
			text, err := json.Marshal(p.file(map[string]any{name: map[string]any{"zz": []any{[]any{}}}}))
			if err != nil {
				t.Fatal(err)
			}
			f := config.Parse("p.yaml", text, gatewayWorld())
			path, unknown, wrong := p.path+"."+name, false, false
			for _, problem := range f.Problems {
				is := problem.Path == path && strings.HasPrefix(problem.Text, "unknown member")
				unknown = unknown || is
				wrong = wrong || !is && strings.HasPrefix(problem.Path, path)
			}
			if known && (unknown || !wrong) || !known && !unknown {
				t.Errorf("%s: known to the schema: %t, to the reader: %t; wrong type found: %t: %s", path, known, !unknown, wrong, problemsOf(f))
			}
		}
	}

	// Names that only the reader has.
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile(`(?s)(?:\.members\(|(?:upstream|gateway)Members = \[\]string\{)([^()}]*)[)}]`)
	count := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(source), -1) {
			for _, name := range regexp.MustCompile(`"([A-Za-z0-9]+)"`).FindAllStringSubmatch(m[1], -1) {
				count++
				if !all[name[1]] && file != "entry.go" && !slices.Contains([]string{"name", "sha256"}, name[1]) { // of the file of tokens
					t.Errorf("%s: the schema does not have %s", file, name[1])
				}
			}
		}
	}
	if count < 80 {
		t.Errorf("only %d names in the source", count)
	}
}

// TestSchemaHasTheBounds checks that the reader accepts the least and the greatest number that the
// schema permits, and rejects those beyond them.
func TestSchemaHasTheBounds(t *testing.T) {
	count := 0
	for _, p := range schemaPlaces(t) {
		for name, schema := range p.of {
			for _, number := range asList(schema.(map[string]any)["anyOf"]) {
				if number["type"] != "integer" {
					continue
				}
				count++
				low, high := number["minimum"].(float64), number["maximum"].(float64)
				for value, ok := range map[float64]bool{low: true, high: true, low - 1: false, high + 1: false} {
					text, err := json.Marshal(p.file(map[string]any{name: int(value)}))
					if err != nil {
						t.Fatal(err)
					}
					f := config.Parse("p.yaml", text, gatewayWorld())
					rejected := slices.ContainsFunc(f.Problems, func(problem config.Problem) bool {
						return problem.Path == p.path+"."+name && strings.Contains(problem.Text, "but must be from")
					})
					if rejected == ok {
						t.Errorf("%s.%s: %v is accepted: %t, want %t", p.path, name, value, !rejected, ok)
					}
				}
			}
		}
	}
	if count < 9 {
		t.Errorf("only %d numbers", count)
	}
}

// TestSchemaDescribesAllMembers checks that an editor can show what each member is for.
func TestSchemaDescribesAllMembers(t *testing.T) {
	var missing []string
	var walk func(v any, path string)
	walk = func(v any, path string) {
		o, ok := v.(map[string]any)
		if !ok {
			return
		}
		properties, _ := o["properties"].(map[string]any)
		for name, p := range properties {
			p := p.(map[string]any)
			if _, ok := p["description"]; !ok && !slices.Contains([]string{"$schema", "servers", "mcpServers", "context_servers", "mcp", "mcp_servers", "agent_servers", "gateway", "disabled", "allow", "deny"}, name) {
				missing = append(missing, path+"."+name)
			}
		}
		for name, child := range o {
			walk(child, path+"."+name)
		}
	}
	var root any
	if err := json.Unmarshal(config.Schema, &root); err != nil {
		t.Fatal(err)
	}
	walk(root, "")
	if len(missing) > 0 {
		t.Error(fmt.Sprint("no description: ", missing))
	}
}
