package openrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// documents returns the documents of other servers. It fails without documents, because the tests
// below would then pass without testing anything.
func documents(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/documents/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in testdata/documents (%v)", err)
	}
	out := make(map[string][]byte)
	for _, f := range files {
		if out[filepath.Base(f)], err = os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// generic returns JSON independently of member order and white space, with numbers as they were
// written.
func generic(t testing.TB, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// withoutDefaults removes "required" and "deprecated" members that are false, which is their
// default.
func withoutDefaults(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member == false && (name == "required" || name == "deprecated") {
				delete(v, name)
				continue
			}
			withoutDefaults(member)
		}
	case []any:
		for _, member := range v {
			withoutDefaults(member)
		}
	}
	return v
}

func TestForeignDocumentsSurvive(t *testing.T) {
	for name, text := range documents(t) {
		t.Run(name, func(t *testing.T) {
			d, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			want := withoutDefaults(generic(t, text))
			for codec, marshal := range map[string]func(any) ([]byte, error){"ours": encode, "encoding/json": json.Marshal} {
				got, err := marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, generic(t, got)); diff != "" {
					t.Errorf("written by %s it differs (-want +got):\n%s", codec, diff)
				}
			}
			var again Document
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, &again); diff != "" {
				t.Errorf("read by encoding/json it differs (-ours +theirs):\n%s", diff)
			}
		})
	}
}

// TestForeignDocumentsAreValid checks that documents of other servers conform to the version that
// they name.
func TestForeignDocumentsAreValid(t *testing.T) {
	for name, text := range documents(t) {
		// One has members of a later version, one a keyword of draft-03.
		if name != "1.4-newer.json" && name != "1.0-positions.json" {
			checkDocument(t, text)
		}
	}
}

// TestSmallestDocument checks that the smallest document made by hand is valid.
func TestSmallestDocument(t *testing.T) {
	text, err := json.Marshal(Document{OpenRPC: Version14, Methods: []Method{{Name: "m", Examples: []ExamplePairing{{Name: "x"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, text)
	text, err = json.Marshal(Document{OpenRPC: Version13})
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, text)
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, text string }{
		{"no object", `[]`},
		{"null", `null`},
		{"nothing", ``},
		{"no version", `{"info":{},"methods":[]}`},
		{"version 2", `{"openrpc":"2.0.0","info":{"title":"","version":""},"methods":[]}`},
		{"OpenAPI", `{"openapi":"3.1.0","info":{"title":"","version":""},"paths":{}}`},
		{"methods as an object", `{"openrpc":"1.3.2","info":{"title":"","version":""},"methods":{}}`},
		{"a member twice", `{"openrpc":"1.3.2","openrpc":"1.3.2","info":{"title":"","version":""},"methods":[]}`},
	}
	for _, tt := range tests {
		if d, err := Parse([]byte(tt.text)); !errors.Is(err, ErrNoDocument) {
			t.Errorf("%s: Parse(%s) = %v, %v, want ErrNoDocument", tt.name, tt.text, d, err)
		}
	}
}

// TestParseIsExact checks that names are exact: a name that the standard library's codec would
// match in another case is an unknown member here, and is preserved.
func TestParseIsExact(t *testing.T) {
	text := []byte(`{"openrpc":"1.3.2","info":{"title":"","version":""},"methods":[],"Methods":[1]}`)
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(d.Extra["Methods"]); len(d.Methods) != 0 || got != "[1]" {
		t.Errorf("Methods = %v and Extra[Methods] = %s, want none and [1]", d.Methods, got)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range documents(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		once, err := encode(d)
		if err != nil {
			t.Fatalf("read, but cannot be written: %v\n%s", err, text)
		}
		again, err := Parse(once)
		if err != nil {
			t.Fatalf("written, but cannot be read: %v\n%s", err, once)
		}
		twice, err := encode(again)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("not stable (%v):\n%s\n%s", err, once, twice)
		}
		for i := range d.Methods {
			m := &d.Methods[i]
			for _, r := range d.Signature(m) {
				if unicode.IsControl(r) {
					t.Fatalf("a control character in %q", d.Signature(m))
				}
			}
		}
	})
}
