package lint

import (
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/schemaview"
)

// minUnits is the allowance of an example in package schemaview.
const minUnits = 1 << 10

// TestHostileSchemas checks that for server schemas whose references multiply at each level,
// examples and lint stop at their limit of work.
func TestHostileSchemas(t *testing.T) {
	value := jsonrpc.Raw(strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40))
	for name, text := range map[string]string{
		"properties":      `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","required":["a","b"],"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}}}}}`,
		"allOf":           `{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`,
		"anyOf":           `{"$ref":"#/$defs/n","$defs":{"n":{"required":["b"],"properties":{"a":{"anyOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`,
		"oneOf":           `{"$ref":"#/$defs/n","$defs":{"n":{"required":["b"],"properties":{"a":{"oneOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}}}`,
		"a large default": `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"default":{},"type":"object","properties":{}}},"x":"` + strings.Repeat("x", 100_000) + `"}`,
		"patterns":        `{"additionalProperties":{"$ref":"#"},"pattern":"((a{100}){100}){100}"}`,
	} {
		if made := schemaview.Example(jsonrpc.Raw(text)); len(made) > 64*minUnits+16*len(text) {
			t.Errorf("%s: an example of %d bytes", name, len(made))
		}
		l := &linter{text: value}
		l.params(jsonrpc.Raw(text), value, "/params", "", "")
		l.params(jsonrpc.Raw(text), jsonrpc.Raw(`"a"`), "/params", "", "")
		if len(l.marks) > 100 {
			t.Errorf("%s: %d problems", name, len(l.marks))
		}
	}
}

// TestLintValidatesParams checks the marks for params with keywords of every kind, by position and
// by name. A schema that cannot be compiled marks nothing: the server decides.
func TestLintValidatesParams(t *testing.T) {
	const order = `{"type":"object","x-order":["when","tags"],"properties":{"when":{"$ref":"#/components/schemas/Day"},"tags":{"type":"array","uniqueItems":true,"maxItems":2}},` +
		`"required":["when"],"additionalProperties":false,"components":{"schemas":{"Day":{"anyOf":[{"enum":["today"]},{"type":"null"}]}}}}`
	for _, tt := range []struct{ schema, params, want string }{
		{order, `["today",["a"]]`, ``},
		{order, `["now",["a","a"]]`, `/params/0: /params/0 must be "today", not "now". /params/1: /params/1 must not have duplicate items: items 0 and 1 are equal.`},
		{order, `{"when":null,"tags":[1,2,3],"more":1}`, `/params/tags: /params/tags must have at most 2 items, not 3. /params/more: /params/more is not a parameter of the method.`},
		{order, `{"tags":{}}`, `/params: /params lacks "when". /params/tags: /params/tags is an object, but must be an array.`},
		{order, ``, `/params: /params lacks "when".`},
		{`{"properties":{"a/b":{"properties":{"c~":{"maximum":3}}}}}`, `{"a/b":{"c~":4}}`, `/params/a~1b/c~0: /params/a~1b/c~0 is more than 3.`},
		{`{"properties":{"a":{"type":"number","required":true}}}`, `{"a":"x"}`, ``},
	} {
		l := &linter{text: []byte(tt.params)}
		l.params(jsonrpc.Raw(tt.schema), jsonrpc.Raw(tt.params), "/params", "", "")
		var got []string
		for _, m := range l.marks {
			got = append(got, m.Pointer+": "+m.Text)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %s, want %s", tt.params, got, tt.want)
		}
	}
}
