package orchestrator

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("plan.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("plan.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, file string) error {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := yaml.YAMLToJSON(b)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// Valid plans match the schema, and plans of a wrong form do not.
func TestSchema(t *testing.T) {
	s := compileSchema(t)
	good, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../examples/plans/*.yaml")
	if err != nil || len(examples) < 3 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, file := range append(good, examples...) {
		if err := validate(t, s, file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, name := range []string{"unknown-key", "values", "two-kinds", "counts", "list", "nothing", "loop-without-bound"} {
		if err := validate(t, s, "testdata/bad/"+name+".yaml"); err == nil {
			t.Errorf("%s fits the schema", name)
		}
	}
}

// The schema has exactly the keys that the parser accepts, which its messages list.
func TestSchemaKeys(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	at := func(path ...string) []string {
		v := doc
		for _, p := range path {
			v = v.(map[string]any)[p]
		}
		return slices.Sorted(maps.Keys(v.(map[string]any)))
	}
	for _, c := range []struct {
		plan string
		keys []string
	}{
		{"x: 1", at("properties")},
		{"steps: [{x: 1}]", at("$defs", "step", "properties")},
		{"team: {a: {x: 1}}\nsteps: []", at("$defs", "member", "properties")},
	} {
		_, err := ParsePlan("", []byte(c.plan))
		listed := regexp.MustCompile(`unknown member; the members are (.*)`).FindStringSubmatch(err.Error())
		if listed == nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(listed[1], ", "), c.keys); d != "" {
			t.Errorf("-reader +schema\n%s", d)
		}
	}
}
