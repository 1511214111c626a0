package schema

import (
	"errors"
	"strings"
	"testing"
)

// TestMessages checks the texts and locations of all problems.
func TestMessages(t *testing.T) {
	for _, tt := range []struct{ schema, value, want string }{
		{`{"type":"integer"}`, `"x"`, `must be an integer, not a string`},
		{`{"type":"integer"}`, `1.5`, `must be an integer, not a number`},
		{`{"type":["string","null"]}`, `[]`, `must be null or a string, not an array`},
		{`{"type":["integer","number"]}`, `{}`, `must be a number, not an object`},
		{`{"enum":["home","work"]}`, `"garden"`, `must be "home" or "work", not "garden"`},
		{`{"enum":["a",1,null]}`, `{"a":1}`, `must be "a", 1 or null, not an object`},
		{`{"const":7}`, `8`, `must be 7, not 8`},
		{`{"minimum":1,"multipleOf":2}`, `-1`, `must be at least 1, not -1; must be a multiple of 2, not -1`},
		{`{"exclusiveMaximum":9223372036854775807}`, `9223372036854775807`, `must be less than 9223372036854775807, not 9223372036854775807`},
		{`{"maximum":9007199254740992}`, `9007199254740993`, `must be at most 9007199254740992, not 9007199254740993`},
		{`{"maximum":5}`, `1e400`, `must be at most 5, not +Inf`},
		{`{"minLength":2}`, `"ä"`, `must have at least 2 characters, not 1`},
		{`{"pattern":"^a+$"}`, `"b"`, `must match the pattern ^a+$`},
		{`{"maxItems":1,"items":{"type":"string"}}`, `[1,"",true]`,
			`at /0: must be a string, not a number; at /2: must be a string, not a boolean; must have at most 1 items, not 3`},
		{`{"uniqueItems":true}`, `[1,{"a":[1.0]},{"a":[1]}]`, `must not have duplicate items: items 1 and 2 are equal`},
		{`{"properties":{"lines":{"items":{"properties":{"n":{"minimum":1}},"required":["n","what"]}}},"required":["lines","topic"]}`, `{"lines":[{"n":0},{"what":""}]}`,
			`at /topic: is required; at /lines/0/what: is required; at /lines/0/n: must be at least 1, not 0; at /lines/1/n: is required`},
		{`{"properties":{"a":{}},"additionalProperties":false}`, `{"a":1,"c":1,"b~/":1}`, `at /b~0~1: unknown member; at /c: unknown member`},
		{`{"additionalProperties":{"type":"null"}}`, `{"a":1}`, `at /a: must be null, not a number`},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `at /ab: must have at most 1 characters, not 2`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `at /b: is required`},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `1`, `must be null or a string, not a number`},
		{`{"anyOf":[{"type":"object","required":["a"]},{"type":"null"}]}`, `{}`, `at /a: is required`},
		{`{"oneOf":[{"properties":{"kind":{"const":"a"}}},{"properties":{"kind":{"const":"b"}}}]}`, `{"kind":"c"}`, `matches none of the 2 alternatives`},
		{`{"oneOf":[{"minimum":1},{"maximum":5}]}`, `3`, `matches more than one of the 2 alternatives`},
		{`{"not":{"type":"null"}}`, `null`, `matches a schema that is not allowed`},
		{`{"contains":{"const":1}}`, `[2]`, `must have at least 1 items that match contains, not 0`},
		{`false`, `1`, `is not allowed`},
		{`{"if":{"required":["n"]},"then":{"required":["address"]}}`, `{"n":1}`, `at /address: is required`},
		{`{"unevaluatedProperties":false,"properties":{"a":{}}}`, `{"b":1}`, `at /b: unknown member`},
	} {
		s, err := Compile([]byte(tt.schema))
		if err != nil {
			t.Errorf("%s: %v", tt.schema, err)
			continue
		}
		err = s.Validate(t.Context(), []byte(tt.value))
		if _, ok := errors.AsType[*InvalidError](err); !ok || err.Error() != tt.want {
			t.Errorf("%s with %s: got\n%v\nwant\n%s", tt.schema, tt.value, err, tt.want)
		}
	}
}

// TestMessagesAreBounded checks that neither many problems nor long names and values lead to a long
// message.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for name, tt := range map[string][2]string{
		"many items": {`{"items":{"type":"string"}}`, `[` + strings.Repeat("1,", 5000) + `1]`},
		"long names": {`{"additionalProperties":false}`, `{"` + long + `":1}`},
		"long texts": {`{"enum":["a"]}`, `"` + long + `"`},
		"long enums": {`{"enum":["` + long + `","` + long + `y"]}`, `"a"`},
		"deep":       {`{"$defs":{"n":{"items":{"$ref":"#/$defs/n"},"type":"array"}},"$ref":"#/$defs/n"}`, strings.Repeat("[", 900) + "1" + strings.Repeat("]", 900)},
		"a pattern":  {`{"pattern":"` + strings.Repeat("a", 4000) + `"}`, `"b"`},
	} {
		s, err := Compile([]byte(tt[0]))
		if err != nil {
			t.Fatal(name, err)
		}
		if err := s.Validate(t.Context(), []byte(tt[1])); err == nil || len(err.Error()) > 4000 {
			t.Errorf("%s: %d bytes: %.200v", name, len(err.Error()), err)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(`{"properties":{"a":{"type":"string","pattern":"^a"}},"required":["a"]}`, `{"a":"b"}`)
	f.Add(`{"$dynamicAnchor":"x","items":{"$dynamicRef":"#x"}}`, `[[[]]]`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile([]byte(schema))
		if err != nil {
			return
		}
		first := s.Validate(t.Context(), []byte(value))
		if second := s.Validate(t.Context(), []byte(value)); (first == nil) != (second == nil) {
			t.Errorf("%s with %s: %v, then %v", schema, value, first, second)
		}
	})
}

// TestProblemsForPrograms checks the fields from which programs make their own texts.
func TestProblemsForPrograms(t *testing.T) {
	for _, tt := range []struct{ schema, value, keyword, got, want string }{
		{`{"type":["string","null"]}`, `1`, "type", "integer", "string null"},
		{`{"type":"integer"}`, `1.5`, "type", "number", "integer"},
		{`{"required":["a"]}`, `{}`, "required", "", ""},
		{`{"enum":["a","b",3]}`, `"c"`, "enum", `"c"`, "a b 3"},
		{`{"const":true}`, `{}`, "enum", "object", "true"},
		{`{"additionalProperties":false}`, `{"x":1}`, "additionalProperties", "", ""},
		{`{"minimum":2}`, `1`, "minimum", "1", "2"},
		{`{"anyOf":[{"type":"array","items":{"type":"string"}},{"$ref":"#/$defs/n"},{"type":"object","required":["a","b"]}],"$defs":{"n":{"type":["null","number"]}}}`,
			`true`, "anyOf", "boolean", "string[] null number object with a and b"},
		{`{"oneOf":[{"const":"x"},{"const":"y"}]}`, `"z"`, "oneOf", `"z"`, "x y"},
		{`false`, `1`, "", "", ""},
	} {
		s, err := Compile([]byte(tt.schema))
		if err != nil {
			t.Fatalf("%s: %v", tt.schema, err)
		}
		invalid, ok := errors.AsType[*InvalidError](s.Validate(t.Context(), []byte(tt.value)))
		if !ok || len(invalid.Problems) != 1 {
			t.Errorf("%s with %s: got %v", tt.schema, tt.value, invalid)
			continue
		}
		if p := invalid.Problems[0]; p.Keyword != tt.keyword || p.Got != tt.got || strings.Join(p.Want, " ") != tt.want {
			t.Errorf("%s with %s: got %+v", tt.schema, tt.value, p)
		}
	}
}

// TestAlternativesAreBounded checks that listing what many nested alternatives allow is cheap.
func TestAlternativesAreBounded(t *testing.T) {
	inner := `{"anyOf":[` + strings.Repeat(`{"minLength":9},`, 40) + `{"type":"array","items":{"$ref":"#/$defs/n"}}]}`
	s, err := Compile([]byte(`{"$defs":{"n":` + inner + `},"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/n"},`, 100) + `{"type":"null"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	invalid, ok := errors.AsType[*InvalidError](s.Validate(t.Context(), []byte(`"a"`)))
	if !ok || len(invalid.Problems) != 1 || len(invalid.Problems[0].Want) > maxWant {
		t.Errorf("got %+v", invalid)
	}
}

// TestAt checks the schema of a part.
func TestAt(t *testing.T) {
	s, err := Compile([]byte(`{"$defs":{"a/b":{"type":"string"},"n":{"items":{"$ref":"#/$defs/a~1b"}}},"title":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, value := range map[string]string{"/$defs/a~1b": `"x"`, "/$defs/n/items": `"x"`, "/$defs/n": `["x"]`, "": `1`} {
		part, ok := s.At(pointer)
		if !ok {
			t.Fatalf("%q has no schema", pointer)
		}
		if err := part.Validate(t.Context(), []byte(value)); err != nil {
			t.Errorf("%q: %v", pointer, err)
		}
		if err := part.Validate(t.Context(), []byte(`[{}]`)); (err == nil) != (pointer == "") {
			t.Errorf("%q: %v", pointer, err)
		}
	}
	for _, pointer := range []string{"/title", "/$defs", "/$defs/x", "$defs"} {
		if _, ok := s.At(pointer); ok {
			t.Errorf("%q has a schema", pointer)
		}
	}
}
