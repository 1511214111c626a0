package main

import (
	"slices"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/jsonrpc/openrpc"
)

// TestReplCompletes checks that Tab completes methods, parameters and commands, and never inserts
// hidden characters of the server.
func TestReplCompletes(t *testing.T) {
	number := jsonrpc.Raw(`{"type":"number"}`)
	r := &repl{offered: &openrpc.Document{Methods: []openrpc.Method{
		{Name: "subtract", Params: []openrpc.ContentDescriptor{{Name: "minuend", Schema: number}, {Name: "subtrahend", Schema: number}}},
		{Name: "sum"}, {Name: "evil\x1b[2J"},
	}}}
	for _, tt := range []struct{ line, want string }{
		{"sub", "subtract "},
		{"s", "su"},
		{"su", "su"},
		{"ev", "ev"},
		{"x", "x"},
		{"subtract m", "subtract minuend:="},
		{".notify subtract s", ".notify subtract subtrahend:="},
		{".help sub", ".help subtract "},
		{".l", ".list "},
	} {
		got, at, ok := r.complete(tt.line, len(tt.line), '\t')
		if got != tt.want || at != len(tt.want) || !ok {
			t.Errorf("%q becomes %q with the cursor at %d, want %q", tt.line, got, at, tt.want)
		}
	}
	if _, _, ok := r.complete("sub", 3, 'x'); ok {
		t.Error("a letter completes")
	}
}

// TestSplitLine checks that quotes and JSON values are one word.
func TestSplitLine(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{`subtract 42 23`, []string{"subtract", "42", "23"}},
		{`echo "two words" 'it is' x`, []string{"echo", `"two words"`, "it is", "x"}},
		{`echo [1, "]"] {"a": {"b": "}"}}`, []string{"echo", `[1, "]"]`, `{"a": {"b": "}"}}`}},
		{`echo a:={"b": 1} name="two words"`, []string{"echo", `a:={"b": 1}`, "name=two words"}},
		{`echo a[0]`, []string{"echo", "a[0]"}},
		{`echo 'open`, nil},
		{`echo {"a"`, nil},
	} {
		got, err := splitLine(tt.line)
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.want == nil) {
			t.Errorf("%s is %q, %v, want %q", tt.line, got, err, tt.want)
		}
	}
}
