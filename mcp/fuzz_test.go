package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/da1ed7bb/parley/jsonrpc"
)

// seeds adds the bodies of the wire files and of the schemas.
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

// FuzzMembers checks that the walk finds the same members as a decoder, and that the params of a
// request are the same in all rounds of a call whichever members they have.
func FuzzMembers(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"name":"a","uri":"b","arguments":{},"cursor":null,"task":{},"taskId":"c","notifications":{},"_meta":{},"inputResponses":{},"requestState":"d"}`))
	f.Add([]byte(`{"name":"a","other":1,"name":"b","_meta":{},"requestState":"d"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		raw, err := jsonrpc.ParseRaw(text)
		if err != nil || !isStrict(raw) {
			return
		}
		var want map[string]json.RawMessage
		isObj := raw[0] == '{' && json.Unmarshal(raw, &want) == nil
		got := map[string]json.RawMessage{}
		for name, value := range raw.Members() {
			got[string(name)] = json.RawMessage(value)
		}
		if isObj && (len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want)) {
			t.Fatalf("%s\n got %q\nwant %q", raw, got, want)
		}
		var list []json.RawMessage
		if raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
			n := 0
			for one := range raw.Elements() {
				if string(one) != string(list[n]) {
					t.Fatalf("element %d of %s: %s", n, raw, one)
				}
				n++
			}
			if n != len(list) {
				t.Fatalf("%d elements of %s", n, raw)
			}
		}
		var p params
		p.read(raw)
		fixed := map[string]jsonrpc.Raw{}
		for name, value := range raw.Members() {
			fixed[string(name)] = value
		}
		for _, name := range []string{"_meta", "inputResponses", "requestState"} {
			delete(fixed, name)
		}
		if got := p.fixed(raw); !reflect.DeepEqual(got, fixed) {
			t.Fatalf("%s\n got %q\nwant %q", raw, got, fixed)
		}
	})
}

// FuzzContent checks that content decodes to the same value after it was encoded.
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
			return // of a kind that is not encoded
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

// FuzzSchema checks that no accepted schema makes the validator run without end.
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
			_ = s.validate(t.Context(), jsonrpc.Raw(value))
		}
		if took := time.Since(begin); took > 20*time.Second {
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
	f.Add(s.Seal([]byte("x"), []byte("b")))
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if plain, err := s.Open(text, []byte("other")); err == nil {
			t.Fatalf("%q opened as %q", text, plain)
		}
		sealed := s.Seal([]byte(text), []byte("b"))
		plain, err := s.Open(sealed, []byte("b"))
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

func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		template, uri string
		want          Variables
	}{
		{"test://template/{id}/data", "test://template/7/data", Variables{"id": "7"}},
		{"test://template/{id}/data", "test://template/a%20b/data", Variables{"id": "a b"}},
		{"test://template/{id}/data", "test://template//data", nil},
		{"test://template/{id}/data", "test://template/a/b/data", nil},
		{"test://template/{id}/data", "xtest://template/a/data", nil},
		{"test://template/{id}/data", "test://template/a/data?x", nil},
		{"file:///{+path}", "file:///a/b.txt", Variables{"path": "a/b.txt"}},
		{"x:{a,b}", "x:1,2", Variables{"a": "1", "b": "2"}},
		{"x:{a*}", "x:1,2", Variables{"a": "1,2"}},
		{"x:y{/a,b}", "x:y/1/2", Variables{"a": "1", "b": "2"}},
		{"x:y{/a*}", "x:y/1/2/3", Variables{"a": "1,2,3"}},
		{"x:y{/a}", "x:y/1/2", nil},
		{"x:y{.ext}", "x:y.txt", Variables{"ext": "txt"}},
		{"x:y{#frag}", "x:y#a,b", Variables{"frag": "a,b"}},
		{"x:y{?q,n}", "x:y?n=2&q=a%26b", Variables{"q": "a&b", "n": "2"}},
		{"x:y{?q,n}", "x:y", Variables{}},
		{"x:y?z=1{&q}", "x:y?z=1&q=2", Variables{"q": "2"}},
		{"x:y{;q}", "x:y;q=2", Variables{"q": "2"}},
		{"x:{a:3}", "x:abc", Variables{"a": "abc"}},
		{"a.b:{x}", "aXb:1", nil},
	} {
		p, err := parseTemplate(c.template)
		if err != nil {
			t.Fatal(c.template, err)
		}
		if got := p.match(c.uri); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s in %s: %v, want %v", c.uri, c.template, got, c.want)
		}
	}
	for _, bad := range []string{"x:{", "x:{}", "x:{a", "x:{a b}", "x:{=a}"} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestExpandTemplate checks the examples of RFC 6570, section 3.2, with string values.
func TestExpandTemplate(t *testing.T) {
	vars := Variables{"var": "value", "hello": "Hello World!", "path": "/foo/bar", "x": "1024", "y": "768", "empty": "", "half": "50%", "who": "fred", "u": "㰴ä"}
	for template, want := range map[string]string{
		"{var}": "value", "{hello}": "Hello%20World%21", "{half}": "50%25", "O{empty}X": "OX", "O{undef}X": "OX", "{x,y}": "1024,768", "{x,hello,y}": "1024,Hello%20World%21,768",
		"?{x,empty}": "?1024,", "?{x,undef}": "?1024", "{var:3}": "val", "{var:30}": "value", "{+var}": "value", "{+hello}": "Hello%20World!", "{+half}": "50%25",
		"{+path}/here": "/foo/bar/here", "{#var}": "#value", "{#path,x}": "#/foo/bar,1024", "{.who,who}": ".fred.fred", "X{.empty}": "X.", "{/var,x}/here": "/value/1024/here",
		"{;x,y}": ";x=1024;y=768", "{;x,y,empty}": ";x=1024;y=768;empty", "{?x,y,empty}": "?x=1024&y=768&empty=", "{&x,undef}": "&x=1024", "{u}": "%E3%B0%B4%C3%A4",
	} {
		if got, err := ExpandTemplate(template, vars); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", template, got, err, want)
		}
	}
}

// TestTemplateTime checks that matching a template is fast for any URI.
func TestTemplateTime(t *testing.T) {
	begin := time.Now()
	for _, template := range []string{"x:{a}{b}{c}{d}z", "x:{a,b,c}{d,e}z", "x:{+a}{+b}{+c}z", "x:{/a*}{/b*}{/c*}z"} {
		p, err := parseTemplate(template)
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"x:" + strings.Repeat("a,", 4000) + "!", "x:" + strings.Repeat("/a", 4000), "x:" + strings.Repeat("a", 8000)} {
			if p.match(uri) != nil {
				t.Errorf("%s fits %.20s", template, uri)
			}
		}
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// FuzzTemplate checks that the values of an expanded template are found again.
func FuzzTemplate(f *testing.F) {
	f.Add("x:{a}/{b}", "1", "2")
	f.Add("x:{+a}", "a/b", "")
	f.Add("x:y{?a,b}", "&", "=")
	f.Add("x:{a}{/b}", "%", "ä")
	f.Fuzz(func(t *testing.T, template, a, b string) {
		if len(template) > 200 || len(a)+len(b) > 200 {
			return
		}
		p, err := parseTemplate(template)
		if err != nil {
			return
		}
		_ = p.match(a)
		for _, known := range []string{"x:{a}/{b}", "x:y{?a,b}"} {
			if template != known || a == "" || b == "" || !utf8.ValidString(a+b) {
				continue
			}
			uri, err := ExpandTemplate(template, Variables{"a": a, "b": b})
			if err != nil {
				continue
			}
			if got := p.match(uri); got["a"] != a || got["b"] != b {
				t.Fatalf("%q and %q became %s, and %v again", a, b, uri, got)
			}
		}
	})
}
