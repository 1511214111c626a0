package playground

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/suite"
)

// byHand is a file as a person writes it: with a comment, its own order of members and unknown
// members.
const byHand = `// The table of Friday.
{
    "asserts": [
        {"path": "$.result.isError", "is": "missing", "note": "no error"}, // first of all
        {"is": "equals", "path": "$.result.n", "value": 9007199254740993},
    ],
    "name": "book a table",
    "owner": {"team": ["a", "b"]},
    "target": "\u0040table",
    "variables": {
        "restaurant": "Zur Linde", // the nearest
        "guests": 4
    },
    "text": "{\"jsonrpc\": \"2.0\",\n \"id\": 1, \"method\": \"{{restaurant}}\", \"params\": [{{guests}}]}",
    "headers": [{"name": "Authorization", "value": "Bearer mine"}, {"name": "X-A", "value": null}]
}
`

func folder(t *testing.T, files map[string]string) *Playground {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &Playground{options: Options{Folder: dir}}
}

func (p *Playground) listed(t *testing.T) savedResult {
	t.Helper()
	list, err := p.savedList(t.Context(), none{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestSavedByHand checks that a file written by hand is read, edited where the page changes it, and
// otherwise preserved.
func TestSavedByHand(t *testing.T) {
	p := folder(t, map[string]string{"friday.call.json": byHand})
	read := func() (savedView, string) {
		list := p.listed(t)
		if len(list.Calls) != 1 || len(list.Problems) != 0 {
			t.Fatalf("listed: %+v", list)
		}
		text, err := os.ReadFile(list.Calls[0].File)
		if err != nil {
			t.Fatal(err)
		}
		return list.Calls[0], string(text)
	}
	s, _ := read()
	if s.Variables["guests"] != "4" || s.Target != "@table" || s.Asserts[1].Raw != "9007199254740993" || filepath.Base(s.File) != "friday.call.json" {
		t.Errorf("it is read as %+v", s)
	}
	save := func(change func(*savedParams)) string {
		t.Helper()
		s, _ := read()
		in := savedParams{Name: s.Name, Target: s.Target, Text: s.Text, Headers: s.Headers, Variables: s.Variables, Asserts: s.Asserts, Was: s.Name, Stamp: s.Stamp}
		change(&in)
		if _, err := p.savedSave(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		_, text := read()
		return text
	}
	for _, c := range []struct {
		name     string
		change   func(*savedParams)
		old, new string // the difference in the file
	}{
		{"nothing", func(*savedParams) {}, "", ""},
		{"a variable", func(in *savedParams) { in.Variables["guests"] = "12" }, `"guests": 4`, `"guests": "12"`},
		{"an assertion", func(in *savedParams) { in.Asserts[1].Raw = "9007199254740994" }, `{"is": "equals", "path": "$.result.n", "value": 9007199254740993}`, `{"path": "$.result.n", "is": "equals", "value": 9007199254740994}`},
		{"the text", func(in *savedParams) { in.Text = "[]" }, byHand[strings.Index(byHand, `"{\"json`):strings.Index(byHand, ",\n    \"headers\"")], `"[]"`},
		{"the name", func(in *savedParams) { in.Name = "other" }, `"book a table"`, `"other"`},
		{"a new variable", func(in *savedParams) { in.Variables["time"] = "19:30" }, `"guests": "12"`, `"guests": "12",` + "\n        " + `"time": "19:30"`},
		{"a variable less", func(in *savedParams) { delete(in.Variables, "time") }, `,` + "\n        " + `"time": "19:30"`, ""},
	} {
		_, before := read()
		if got, want := save(c.change), strings.Replace(before, c.old, c.new, 1); got != want {
			t.Errorf("%s:\n%s", c.name, cmp.Diff(want, got))
		}
	}
	if text := save(func(in *savedParams) { in.Asserts, in.Variables = nil, nil }); strings.Contains(text, "asserts") || strings.Contains(text, "guests") || !strings.Contains(text, `"owner": {"team": ["a", "b"]}`) || !strings.Contains(text, "Bearer mine") {
		t.Errorf("with nothing left the file is\n%s", text)
	}
	if _, err := p.savedDelete(t.Context(), nameParams{"other"}); err != nil {
		t.Error(err)
	}
	if list := p.listed(t); len(list.Calls) != 0 {
		t.Errorf("it is still there: %+v", list)
	}
}

// TestSavedFile checks that a new file is readable and contains no secrets.
func TestSavedFile(t *testing.T) {
	p := folder(t, nil)
	value := "Bearer secret"
	in := savedParams{Name: "one", Target: "@demo", Text: `{"jsonrpc":"2.0"}`, Headers: []headerField{{Name: "Authorization", Value: &value}}, Variables: Variables{"b": "2", "a": "1"},
		Asserts: []assertView{{Assert{Path: "$.result.items[0].name", Is: "equals"}, `{"a": [1, 1e2]}`}, {Assert{Path: "$.error", Is: "missing"}, ""}, {Assert{Path: "$.result.text", Is: "matches"}, `"^a long pattern, so that all of it is too long for one line"`}}}
	out, err := p.savedSave(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.File)
	if err != nil {
		t.Fatal(err)
	}
	updated := `"updated": "` + p.listed(t).Calls[0].Updated.Format(time.RFC3339) + `"`
	want := `{
  "name": "one",
  "target": "@demo",
  "text": "{\"jsonrpc\":\"2.0\"}",
  "variables": {"a": "1", "b": "2"},
  "asserts": [
    {"path": "$.result.items[0].name", "is": "equals", "value": {"a": [1, 1e2]}},
    {"path": "$.error", "is": "missing"},
    {
      "path": "$.result.text",
      "is": "matches",
      "value": "^a long pattern, so that all of it is too long for one line"
    }
  ],
  ` + updated + `
}
`
	if string(text) != want {
		t.Error(cmp.Diff(want, string(text)))
	}
}

// TestSaveRefuses checks that invalid calls are rejected with the position of the error, and a file
// that was changed by others is not overwritten.
func TestSaveRefuses(t *testing.T) {
	p := folder(t, map[string]string{
		"a.call.json": `{"name":"a","target":"@t","text":"1"}`, "b.call.json": `{"target":"@t","text":"2"}`, "c.call.json": `{"name":"a","text":"3"}`, "d.call.json": `{"name":`,
		"e.call.json": `{"name":"e","asserts":[{"path":"x","is":"exists"}]}`, "f.call.json": `[]`, "g.call.json": `{"name":"g","x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
		"h.call.json": `{"name":"h","text":"` + strings.Repeat("[", 200) + `"} // ` + strings.Repeat("{", 200) + "\n",
		"i.call.json": `{"name":"i","variables":[]}`,
	})
	list := p.listed(t)
	var names, bad []string
	for _, c := range list.Calls {
		names = append(names, c.Name)
	}
	for _, b := range list.Problems {
		bad = append(bad, filepath.Base(b.File)[:1])
		if b.Text == "" {
			t.Errorf("%s has no reason", b.File)
		}
	}
	if strings.Join(names, "") != "abh" || strings.Join(bad, "") != "cdefgi" {
		t.Errorf("there are %q, and bad ones %q: %+v", names, bad, list.Problems)
	}
	for _, c := range []struct {
		name    string
		in      savedParams
		pointer string
	}{
		{"no name", savedParams{}, "/name"},
		{"a name that is taken", savedParams{Name: "a"}, "/name"},
		{"a new name that is taken", savedParams{Name: "a", Was: "b"}, "/name"},
		{"one that is gone", savedParams{Name: "x", Was: "y"}, "/name"},
		{"changed meanwhile", savedParams{Name: "a", Was: "a", Stamp: "0011"}, "/stamp"},
		{"a path", savedParams{Name: "x", Asserts: []assertView{{Assert{Path: "$.a", Is: "exists"}, ""}, {Assert{Path: "a", Is: "exists"}, ""}}}, "/asserts/1/path"},
		{"a word", savedParams{Name: "x", Asserts: []assertView{{Assert{Path: "$", Is: "is"}, ""}}}, "/asserts/0/is"},
		{"a value", savedParams{Name: "x", Asserts: []assertView{{Assert{Path: "$", Is: "equals"}, "tru"}}}, "/asserts/0/raw"},
		{"a variable", savedParams{Name: "x", Variables: Variables{"a b": "c"}}, "/variables"},
		{"too many", savedParams{Name: "x", Asserts: make([]assertView, suite.MaxAsserts+1)}, "/asserts"},
	} {
		_, err := p.savedSave(t.Context(), c.in)
		e, ok := err.(*jsonrpc.Error)
		if !ok || e.Code != jsonrpc.CodeInvalidParams || !strings.Contains(string(raw(e.Data)), `"`+c.pointer+`"`) {
			t.Errorf("%s: %v, want %s", c.name, err, c.pointer)
		}
	}
	if text, err := os.ReadFile(filepath.Join(p.options.Folder, "a.call.json")); err != nil || string(text) != `{"name":"a","target":"@t","text":"1"}` {
		t.Errorf("it was changed: %s %v", text, err)
	}
}

// FuzzMergeSaved checks that any file is either read or rejected, and after a call is saved into
// it, it can be read again.
func FuzzMergeSaved(f *testing.F) {
	for _, seed := range []string{byHand, `{"name":"a","variables":{},"asserts":[]}`, `{"name":"a",}`, `/* x */ {"variables" : {"a":1,},"a":{}}`, `{"name":"a","name":"b"}`, `{}`} {
		f.Add(seed, "text", "value")
	}
	f.Fuzz(func(t *testing.T, file, text, value string) {
		value, text = strings.ToValidUTF8(value, ""), strings.ToValidUTF8(text, "")
		s := Saved{Name: "n", Target: "@t", Text: text, Variables: Variables{"v": value}, Asserts: []Assert{{Path: "$.a", Is: "exists"}}}
		out, err := mergeSaved([]byte(file), s)
		if err != nil {
			return
		}
		v, err := suite.ParseJSON(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", file, out, err)
		}
		v.Standardize()
		var back Saved
		if err := json.Unmarshal(v.Pack(), &back); err != nil {
			var before map[string]jsonrpc.Raw
			old, _ := suite.ParseJSON([]byte(file))
			old.Standardize()
			if json.Unmarshal(old.Pack(), &before) == nil {
				t.Fatalf("%q became %q: %v", file, out, err)
			}
			return // it was not a JSON object before
		}
		if back.Text != s.Text || back.Variables["v"] != value || len(back.Asserts) != 1 {
			t.Errorf("%q became %q, want %+v", file, out, s)
		}
	})
}
