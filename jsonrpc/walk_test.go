package jsonrpc_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	. "github.com/da1ed7bb/parley/jsonrpc"
)

// broken are texts that are not valid JSON, with what the iterations yield before they stop: names
// and values in order.
var broken = []struct {
	text string
	want []string
}{
	{``, nil}, {` `, nil}, {`{`, nil}, {`[`, nil}, {` {  `, nil}, {"\t[\n", nil}, {`"`, nil}, {`}`, nil}, {`]`, nil}, {`x`, nil}, {"\x00", nil},
	{`{"`, nil}, {`{"a`, nil}, {`{"a\`, nil}, {`{"a\"`, nil}, {`{"a\u`, nil}, {`{"a"`, nil}, {`{"a" `, nil}, {`{"a":`, nil}, {`{"a": `, nil}, {`{"a":1`, nil},
	{`{"a":"`, nil}, {`{"a":"\`, nil}, {`{"a":"\\`, nil}, {`{"a":{`, nil}, {`{"a":{}`, nil}, {`{"a":[{]`, nil}, {`{"a":}`, nil}, {`{"a":]`, nil}, {`{"a":,`, nil},
	{`{"a"}`, nil}, {`{"a",1}`, nil}, {`{a:1}`, nil}, {`{,"a":1}`, nil}, {`{"a":!}`, nil}, {"{\"a\":\x00}", nil}, {`{1:2}`, nil}, {`{"a"::1}`, nil},
	{`{"\u12":1}`, []string{"\ufffd", "1"}},
	{`{"a":1,`, []string{"a", "1"}}, {`{"a":1,}`, []string{"a", "1"}}, {`{"a":1,,"b":2}`, []string{"a", "1"}}, {`{"a":1 "b":2}`, []string{"a", "1"}},
	{`{"a":1]`, []string{"a", "1"}}, {`{"a":1,"b"`, []string{"a", "1"}}, {`{"a":1,"b":"x}`, []string{"a", "1"}}, {`{"a":1:2}`, []string{"a", "1"}},
	{`[1`, nil}, {`["`, nil}, {`["\`, nil}, {`[,`, nil}, {`[,1]`, nil}, {`[:]`, nil}, {`[}`, nil}, {`[{`, nil}, {`[[[`, nil}, {`[!]`, nil}, {`[[!]]`, nil},
	{`[1,`, []string{"1"}}, {`[1,]`, []string{"1"}}, {`[1,,2]`, []string{"1"}}, {`[1 2]`, []string{"1"}}, {`[1}`, []string{"1"}}, {`["a""b"]`, []string{`"a"`}},
	{`["` + strings.Repeat("x", 100), nil}, {`["` + strings.Repeat("x", 100) + `\`, nil}, {`["` + strings.Repeat("x", 100) + `\"`, nil},
	{`{"` + strings.Repeat("x", 100), nil}, {`["` + strings.Repeat(`\`, 101) + `"`, nil}, {`["` + strings.Repeat(`\`, 101) + `"]`, nil},
}

func TestIterationStopsInInvalidText(t *testing.T) {
	for _, tt := range broken {
		var got []string
		for name, value := range Raw(tt.text).Members() {
			got = append(got, string(name), string(value))
		}
		for value := range Raw(tt.text).Elements() {
			got = append(got, string(value))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestIterationYieldsPartsInOrder(t *testing.T) {
	text := Raw("\r\n {\"b\" : 1.50 , \"a\":[ {} ] ,\t\"b\":\"\\u0041\",\"\":null,\"\\ud83d\\ude00\\n\":true,\"\\ud800x\":{\"k\" : -0}} ")
	want := []string{"b", "1.50", "a", "[ {} ]", "b", `"\u0041"`, "", "null", "😀\n", "true", "\ufffdx", `{"k" : -0}`}
	var got []string
	for name, value := range text.Members() {
		got = append(got, string(name), string(value))
		if cap(value) != len(value) {
			t.Errorf("%s has capacity %d", value, cap(value))
		}
		if i := bytes.Index(text, value); &text[i] != &value[0] {
			t.Errorf("%s is a copy", value)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("members %q, want %q", got, want)
	}
	for range text.Elements() {
		t.Error("an object has elements")
	}
	got = nil
	for value := range Raw(" [ 1 , \"]\" ,[],{},\"\\\\\",null] ").Elements() {
		got = append(got, string(value))
		if cap(value) != len(value) {
			t.Errorf("%s has capacity %d", value, cap(value))
		}
	}
	if want := []string{"1", `"]"`, "[]", "{}", `"\\"`, "null"}; !slices.Equal(got, want) {
		t.Errorf("elements %q, want %q", got, want)
	}
	for _, text := range []Raw{nil, {}, Raw("null"), Raw(`"{}"`), Raw("1"), Raw("{}"), Raw("[]"), Raw(" [ ] "), Raw(" { } ")} {
		for range text.Members() {
			t.Errorf("%s has members", text)
		}
		for range text.Elements() {
			t.Errorf("%s has elements", text)
		}
	}
	for name := range Raw(`{"a":1,"b":2}`).Members() {
		if string(name) != "a" {
			t.Error("the iteration continues after break")
		}
		break
	}
	for value := range Raw(`[1,2]`).Elements() {
		if string(value) != "1" {
			t.Error("the iteration continues after break")
		}
		break
	}
}

func TestIterationDoesNotAllocate(t *testing.T) {
	long := strings.Repeat("name", 20)
	text := Raw(` {"a":1,"params":{"b":[1,"\n"]},"` + long + `":"` + long + `\\","list":[1,{"a":2},"x"]}`)
	n := 0
	if got := testing.AllocsPerRun(100, func() {
		for name, value := range text.Members() {
			n += len(name)
			for one := range value.Elements() {
				n += len(one)
			}
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
	// with escapes one buffer serves all names
	text = Raw(`{"\u0061":1,"\u0062":2,"\u0063":3,"\u0064":4}`)
	if got := testing.AllocsPerRun(100, func() {
		for name := range text.Members() {
			n += len(name)
		}
	}); got != 1 {
		t.Errorf("%v allocations for names with escapes", got)
	}
}

func TestStringEnds(t *testing.T) {
	// around the length from which the end is searched in another way
	for n := range 100 {
		for _, end := range []string{``, `\\`, `\"`, `\\\"`, `\"\\`, `\"x`, `\\\\`, `\"\"\"`, `\u0022`} {
			inner := `"` + strings.Repeat("x", n) + end + `"`
			var got []string
			for value := range Raw(`[` + inner + `,` + inner + `]`).Elements() {
				got = append(got, string(value))
			}
			for name, value := range Raw(`{` + inner + `:1}`).Members() {
				text, err := jsontext.AppendUnquote(nil, inner)
				if err != nil || string(name) != string(text) {
					t.Errorf("%s: name %q", inner, name)
				}
				got = append(got, string(value))
			}
			if want := []string{inner, inner, "1"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
}

// FuzzIteration iterates over any bytes, which must end, and compares valid JSON with an
// independent reader.
func FuzzIteration(f *testing.F) {
	seeds(f)
	for _, tt := range broken {
		f.Add([]byte(tt.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		count := 0
		visit := func(part Raw) {
			if count++; count > len(text) {
				t.Fatalf("%q has %d parts", text, count)
			}
			if cap(part) != len(part) || len(part) == 0 {
				t.Fatalf("%q: a part of length %d, capacity %d", text, len(part), cap(part))
			}
		}
		for _, value := range Raw(text).Members() {
			visit(value)
		}
		for value := range Raw(text).Elements() {
			visit(value)
		}
		raw, err := ParseRaw(text)
		if err != nil {
			return
		}
		d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		opening, err := d.ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		switch opening.Kind() {
		case '{':
			for d.PeekKind() != '}' {
				name, err := d.ReadToken()
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, name.String())
				value, err := d.ReadValue()
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, string(value))
			}
		case '[':
			for d.PeekKind() != ']' {
				value, err := d.ReadValue()
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, string(value))
			}
		}
		for name, value := range raw.Members() {
			got = append(got, string(name), string(value))
		}
		for value := range raw.Elements() {
			got = append(got, string(value))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q\n got %q\nwant %q", raw, got, want)
		}
	})
}

// FuzzAppendString compares the text of a string with the codec's.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\x00\b\t\n\f\r\x1f\x7f\"\\/<>&", "ä😀\u2028\ufffd", "\xff", "a\xc3", "\xe2\x82x", "\xed\xa0\x80", "\xf0\x9f\x98"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		// the error reports invalid UTF-8, which was replaced
		want, _ := jsontext.AppendQuote([]byte("x"), s)
		if got := AppendString([]byte("x"), s); string(got) != string(want) {
			t.Fatalf("%q: %s, want %s", s, got, want)
		}
	})
}
