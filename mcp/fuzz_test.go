package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// seeds are the bodies of the wire files, and of the schemas.
func seeds(f *testing.F) {
	f.Helper()
	names, err := filepath.Glob("testdata/seeds/*.json")
	if err != nil || len(names) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
			f.Add([]byte(line))
		}
	}
}

// What the walk finds is what a decoder finds.
func FuzzMembers(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := jsonrpc.ParseRaw(text)
		if err != nil || !isStrict(raw) {
			return
		}
		var want map[string]json.RawMessage
		isObj := raw[0] == '{' && json.Unmarshal(raw, &want) == nil
		got := map[string]json.RawMessage{}
		members(raw, func(name []byte, value jsonrpc.Raw) { got[string(name)] = json.RawMessage(value) })
		if isObj && (len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want)) {
			t.Fatalf("%s\n got %q\nwant %q", raw, got, want)
		}
		var list []json.RawMessage
		if raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
			n := 0
			elements(raw, func(one jsonrpc.Raw) {
				if string(one) != string(list[n]) {
					t.Fatalf("element %d of %s: %s", n, raw, one)
				}
				n++
			})
			if n != len(list) {
				t.Fatalf("%d elements of %s", n, raw)
			}
		}
		var p params
		p.read(raw)
	})
}

// Content that was read and written reads the same.
func FuzzContent(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := jsonrpc.ParseRaw(text)
		if err != nil {
			return
		}
		var one ToolResult
		if raw.Decode(&one) != nil {
			return
		}
		for _, v := range Versions() {
			_ = one.forVersion(v)
		}
		out, err := encode(&one)
		if err != nil {
			return // of a kind that we do not write
		}
		var again ToolResult
		if err := out.Decode(&again); err != nil {
			t.Fatalf("%s was written as %s: %v", raw, out, err)
		}
		twice, err := encode(&again)
		if err != nil || string(twice) != string(out) {
			t.Fatalf("%s was written as %s, then as %s, %v", raw, out, twice, err)
		}
	})
}

// No schema that is taken makes the validator run without end.
func FuzzSchema(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := jsonrpc.ParseRaw(text)
		if err != nil || len(raw) > 2000 {
			return
		}
		s, err := compileSchema(raw)
		if err != nil {
			return
		}
		begin := time.Now()
		for _, value := range []string{`{}`, `[]`, `1`, `"x"`, `{"a":{"a":{"a":[1,2,{"a":null}]}}}`, string(raw)} {
			_ = s.validate(jsonrpc.Raw(value))
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Fatalf("%s took %v", raw, took)
		}
	})
}

func FuzzFrontmatter(f *testing.F) {
	for _, seed := range []string{"name: x\ndescription: y", "a:\n- b: c\n  d: [e, \"f\"]\n- g", "a: |\n  b\n\n  c\nd: >-\n  e\n  f", "a: 'b''c' # d", "a:\n  b:\n    c: 1.5", "\"a\": null"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := frontmatter("---\n" + text + "\n---\n")
		if err != nil {
			return
		}
		if _, err := encode(m); err != nil && !strings.Contains(err.Error(), "UTF-8") {
			t.Fatalf("%q became %v: %v", text, m, err)
		}
	})
}

func FuzzState(f *testing.F) {
	s := newSealer(make([]byte, 32))
	f.Add(s.seal([]byte("x"), []byte("b")))
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if plain, err := s.open(text, []byte("other")); err == nil {
			t.Fatalf("%q opened as %q", text, plain)
		}
		sealed := s.seal([]byte(text), []byte("b"))
		plain, err := s.open(sealed, []byte("b"))
		if err != nil || string(plain) != text {
			t.Fatalf("%q came back as %q, %v", text, plain, err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	for _, seed := range []string{`"a1"`, `"bzz"`, `""`, `null`, `7`, `"a-1"`, `"a99999999999999999999"`} {
		f.Add(seed)
	}
	var lists [2]registry[int]
	for _, name := range []string{"x", "y"} {
		lists[0].put(name, 1, func(Version) jsonrpc.Raw { return empty })
		lists[1].put(name+name, 1, func(Version) jsonrpc.Raw { return empty })
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := jsonrpc.ParseRaw([]byte(text))
		if err != nil {
			return
		}
		p, err := listPage("x", raw, 1, V20260728, nil, &lists[0], &lists[1])
		if err == nil && len(p.items) > 1 {
			t.Fatalf("%d items", len(p.items))
		}
	})
}
