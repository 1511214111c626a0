package openrpc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"sync"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"
)

// The oracle is a validator that is independent of the library that creates our schemas.

// vendored lists the schemas of testdata/README.md with their URLs.
var vendored = []struct{ file, url, sum string }{
	{"openrpc-meta-schema-1.14.9.json", metaURL13, "c1314ab1a30a252013d6139c9c2eb042b91633f8aa3bddbb7f8ef3f9f7e240a3"},
	{"openrpc-1.4.1.schema.json", metaURL14, "a8a733cd87ef6ba2e1a38e6500090581b0f52b91051a0bad8386004366b11c56"},
	{"json-schema-tools-1.8.0.schema.json", "https://meta.json-schema.tools", "ebaa0daa2efb3f8247ae62f6fea63a11a73fa7f6c9663c7cc3f38430d147a366"},
}

const (
	metaURL13 = "https://meta.open-rpc.org/1.3"
	metaURL14 = "https://meta.open-rpc.org/1.4"
)

func TestVendoredSchemasAreUnchanged(t *testing.T) {
	readme, err := os.ReadFile("testdata/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vendored {
		text, err := os.ReadFile("testdata/" + v.file)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:]); got != v.sum {
			t.Errorf("%s has SHA-256 %s, want %s", v.file, got, v.sum)
		}
		if !bytes.Contains(readme, []byte(v.file)) || !bytes.Contains(readme, []byte(v.sum)) {
			t.Errorf("testdata/README.md does not name %s and its checksum", v.file)
		}
	}
}

// metaSchemas compiles the meta-schemas once. Each names the JSON Schema of json-schema-tools,
// which describes itself, as its own meta-schema. That schema is equivalent to draft-07, so they
// are compiled as draft-07.
var metaSchemas = sync.OnceValues(func() (map[string]*oracle.Schema, error) {
	c := oracle.NewCompiler()
	c.DefaultDraft(oracle.Draft7)
	c.AssertFormat()
	for _, v := range vendored {
		text, err := os.ReadFile("testdata/" + v.file)
		if err != nil {
			return nil, err
		}
		for _, url := range []string{v.url, v.url + "/"} { // references use both forms
			schema, err := oracle.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				return nil, err
			}
			root := schema.(map[string]any)
			delete(root, "$schema")
			root["$id"] = url // both versions of OpenRPC use the same one
			if err := c.AddResource(url, root); err != nil {
				return nil, err
			}
		}
	}
	out := make(map[string]*oracle.Schema)
	for minor, url := range map[string]string{"1.3": metaURL13, "1.4": metaURL14} {
		s, err := c.Compile(url)
		if err != nil {
			return nil, err
		}
		out[minor] = s
	}
	return out, nil
})

// checkDocument validates the text of a document against the meta-schema of its version, and checks
// every schema in it against draft-07 by compiling it.
func checkDocument(t *testing.T, text []byte) {
	t.Helper()
	schemas, err := metaSchemas()
	if err != nil {
		t.Fatal(err)
	}
	value, err := oracle.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	schema := schemas["1.3"]
	if v, _ := value.(map[string]any)["openrpc"].(string); strings.HasPrefix(v, "1.4.") {
		schema = schemas["1.4"]
	}
	if err := schema.Validate(value); err != nil {
		t.Errorf("the meta-schema refuses the document: %v\n%s", err, text)
	}
}

// compileIn compiles the schema at a JSON Pointer inside a document, including references.
func compileIn(t *testing.T, text []byte, pointer string) *oracle.Schema {
	t.Helper()
	value, err := oracle.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	c := oracle.NewCompiler()
	c.DefaultDraft(oracle.Draft7)
	c.AssertFormat()
	c.AssertContent()
	if err := c.AddResource("https://document.test/openrpc.json", value); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://document.test/openrpc.json#" + pointer)
	if err != nil {
		t.Fatalf("schema at %s: %v\n%s", pointer, err, text)
	}
	return s
}

// accepts reports whether schema accepts the JSON text.
func accepts(t *testing.T, schema *oracle.Schema, text string) bool {
	t.Helper()
	value, err := oracle.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return schema.Validate(value) == nil
}

func TestMetaSchemasCanRefuse(t *testing.T) {
	schemas, err := metaSchemas()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, version, text string }{
		{"no methods", "1.3", `{"openrpc":"1.3.2","info":{"title":"","version":""}}`},
		{"1.4 is not 1.3", "1.3", `{"openrpc":"1.4.1","info":{"title":"","version":""},"methods":[]}`},
		{"1.3 is not 1.4", "1.4", `{"openrpc":"1.3.2","info":{"title":"","version":""},"methods":[]}`},
		{"unknown member", "1.4", `{"openrpc":"1.4.1","info":{"title":"","version":""},"methods":[],"y":1}`},
		{"schema with a bad type", "1.3", `{"openrpc":"1.3.2","info":{"title":"","version":""},"methods":[{"name":"m","params":[{"name":"p","schema":{"type":"int"}}]}]}`},
		{"schema with bad items", "1.4", `{"openrpc":"1.4.1","info":{"title":"","version":""},"methods":[{"name":"m","params":[{"name":"p","schema":{"items":3}}]}]}`},
	}
	for _, tt := range tests {
		value, err := oracle.UnmarshalJSON(strings.NewReader(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if schemas[tt.version].Validate(value) == nil {
			t.Errorf("%s: accepted %s", tt.name, tt.text)
		}
	}
}
