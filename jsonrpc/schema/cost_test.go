package schema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/race"
)

// deep returns a nested schema whose references double at each level of the value.
func deep(n int, leaf string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"properties":{"a":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}}},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":%s}}`, n, leaf)
	return b.String()
}

// hostile returns schemas and values that would take hours, minutes or gigabytes if each keyword
// were applied as often as the schema demands.
func hostile() map[string][2]string {
	many := func(n int, one func(i int) string) string {
		var list []string
		for i := range n {
			list = append(list, one(i))
		}
		return strings.Join(list, ",")
	}
	same := func(text string) func(int) string { return func(int) string { return text } }
	recursive := `{"$defs":{"n":{"properties":{"a":{"%s":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}},"$ref":"#/$defs/n"}`
	nested := strings.Repeat(`{"a":`, 900) + `1` + strings.Repeat(`}`, 900)
	array := `[` + many(400_000, same(`1`)) + `]`
	long := `"` + strings.Repeat("a", 3<<20) + `"`
	return map[string][2]string{
		"allOf, twice at each level":  {fmt.Sprintf(recursive, "allOf"), nested},
		"anyOf, twice at each level":  {strings.Replace(fmt.Sprintf(recursive, "anyOf"), `"properties"`, `"required":["b"],"properties"`, 1), nested},
		"oneOf, twice at each level":  {fmt.Sprintf(recursive, "oneOf"), nested},
		"then, twice at each level":   {`{"$defs":{"n":{"properties":{"a":{"if":{"$ref":"#/$defs/n"},"then":{"$ref":"#/$defs/n"}}}}},"$ref":"#/$defs/n"}`, nested},
		"references by name":          {deep(60, `{}`), strings.Repeat(`{"a":`, 61) + `1` + strings.Repeat(`}`, 61)},
		"many forms for many items":   {`{"items":{"anyOf":[` + many(2400, func(i int) string { return fmt.Sprintf(`{"const":%d}`, i+2) }) + `]}}`, array},
		"many forms of a long text":   {`{"anyOf":[` + many(2400, same(`{"maxLength":1}`)) + `]}`, long},
		"a long enumeration":          {`{"items":{"enum":[` + many(4900, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}}`, array},
		"a large value, many consts":  {`{"anyOf":[` + many(1600, same(`{"const":[]}`)) + `]}`, array},
		"uniqueness of equal lengths": {`{"allOf":[` + many(1600, same(`{"uniqueItems":true}`)) + `]}`, `[` + many(300_000, func(i int) string { return fmt.Sprint(i) }) + `]`},
		"patterns over a long text":   {`{"allOf":[` + many(800, same(`{"pattern":"(a*)*(a*)*b$"}`)) + `]}`, long},
		"patterns over names": {`{"patternProperties":{` + many(800, func(i int) string { return fmt.Sprintf(`"(x|y|z)*%d$":{}`, i) }) + `}}`,
			`{` + many(100_000, func(i int) string { return fmt.Sprintf(`"n%d":1`, i) }) + `}`},
		"contains in contains":      {`{"$defs":{"n":{"contains":{"$ref":"#/$defs/n"},"items":{"$ref":"#/$defs/n"}}},"$ref":"#/$defs/n"}`, strings.Repeat(`[`, 900) + strings.Repeat(`]`, 900)},
		"dependent schemas":         {`{"$defs":{"n":{"dependentSchemas":{"a":{"properties":{"a":{"$ref":"#/$defs/n"}}}},"properties":{"a":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, nested},
		"unevaluated at each level": {`{"$defs":{"n":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/n"}}},{"properties":{"a":{"$ref":"#/$defs/n"}}}],"unevaluatedProperties":false}},"$ref":"#/$defs/n"}`, nested},
		"not of not":                {`{"$defs":{"n":{"not":{"properties":{"a":{"$ref":"#/$defs/n"}}},"properties":{"a":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, nested},
		"names of properties":       {`{"allOf":[` + many(1600, same(`{"propertyNames":{"maxLength":9}}`)) + `]}`, `{` + many(100_000, func(i int) string { return fmt.Sprintf(`"n%d":1`, i) }) + `}`},
	}
}

// TestCostIsBounded checks that validation ends (ten million steps take about a second, for any
// keywords). The cost of a hostile schema is limited by the steps, and by the context long before.
// Validation starts no goroutine, so that make test runs this test without the race detector, and
// make test-long also with it, for two schemas.
func TestCostIsBounded(t *testing.T) {
	for name, tt := range hostile() {
		if race.Enabled && name != "references by name" && name != "contains in contains" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s, err := Compile([]byte(tt[0]))
			if err != nil {
				return // rejected when compiled
			}
			if err := s.Validate(t.Context(), []byte(tt[1])); !errors.Is(err, ErrTooCostly) && !errors.Is(err, errTooDeep) {
				if _, ok := errors.AsType[*InvalidError](err); !ok {
					t.Errorf("got %v", err)
				}
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("given up")
			cancel(cause)
			value, err := decode([]byte(tt[1]))
			if err != nil {
				t.Fatal(err)
			}
			m := &meter{ctx: ctx, left: maxSteps, untilCheck: stepsPerCheck}
			v := validator{schema: s, meter: m}
			v.apply(value, s.root, v.newSeen())
			if used := maxSteps - m.left; m.err != cause && m.err != nil || used > maxSteps/2 {
				t.Errorf("went on for %d steps after the context ended: %v", used, m.err)
			}
		})
	}
}

func TestCompileIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"bytes":                   `{"description":"` + strings.Repeat("x", maxBytes) + `"}`,
		"depth":                   strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70),
		"parts":                   `{"enum":[` + strings.Repeat("1,", 6000) + `1]}`,
		"a loop":                  `{"allOf":[{"$ref":"#"}]}`,
		"a loop through a name":   `{"$ref":"#x","$defs":{"a":{"$anchor":"x","anyOf":[{"$ref":"#x"}]}}}`,
		"a loop through if":       `{"if":{"$ref":"#"}}`,
		"a dynamic loop":          `{"$dynamicAnchor":"x","$dynamicRef":"#x"}`,
		"a large pattern":         `{"pattern":"(a{1000}){1000}"}`,
		"a nested repeat":         `{"pattern":"((((a{9}){9}){9}){9}){9}"}`,
		"a pattern of names":      `{"patternProperties":{"((a{100}){100}){100}":{}}}`,
		"a wide class":            `{"pattern":"(\\p{L}{100}){10}"}`,
		"many patterns":           `{"allOf":[` + strings.Repeat(`{"pattern":"a{1000}"},`, 30) + `{}]}`,
		"a pattern RE2 has not":   `{"pattern":"(?=a)"}`,
		"another document":        `{"$ref":"https://example.com/s"}`,
		"nowhere":                 `{"$ref":"#/$defs/a"}`,
		"nowhere in a list":       `{"$ref":"#/allOf/7","allOf":[{}]}`,
		"a number as a schema":    `{"items":7}`,
		"a type that is none":     `{"type":"strang"}`,
		"minimum as text":         `{"minimum":"1"}`,
		"multipleOf 0":            `{"multipleOf":0}`,
		"a negative length":       `{"maxLength":-1}`,
		"a dialect":               `{"$schema":"http://json-schema.org/draft-04/schema#"}`,
		"required without a list": `{"required":"a"}`,
		"a string":                `"x"`,
	} {
		if s, err := Compile([]byte(text)); err == nil {
			t.Errorf("%s was taken: %v", name, s)
		}
	}
}

// TestDeepRecursionEnds checks that the number of frames is limited if each level of the value
// enters many schemas.
func TestDeepRecursionEnds(t *testing.T) {
	chain := `{"$ref":"#/$defs/n"}`
	for range 25 {
		chain = `{"allOf":[` + chain + `]}`
	}
	s, err := Compile([]byte(`{"$defs":{"n":{"items":` + chain + `}},"$ref":"#/$defs/n"}`))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(t.Context(), []byte(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))
	if !errors.Is(err, errTooDeep) {
		t.Errorf("got %v", err)
	}
}

// TestLongNamesCostNoMemory checks that the location of each part of a schema is not stored with a
// name of 200 KB: 256 KiB of schema took more than a gigabyte.
func TestLongNamesCostNoMemory(t *testing.T) {
	text := `{"properties":{"` + strings.Repeat("n", 200_000) + `":{"allOf":[` + strings.Repeat("{},", 4900) + `{}]}}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Compile([]byte(text))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
	long := `{"properties":{"` + strings.Repeat("n", 1900) + `":{"type":"string"}}}`
	if _, err := Compile([]byte(long)); err != nil {
		t.Errorf("a name of 1,900 bytes: %v", err)
	}
}
