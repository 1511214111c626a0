package lens

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"os"
	"path"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "make the schemas again of the vendored ones")

type object = map[string]any

// vendored are the sources of the schemas. Their folders contain origin and checksum.
var vendored = map[string]struct {
	file    string
	methods func(defs object) map[string]*methodSchema
}{
	"mcp-2024-11-05": {"../../mcp/testdata/schema/2024-11-05.json", mcpMethods},
	"mcp-2025-03-26": {"../../mcp/testdata/schema/2025-03-26.json", mcpMethods},
	"mcp-2025-06-18": {"../../mcp/testdata/schema/2025-06-18.json", mcpMethods},
	"mcp-2025-11-25": {"../../mcp/testdata/schema/2025-11-25.json", mcpMethods},
	"mcp-2026-07-28": {"../../mcp/testdata/schema/2026-07-28.json", mcpMethods},
	"a2a-0.3":        {"../../a2a/testdata/schema/a2a-v0.3.schema.json", a2aMethods03},
	"a2a-1.0":        {"../../a2a/testdata/schema/a2a-v1.0.schema.json", a2aMethods},
	"acp-1":          {"../../editor/testdata/schema/v1.json", acpMethods},
}

func ref(name string) *part { return &part{Ref: name} }

// methodOf returns the constant of the member "method" of a definition.
func methodOf(def any) (string, object) {
	d, _ := def.(object)
	properties, _ := d["properties"].(object)
	method, _ := properties["method"].(object)
	name, _ := method["const"].(string)
	return name, properties
}

func mcpMethods(defs object) map[string]*methodSchema {
	out := map[string]*methodSchema{}
	for name, def := range defs {
		method, properties := methodOf(def)
		if method == "" {
			continue
		}
		m := &methodSchema{}
		if p, ok := properties["params"]; ok {
			m.Params = convert(p)
		}
		if base, isRequest := strings.CutSuffix(name, "Request"); isRequest {
			for _, result := range []string{base + "Result", "CreateTaskResult", "InputRequiredResult"} {
				if _, ok := defs[result]; ok && (len(m.Result) > 0 || result == base+"Result") {
					m.Result = append(m.Result, ref(result))
				}
			}
		}
		out[method] = m
	}
	return out
}

func a2aMethods03(defs object) map[string]*methodSchema {
	out := map[string]*methodSchema{}
	for name, def := range defs {
		method, properties := methodOf(def)
		if method == "" {
			continue
		}
		m := &methodSchema{}
		if p, ok := properties["params"]; ok {
			m.Params = convert(p)
		}
		base := strings.TrimSuffix(name, "Request")
		if base == "TaskResubscription" {
			base = "SendStreamingMessage"
		}
		if success, ok := defs[base+"SuccessResponse"].(object); ok {
			m.Result = []*part{convert(success["properties"].(object)["result"])}
		}
		out[method] = m
	}
	return out
}

func a2aMethods(object) map[string]*methodSchema {
	return map[string]*methodSchema{
		"SendMessage":          {ref("SendMessageRequest"), []*part{ref("SendMessageResponse")}},
		"SendStreamingMessage": {ref("SendMessageRequest"), []*part{ref("StreamResponse")}},
		"GetTask":              {ref("GetTaskRequest"), []*part{ref("Task")}},
		"ListTasks":            {ref("ListTasksRequest"), []*part{ref("ListTasksResponse")}},
		"CancelTask":           {ref("CancelTaskRequest"), []*part{ref("Task")}},
		"SubscribeToTask":      {ref("SubscribeToTaskRequest"), []*part{ref("StreamResponse")}},
		"GetExtendedAgentCard": {ref("GetExtendedAgentCardRequest"), []*part{ref("AgentCard")}},
	}
}

func acpMethods(defs object) map[string]*methodSchema {
	out := map[string]*methodSchema{}
	for name, def := range defs {
		method, _ := def.(object)["x-method"].(string)
		if method == "" {
			continue
		}
		m := out[method]
		if m == nil {
			m = &methodSchema{}
			out[method] = m
		}
		if strings.HasSuffix(name, "Response") {
			m.Result = []*part{ref(name)}
		} else {
			m.Params = ref(name)
		}
	}
	return out
}

// convert reduces a schema to the checked keywords.
func convert(v any) *part {
	d, ok := v.(object)
	if !ok {
		return &part{}
	}
	s := &part{Type: d["type"], Const: d["const"]}
	if r, ok := d["$ref"].(string); ok {
		s.Ref = defName(r)
	}
	s.Enum, _ = d["enum"].([]any)
	if list, ok := d["required"].([]any); ok {
		for _, name := range list {
			s.Required = append(s.Required, name.(string))
		}
	}
	if properties, ok := d["properties"].(object); ok {
		s.Properties = map[string]*part{}
		for name, p := range properties {
			s.Properties[name] = convert(p)
		}
	}
	if items, ok := d["items"].(object); ok {
		s.Items = convert(items)
	}
	if values, ok := d["additionalProperties"].(object); ok && len(values) > 0 {
		s.Values = convert(values)
	}
	for name, to := range map[string]*[]*part{"anyOf": &s.AnyOf, "oneOf": &s.OneOf, "allOf": &s.AllOf} {
		list, _ := d[name].([]any)
		for _, e := range list {
			*to = append(*to, convert(e))
		}
	}
	return s
}

// defName returns the definition's name in a reference: "#/$defs/Tool",
// "lf.a2a.v1.Task.jsonschema.json".
func defName(ref string) string {
	if strings.HasPrefix(ref, "#") {
		return strings.ReplaceAll(path.Base(ref), " ", "")
	}
	parts := strings.Split(strings.TrimSuffix(ref, ".jsonschema.json"), ".")
	return parts[len(parts)-1]
}

func TestSchemasAreThoseOfTheProtocols(t *testing.T) {
	for name, from := range vendored {
		text, err := os.ReadFile(from.file)
		if err != nil {
			t.Fatal(err)
		}
		var whole object
		if err := json.Unmarshal(text, &whole); err != nil {
			t.Fatal(err)
		}
		defs, ok := whole["$defs"].(object)
		if !ok {
			defs = whole["definitions"].(object)
		}
		s := protocol{Methods: from.methods(defs), Defs: map[string]*part{}}
		for key, def := range defs {
			s.Defs[strings.ReplaceAll(key, " ", "")] = convert(def)
		}
		if len(s.Methods) < 5 {
			t.Errorf("%s: only %d methods were found", name, len(s.Methods))
		}
		want, err := json.Marshal(s) // maps are sorted
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			var packed bytes.Buffer
			z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
			if _, err := z.Write(want); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("schema/"+name+".json.gz", packed.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := readSchema(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s says (%v); run: go test ./capture/lens -update", name, from.file, err)
		}
	}
}

// TestEveryProtocolCompiles checks that the schemas of all protocols are within the bounds of the
// validator, and that each method has those that its file lists.
func TestEveryProtocolCompiles(t *testing.T) {
	for name := range vendored {
		text, err := readSchema(name)
		if err != nil {
			t.Fatal(err)
		}
		var p protocol
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		s := load(name)
		for method, m := range p.Methods {
			if (m.Params != nil) != (s.params[method] != nil) || len(m.Result) != len(s.result[method]) {
				t.Errorf("%s: %s has not all of its schemas", name, method)
			}
			for _, r := range s.result[method] {
				if r == nil {
					t.Errorf("%s: a result of %s has no schema", name, method)
				}
			}
		}
	}
}

// TestFindingsAreStable checks that of several mismatches always the same one is reported.
func TestFindingsAreStable(t *testing.T) {
	want := load("mcp-2025-11-25").params["tools/call"]
	for range 20 {
		if got := mismatch([]byte(`{"name":1,"task":1,"arguments":2,"_meta":3}`), want, "params"); got != "params._meta is integer, not object" {
			t.Fatalf("got %s", got)
		}
	}
}
