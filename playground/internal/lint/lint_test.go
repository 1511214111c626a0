package lint

import (
	"strings"
	"testing"

	"github.com/da1ed7bb/parley/jsonrpc"
	"github.com/da1ed7bb/parley/playground/internal/outline"
)

var arithmetic = &outline.Description{Methods: []outline.Method{{
	Name: "subtract", From: "client",
	Params: jsonrpc.Raw(`{"type":"object","x-order":["minuend","subtrahend"],"required":["minuend","subtrahend"],"properties":{"minuend":{"type":"integer"},"subtrahend":{"type":"integer","minimum":0}}}`),
}}}

func TestLint(t *testing.T) {
	for _, c := range []struct{ name, text, kind, pointer, says, lit string }{
		{"good", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,23]}`, "request", "", "", ""},
		{"good by name", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":{"subtrahend":1,"minuend":2}}`, "request", "", "", ""},
		{"a notification", `{"jsonrpc":"2.0","method":"subtract","params":[1,2]}`, "notification", "", "", ""},
		{"a response", `{"jsonrpc":"2.0","id":"s-1","result":null}`, "response", "", "", ""},
		{"nothing", "  ", "junk", "", "nothing to send", ""},
		{"no JSON", "{\n\"a\": tru}", "junk", "", "This is not JSON: ", "t"},
		{"not valid UTF-8", "{\"a\":\"\xff\"}", "junk", "", "not valid UTF-8", ""},
		{"no version", `{"id":1,"method":"subtract","params":[1,2]}`, "request", "", `"jsonrpc" is missing`, ""},
		{"another version", `{"jsonrpc":"1.0","id":1,"method":"subtract","params":[1,2]}`, "request", "/jsonrpc", "exactly", `"1.0"`},
		{"twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"subtract","params":[1,2]}`, "request", "/id", "Duplicate member", ""},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"subtract","params":[1,2]}`, "request", "/id", "string, a number or null", `{}`},
		{"null as id", `{"jsonrpc":"2.0","id":null,"method":"subtract","params":[1,2]}`, "request", "/id", "omit the id", `null`},
		{"no method", `{"jsonrpc":"2.0","id":1}`, "junk", "", "Not a request", ""},
		{"a number as method", `{"jsonrpc":"2.0","id":1,"method":1}`, "request", "/method", "must be a string", `1`},
		{"params are a text", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":"x"}`, "request", "/params", "array or an object", `"x"`},
		{"a text for a number", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,"23"]}`, "request", "/params/1", "is a string, but must be an integer", `"23"`},
		{"by name", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":{"minuend":1,"subtrahend":-2}}`, "request", "/params/subtrahend", "less than 0", `-2`},
		{"one is missing", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42]}`, "request", "/params", `lacks "subtrahend"`, `[42]`},
		{"too many", `{"jsonrpc":"2.0","id":1,"method":"subtract","params":[1,2,3]}`, "request", "/params", "has 3 items", ""},
		{"an unknown method", `{"jsonrpc":"2.0","id":1,"method":"subtrakt"}`, "request", "/method", `it lists "subtract"`, `"subtrakt"`},
		{"reserved", `{"jsonrpc":"2.0","id":1,"method":"rpc.mine"}`, "request", "/method", "reserved", ""},
		{"an empty batch", `[]`, "batch", "", "must not be empty", ""},
		{"a bad member", `[{"jsonrpc":"2.0","method":"subtract","params":[1,2]},{"foo":"boo"}]`, "batch", "/1", "\"jsonrpc\" is missing", `{"foo":"boo"}`},
		{"a number in a batch", `[1]`, "batch", "/0", "A message must be an object", "1"},
		{"the same id twice", `[{"jsonrpc":"2.0","id":1,"method":"subtract","params":[1,2]},{"jsonrpc":"2.0","id":1,"method":"subtract","params":[1,2]}]`, "batch", "/1/id", "Two members", ""},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":"x"}}`, "response", "", "not both", ""},
		{"an error without a code", `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`, "response", "/error", "code", ""},
		{"a fraction as code", `{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"x"}}`, "response", "/error", "integer", ""},
		{"deep", strings.Repeat("[", 2000), "junk", "", "not JSON", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &linter{text: []byte(c.text), known: arithmetic, protocol: outline.ProtocolJSONRPC}
			if kind := l.look(); kind != c.kind {
				t.Errorf("%s is %s, want %s", c.text, kind, c.kind)
			}
			if c.says == "" {
				if len(l.marks) > 0 {
					t.Errorf("%s: %+v, want no marks", c.text, l.marks)
				}
				return
			}
			for _, m := range l.marks {
				if strings.Contains(m.Text, c.says) && m.Pointer == c.pointer && (c.lit == "" || string(l.text[m.From:m.To]) == c.lit) {
					return
				}
			}
			t.Errorf("%s: %+v, want %q at %q, lit %q", c.text, l.marks, c.says, c.pointer, c.lit)
		})
	}
}

// FuzzLint checks that for any text, nothing panics, and every mark lies within the text.
func FuzzLint(f *testing.F) {
	for _, seed := range []string{`{"jsonrpc":"2.0","id":1,"method":"subtract","params":[42,"23"]}`, `[{},1,"\ud800"]`, "{\"a\":\n", `{"id":1e999,"error":{}}`, "[[[[", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l := &linter{text: text, known: arithmetic, protocol: outline.ProtocolMCP}
		l.look()
		for _, m := range l.marks {
			if m.From < 0 || m.To > len(text) || m.From > m.To || m.Text == "" {
				t.Errorf("%q: %+v", text, m)
			}
		}
	})
}
