package orchestrator

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/da1ed7bb/parley/internal/x/expr"
	"github.com/da1ed7bb/parley/jsonrpc"
)

// For any text, the result is either a plan that passes the check again, or an error with a
// position in the file.
func FuzzPlan(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePlan("", b)
		if err == nil {
			if err := p.Check(); err != nil {
				t.Fatalf("accepted, and then: %v", err)
			}
			return
		}
		bad, ok := errors.AsType[*PlanError](err)
		if !ok || len(bad.Problems) == 0 || len(bad.Problems) > maxProblems {
			t.Fatalf("%v", err)
		}
		for _, p := range bad.Problems {
			if p.Text == "" || p.Path == "" {
				t.Fatalf("%+v says nothing", p)
			}
		}
	})
}

type anyScope struct{ v jsonrpc.Raw }

func (s anyScope) Lookup(string) (jsonrpc.Raw, bool) { return s.v, true }

// For any expression, the value is valid JSON.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"{{ a }}", "x {{ a.b.c }} y", `{{ a == "x" && !(b < 3) || c[0] }}`, `{{ join(lines(a), ", ") }}`, `{{ json("{\"a\":1}").a }}`,
		`{{ default(a.text, 'none') }}`, "{{ '}}' }}", "{{", "{{ -1.5e3 >= a[-1] }}", `{{ contains(a, "b") }}`, "{{ length(first(last(a))) }}",
	} {
		f.Add(s, `{"b":{"c":[1,"x",null,true]},"text":"t","state":"ok"}`)
		f.Add(s, `[1,2,"three",{"four":4}]`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		raw, err := jsonrpc.ParseRaw([]byte(value))
		if err != nil {
			return
		}
		tmpl, err := parseTemplate(text)
		if err != nil {
			if wrong, ok := errors.AsType[*expr.SyntaxError](err); !ok || wrong.Offset < 0 || wrong.Offset > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		v, err := tmpl.eval(anyScope{raw})
		if err != nil {
			return
		}
		if _, err := jsonrpc.ParseRaw(v); err != nil {
			t.Fatalf("%q of %s is %q: %v", text, raw, v, err)
		}
	})
}
